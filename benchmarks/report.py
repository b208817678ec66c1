"""Results as text: for the terminal, and for README.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks import redis_benchmark, thresholds
from benchmarks.results import Measured, Results

README = Path(__file__).parent / "README.md"


def amount(figure: float, unit: str) -> str:
    """`12,345` or `1.24`, without the unit."""
    return f"{figure:,.0f}" if unit in ("jobs/s", "bytes/job") or figure >= 100 else f"{figure:.2f}"


def for_terminal(results: Results) -> str:
    """Scenario by scenario, one line per contestant."""
    lines = []
    for name, measured in results.scenarios.items():
        for row, unit in measured.units.items():
            lines.append(f"\n{row} ({unit}): {measured.what}")
            lines += _contestants(results, measured, row, unit)
        lines += [f"{'':>10}  {who} left out: {why}" for who, why in measured.left_out.items()]
        lines += [f"{'':>10}  {who} FAILED in {name}: {why}" for who, why in measured.failed.items()]
    return "\n".join([*lines, "", *thresholds.verdicts(results)])


def _contestants(results: Results, measured: Measured, row: str, unit: str) -> Iterator[str]:
    for who in results.contestants:
        figure = measured.figure(row, who)
        if figure is not None:
            ratio = measured.ratio(row, results.baseline, who)
            against = f"{ratio:.2f} ×" if ratio is not None and who != results.baseline else ""
            yield f"{against:>10}  {who} {amount(figure, unit)}"


def as_markdown(results: Results) -> str:
    """The table: a row per figure, a column per contestant, and what was left out."""
    others = [who for who in results.contestants if who not in (results.baseline, redis_benchmark.LABEL)]
    lines = [
        f"| scenario | unit | {results.baseline} | {' | '.join(others)} | left out |",
        f"| --- | --- | ---: |{' ---: |' * len(others)} --- |",
    ]
    for name, measured in results.scenarios.items():
        if name == redis_benchmark.NAME:
            continue
        lines += [_row(results, measured, row, others) for row in measured.units]
    return "\n".join([*lines, "", *_notes(results)])


def _row(results: Results, measured: Measured, row: str, others: list[str]) -> str:
    unit = measured.units[row]
    ours = measured.figure(row, results.baseline)
    cells = [row, unit, "–" if ours is None else f"**{amount(ours, unit)}**"]
    for who in others:
        figure, ratio = measured.figure(row, who), measured.ratio(row, results.baseline, who)
        cells.append("–" if figure is None or ratio is None else f"{_times(ratio)} ({amount(figure, unit)})")
    return f"| {' | '.join(cells)} | {_missing(measured)} |"


def _times(ratio: float) -> str:
    return f"{ratio:.2f} ×" if ratio < 10 else f"{ratio:.0f} ×"


def _missing(measured: Measured) -> str:
    by_reason: dict[str, list[str]] = {}
    for who, why in measured.left_out.items():
        by_reason.setdefault(why, []).append(who)
    for who in measured.failed:
        by_reason.setdefault("failed", []).append(who)
    return "; ".join(f"{', '.join(who)}: {why}" for why, who in by_reason.items())


def _notes(results: Results) -> Iterator[str]:
    fewer: dict[str, list[str]] = {}
    for name, measured in results.scenarios.items():
        for who, jobs in measured.jobs.items():
            if jobs < measured.jobs.get(results.baseline, 0):
                fewer.setdefault(who, []).append(f"{name} {jobs:,}")
    if fewer:
        yield f"Jobs, where a peer got fewer than {results.baseline}:\n"
        yield from (f"- {who}: {', '.join(names)}" for who, names in fewer.items())
        yield ""
    again = [
        f"{who} {more} in {name}"
        for name, measured in results.scenarios.items()
        for who, more in measured.ran_again.items()
        if more
    ]
    if again:
        yield f"Runs beyond one per job, over all repeats: {', '.join(again)}.\n"
    if (measured := results.scenarios.get(redis_benchmark.NAME)) is not None:
        figures = (
            f"{row.removeprefix('limit, ')} {measured.figure(row, redis_benchmark.LABEL) or 0:,.0f}"
            for row in redis_benchmark.ROWS
        )
        yield f"The limit, `redis-benchmark` XADD per second: {', '.join(figures)}.\n"
    yield from (f"- {verdict}" for verdict in thresholds.verdicts(results))
    versions = [f"{who} {packages.get(who, '')}".strip() for who, packages in results.versions.items()]
    dates = sorted(measured.taken[:10] for measured in results.scenarios.values())
    yield f"\nMedian of {results.repeat}; {results.server}; {results.machine}; {', '.join(versions)}; {dates[-1]}."


def fill_readme(results: Results, server: str) -> None:
    """Puts the table between its two marks, if README.md has them."""
    begin, end = f"<!-- results {server} -->\n", f"<!-- end {server} -->"
    text = README.read_text()
    before, found, rest = text.partition(begin)
    if found and end in rest:
        README.write_text(f"{before}{begin}\n{as_markdown(results)}\n\n{end}{rest.partition(end)[2]}")
