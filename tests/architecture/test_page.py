"""The page on the architecture names modules that exist."""

from __future__ import annotations

import re

import pytest

from tests.support.source import ROOT

PAGE = (ROOT / "docs/architecture.md").read_text()
ENGINE = ROOT / "chasqui_engine"
PROVIDER = ROOT / "chasqui_provider"
ROOMS = (
    *(ENGINE, ENGINE / "queue", ENGINE / "_redis", ENGINE / "consumer", ENGINE / "_redis/commands/lua"),
    *(ENGINE / "spark/write", PROVIDER, PROVIDER / "waiting"),
)
PATHS = re.findall(r"`([^`]+ → [^`]+)`", PAGE)
TABLE = [line for line in PAGE.splitlines() if line.startswith("| ") and line[2].isdigit()]
NAMED = sorted(
    {name for row in TABLE for name in re.findall(r"`([\w/]+)`", row.split("|")[2])}
    | set(re.findall(r"`([\w/]+\.(?:py|lua)|\w+/)`", PAGE))
)


def test_modules_are_named() -> None:
    assert {"codec/", "consumer/", "settlement.py", "group/release.lua"} <= set(NAMED)


@pytest.mark.parametrize("name", NAMED)
def test_a_named_module_exists(name: str) -> None:
    candidates = [name] if name.endswith(("/", ".py", ".lua")) else [f"{name}.py"]
    assert any((room / candidate).exists() for room in ROOMS for candidate in candidates), f"{name} is nowhere"


@pytest.mark.parametrize("arrow", ["enqueue", "codec", "reader", "runner", "verdict", "settlement"])
def test_each_arrow_of_the_path_is_a_module(arrow: str) -> None:
    assert any((room / f"{arrow}.py").exists() or (room / arrow).is_dir() for room in ROOMS)


def test_three_paths_are_described() -> None:
    """A job, a wait in Airflow, a write from Spark."""
    assert [len(path.split(" → ")) for path in PATHS] == [7, 7, 7]


@pytest.mark.parametrize("step", [step for path in PATHS[1:] for step in path.split(" → ")])
def test_each_step_of_the_other_paths_is_a_module(step: str) -> None:
    assert (ENGINE / step).is_file() or (PROVIDER / step).is_file(), f"{step} is nowhere"
