"""The scale run's verdicts leave nothing out that it measures."""

from __future__ import annotations

from benchmarks.spark import scale


def size(rows: int, work_us: float) -> dict[str, object]:
    return {"rows": rows, "us_per_row": {"write": 5.0, "work": work_us, "read": 3.0, "pipeline": 20.0}}


def test_every_step_has_a_verdict_also_one_that_missed() -> None:
    told = scale.verdicts({"sizes": [size(1000, 10.0), size(50_000, 16.4)]})
    assert [held for _, held in sorted(told.items())] == [True, True, False, True]
    (missed,) = [text for text, held in told.items() if not held]
    assert missed.startswith("worked off")
    assert "at 50,000 rows, one costs 1.64 × what it costs at 1,000 (bar 1.5)" in missed
