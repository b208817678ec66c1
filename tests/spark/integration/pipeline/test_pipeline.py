"""The pipeline's numbers are those of a plain pass over the same events, however the events come in."""

from __future__ import annotations

import hashlib
import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chasqui_engine.pipeline import gold
from chasqui_engine.pipeline.config import PipelineConfig
from chasqui_engine.pipeline.files import Files
from chasqui_engine.pipeline.run import Pipeline
from tests.spark.integration.pipeline.checks import Reports, check_gold, check_silver, silver_rows
from tests.spark.integration.pipeline.made_events import (
    START_MS,
    Event,
    completed,
    event,
    events_of_jobs,
    shuffled_batches,
)
from tests.spark.integration.pipeline.pipelines import AFTER_BRONZE, COLUMNS, WINDOW_S, far_from_utc, pipeline, tell

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from pyspark.sql import SparkSession

    from tests.spark.integration.conftest import Queues


PROMISES: list[dict[str, Any]] = [
    {"queue": "q", "success_rate": 0.7, "latency_p95_ms": 4000, "backlog": 3, "min_finished": 2},
    {"queue": "q", "name": "send", "handler_p95_ms": 12_000, "throughput_per_s": 0.0005},
    {"queue": "q", "name": "nobody", "dead_rate": 0.1},
]


@pytest.fixture(autouse=True)
def elsewhere(spark: SparkSession) -> Iterator[None]:
    with far_from_utc(spark):
        yield


def digest_of(folder: Path) -> str:
    state = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "checkpoints" not in path.parts:
            state.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return state.hexdigest()


class CrashError(Exception):
    pass


class Crashes:
    """Every change by which the pipeline makes something known dies once, just before it is made: with all that comes
    before it done, and nothing of what comes after."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places: list[str] = []
        for name in ("write_text", "remove", "move"):
            monkeypatch.setattr(Files, name, self._deadly(name, getattr(Files, name)))

    def outlive(self, work: Callable[[], Any]) -> None:
        """Runs work again and again until nothing is left that could crash."""
        for _ in range(100):
            try:
                work()
            except CrashError:
                continue
            return
        raise AssertionError("it crashes for ever")

    def _deadly(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def change(store: Files, *args: Any) -> Any:
            place = f"{name} {'/'.join(map(str, args[1:] if name == 'write_text' else args))}"
            # What was put together once more has one letter more in its name, and is the same place.
            place = re.sub(r"(\d{12})c+", r"\1c", place)
            if place not in self.places:
                self.places.append(place)
                raise CrashError(place)
            return real(store, *args)

        return change


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 7))])
def test_the_numbers_are_those_of_a_plain_pass(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    events = events_of_jobs(rng, jobs=60)
    first, second = shuffled_batches(rng, events, 2)
    reports, clock = Reports(PROMISES), [START_MS / 1000 + 86_400]
    out = tmp_path / "out"
    work = pipeline(spark, out, slo_file=reports.write(tmp_path), now=lambda: clock[0])
    tell(work, 0, first)
    summary = work.run(AFTER_BRONZE)
    windows = check_silver(work, first)
    check_gold(work, windows)
    assert summary is not None
    reports.check(summary, windows, clock[0])

    clock[0] += 7 * 86_400
    with pytest.MonkeyPatch.context() as patch:
        crashes = Crashes(patch)
        # A batch that was not known to be whole comes again from the checkpoint, with the same number.
        crashes.outlive(lambda: tell(work, 1, second))
        crashes.outlive(lambda: work.run(AFTER_BRONZE))
    boundaries = ["bronze/_whole", "silver/manifest", "gold/manifest", "report/index.html", "report/summary.json"]
    for boundary in boundaries:
        assert any(boundary in place for place in crashes.places), boundary
    windows = check_silver(work, events)
    check_gold(work, windows)
    written = work.store.read_json("report", "summary.json")
    assert written is not None
    assert written["gold"] == gold.read_manifest(work.store)["version"]
    reports.check(written, windows, clock[0])
    before = digest_of(out)
    summary = work.run(AFTER_BRONZE)
    assert digest_of(out) == before, "nothing new changes nothing"
    assert summary is not None
    reports.check(summary, windows, clock[0])


@pytest.mark.slow
def test_compaction_changes_no_answer(spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(5)
    events = events_of_jobs(rng, jobs=20, span_ms=3_600_000)
    work = pipeline(spark, tmp_path, compact_after=1, keep_days=2)
    batches = shuffled_batches(rng, events, 4)
    for number, batch in enumerate(batches[:3]):
        tell(work, number, batch)
    work.run(("silver",))
    (day,) = work.store.list_folders("bronze", "events", "q")[:1]
    assert len(work.store.list_folders("bronze", "events", "q", day)) == 3
    with pytest.MonkeyPatch.context() as patch:
        crashes = Crashes(patch)
        crashes.outlive(lambda: work.tidy("2026-09-22"))
    assert any(place.startswith("move") for place in crashes.places)
    assert len(work.store.list_folders("bronze", "events", "q", day)) == 1
    tell(work, 3, batches[3])
    work.run(("silver",))
    check_silver(work, events)
    work.tidy("2026-12-31")
    assert work.store.list_folders("bronze", "events", "q") == []


def add_events(client: redis.Redis, key: str, events: list[Event]) -> None:
    pipe = client.pipeline(transaction=False)
    for told in events:
        names = {"event": "e", "job_id": "id", "name": "n", "enqueued_at": "enqueued_at_ms"}
        fields = {names.get(c, c): told[c] for c in COLUMNS[1:] if told[c] is not None}
        pipe.xadd(key, fields, id=told["entry_id"])
    pipe.execute()


@pytest.mark.slow
def test_from_the_queue_to_the_page(q: Queues, client: redis.Redis, tmp_path: Path) -> None:
    rng = random.Random(9)
    events = sorted(
        events_of_jobs(rng, jobs=80, span_ms=6 * 3_600_000), key=lambda e: tuple(map(int, e["entry_id"].split("-")))
    )
    slo = tmp_path / "slo.yaml"
    slo.write_text(
        f"slos:\n  - queue: {q.queue}\n    success_rate: 0.99\n"
        f"  - {{queue: {q.queue}, name: send, handler_p95_ms: 1}}\n"
    )
    said: list[str] = []
    config = PipelineConfig(
        queues=(q.queue,),
        out=f"file://{tmp_path}/out",
        url=q.url,
        window_s=WINDOW_S,
        slo_file=str(slo),
        max_rows_per_batch=1000,
    )
    work = Pipeline(q.spark, config, said.append)
    add_events(client, q.key("events"), events[: len(events) // 2])
    work.run(("bronze",))
    add_events(client, q.key("events"), events[len(events) // 2 :])
    summary = work.run()
    check_gold(work, check_silver(work, events))
    assert any(text.startswith("bronze") for text in said)

    assert summary is not None
    found = summary["queues"][q.queue]
    kinds = [told["event"] for told in events]
    assert found["totals"]["completed"] == kinds.count("completed")
    assert summary["breaches"] == found["breaches_in_all"] > 0
    assert {breach["metric"] for breach in found["breaches"]} == {"success_rate", "handler_p95_ms"}
    assert [name["name"] for name in found["most_failing"]]
    html = (tmp_path / "out" / "report" / "index.html").read_text()
    assert html.count("<svg") == 6
    assert "prefers-color-scheme: dark" in html
    for outside in ("http://", "https://", "<script", "<link", "src="):
        assert outside not in html
    before = digest_of(tmp_path / "out")
    work.run()
    assert digest_of(tmp_path / "out") == before


def test_numbers_that_no_clock_and_no_counter_reaches_stop_nothing(spark: SparkSession, tmp_path: Path) -> None:
    most, least = 2**63 - 1, -(2**63)
    hostile = [
        event("delayed", START_MS, "a", delay_ms=most),
        event("active", START_MS + 1, "a", attempt=most),
        event("retry-scheduled", START_MS + 2, "b", attempt=least, backoff_ms=least),
        event("failed", START_MS + 3, "b", attempt=most, reason="x", duration_us=most),
        event("completed", START_MS + 4, "c", attempt=2**32 - 1, duration_us=least),
        {**event("dlq", START_MS, "d", attempt=1, reason="x"), "ts": None, "entry_id": f"{2**64 - 1}-{2**64 - 1}"},
    ]
    work = pipeline(spark, tmp_path)
    tell(work, 0, [*hostile, *completed(START_MS + 5, "good")])
    summary = work.run(AFTER_BRONZE)
    assert summary is not None
    totals = summary["queues"]["q"]["totals"]
    assert (totals["completed"], totals["failed"], totals["dead"]) == (2, 2, 1)
    rows = silver_rows(work)
    assert rows["c", 0, 2**32 - 1]["status"] == "completed"
    assert rows["a", 0, 1]["ready_at"] == rows["a", 0, 1]["enqueued_at"]


def test_an_empty_queue_makes_an_empty_report(q: Queues, tmp_path: Path) -> None:
    config = PipelineConfig(queues=(q.queue,), out=f"file://{tmp_path}", url=q.url)
    summary = Pipeline(q.spark, config).run(("silver", "gold", "report"))
    assert summary is not None
    assert summary["queues"] == {}
    assert "No events yet" in (tmp_path / "report" / "index.html").read_text()
