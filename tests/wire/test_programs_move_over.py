"""Programs written for ChasquiMQ say the same when nothing but their import is changed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).with_name("programs")
TIMEOUT_S = 90


def run(program: Path, url: str, queue: str) -> list[str]:
    """The lines that a program says, the last of which is `done`."""
    words = [sys.executable, str(program), url, queue]
    said = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert said.stdout.endswith("done\n"), said.stderr
    return said.stdout.splitlines()


def moved(program: Path, package: str, folder: Path) -> Path:
    """The program with another import."""
    text = program.read_text(encoding="utf-8")
    assert text.count("from chasquimq import") == 1
    file = folder / program.name
    file.write_text(text.replace("from chasquimq import", f"from {package} import"), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def said_by_theirs(redis86_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    queue = tmp_path_factory.mktemp("queue").name
    return {name: run(PROGRAMS / f"{name}.py", redis86_url, f"{queue}-{name}") for name in ("mail", "power_user")}


@pytest.mark.parametrize(
    ("program", "package"),
    [("mail", "chasqui_engine"), ("mail", "chasqui_engine.native"), ("power_user", "chasqui_engine.native")],
)
def test_a_program_says_the_same_when_its_import_is_changed(
    redis_url: str, queue_name: str, tmp_path: Path, said_by_theirs: dict[str, list[str]], program: str, package: str
) -> None:
    file = moved(PROGRAMS / f"{program}.py", package, tmp_path)
    theirs = [line.replace(redis_url, "") for line in said_by_theirs[program]]
    assert run(file, redis_url, queue_name) == theirs
