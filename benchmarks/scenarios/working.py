"""Working off jobs that wait. The clock runs from the start of the first job to the start of the last."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.peers.peer import Work
from benchmarks.scenarios.scenario import Scenario

_JOBS = 50_000
_QUICK_JOBS = 10_000


def _work_off(name: str, what: str, work: Work, *, jobs: int = _JOBS, quick_jobs: int | None = _QUICK_JOBS) -> Scenario:
    times = 2 if work.handler == "fails once" else 1

    async def measure(bench: Bench) -> dict[str, float]:
        await bench.fill()
        with bench.workers():
            await bench.all_ran(times)
        bench.check_ran(times)
        return {name: bench.jobs / bench.record.span_s(bench.jobs)}

    return Scenario(name=name, what=what, jobs=jobs, quick_jobs=quick_jobs, measure=measure, work=work)


SCENARIOS = [
    _work_off("work", "waiting jobs, one process, 100 at once, async no-op; events and results off", Work()),
    _work_off("work-events", "the same, events on", Work(events=True)),
    _work_off("work-results", "the same, events off, results stored", Work(results=True)),
    _work_off("work-sync", "as work, with a plain function", Work(handler="plain")),
    _work_off("work-2", "as work, over 2 worker processes", Work(processes=2), quick_jobs=None),
    _work_off("retry", "every job fails once", Work(handler="fails once"), jobs=20_000, quick_jobs=3_000),
]
