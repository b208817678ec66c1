"""The scale run's verdicts leave nothing out that it measures."""

from __future__ import annotations

from benchmarks.spark import beside, scale


def size(rows: int, work_us: float) -> dict[str, object]:
    return {"rows": rows, "us_per_row": {"write": 5.0, "work": work_us, "read": 3.0, "pipeline": 20.0}}


def test_every_step_has_a_verdict_also_one_that_missed() -> None:
    told = scale.verdicts({"sizes": [size(1000, 10.0), size(50_000, 16.4)]})
    assert [held for _, held in sorted(told.items())] == [True, True, False, True]
    (missed,) = [text for text, held in told.items() if not held]
    assert missed.startswith("worked off")
    assert "at 50,000 rows, one costs 1.64 × what it costs at 1,000 (bar 1.5)" in missed


def test_the_pipeline_is_held_against_the_quicker_of_its_rivals() -> None:
    found = {
        "events": 1000,
        "ours": {"bronze": 9.0, "silver": 2.5, "gold": 0.5, "report": 1.0},
        "rivals": {"polars": {"attempts": 2.0, "metrics": 0.5}, "duckdb": {"attempts": 1.5, "metrics": 0.5}},
    }
    assert beside.verdicts(found) == {"silver and gold take 1.5 × what duckdb takes (bar 2.0)": True}
    found["ours"]["silver"] = 9.5  # type: ignore[index]
    assert list(beside.verdicts(found).values()) == [False]
    assert "| attempts into metrics (gold) | 0.5 s, 500.00 µs | 0.5 s, 500.00 µs | 0.5 s, 500.00 µs |" in beside.table(
        found
    )
