"""The thresholds: what Chasqui must reach, checked against the results of one run."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import redis_benchmark
from benchmarks.peers import RIVAL, US
from benchmarks.results import Results

AT_LEAST = {
    "add": 2.0,
    "add-bulk-50": 1.7,
    "add-bulk-1000": 1.7,
    "work": 5.0,
    "work-events": 6.0,
    "work-results": 5.0,
    "latency p50": 1.0,
}
"""Row → ratio to ChasquiMQ's Python package."""
OF_THE_LIMIT = 0.55
"""add-bulk-1000 against redis-benchmark -P 50."""
MB_ABOVE = 10.0
"""How much larger than ChasquiMQ's a worker may be."""
OF_REDIS_86 = 0.8
"""Share of the throughput that other servers must keep."""


def verdicts(results: Results) -> list[str]:
    """One line per bar that this run can tell about."""
    if results.baseline.startswith(f"{US} on "):
        return list(_other_servers(results))
    if results.baseline != US:
        return []
    return [*_against_rival(results), *_limit(results), *_memory(results), *_everyone(results)]


def _line(met: bool, what: str, reached: str) -> str:
    return f"{'met' if met else 'MISSED'}: {what}, is {reached}"


def _against_rival(results: Results) -> Iterator[str]:
    for measured in results.scenarios.values():
        for row, who, ratio in measured.ratios(US):
            if who == RIVAL and row in AT_LEAST:
                yield _line(ratio >= AT_LEAST[row], f"{row} at least {AT_LEAST[row]} × {RIVAL}", f"{ratio:.2f} ×")


def _limit(results: Results) -> Iterator[str]:
    limits, bulks = results.scenarios.get(redis_benchmark.NAME), results.scenarios.get("add-bulk-1000")
    if limits is None or bulks is None:
        return
    most, ours = limits.figure("limit, -P 50", redis_benchmark.LABEL), bulks.figure("add-bulk-1000", US)
    if most and ours:
        share = ours / most
        yield _line(share >= OF_THE_LIMIT, f"add-bulk-1000 at least {OF_THE_LIMIT} of the limit", f"{share:.2f}")


def _memory(results: Results) -> Iterator[str]:
    measured = results.scenarios.get("memory-worker")
    if measured is None:
        return
    ours, theirs = measured.figure("memory worker", US), measured.figure("memory worker", RIVAL)
    if ours and theirs:
        what = f"a worker at most {MB_ABOVE:.0f} MB above {RIVAL}'s"
        yield _line(ours - theirs <= MB_ABOVE, what, f"{ours - theirs:+.1f} MB")


def _everyone(results: Results) -> Iterator[str]:
    # Memory has its own bar; everywhere else no peer may be ahead.
    behind = [
        f"{row}: {who} ({ratio:.2f} ×)"
        for name, measured in results.scenarios.items()
        if name != "memory-worker"
        for row, who, ratio in measured.ratios(US)
        if ratio < 1
    ]
    yield _line(not behind, "ahead of every peer in every scenario", "; ".join(behind) or "so")


def _other_servers(results: Results) -> Iterator[str]:
    for measured in results.scenarios.values():
        for row, who, ratio in measured.ratios(results.baseline):
            if measured.units[row] == "jobs/s":
                what = f"{row}: {who} at least {OF_REDIS_86} of {results.baseline}"
                yield _line(1 / ratio >= OF_REDIS_86, what, f"{1 / ratio:.2f}")
