"""Every code block of the documentation is run, or at least read by what it is written for."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.docs.commands import check, check_chasqui, commands_of, words_of
from tests.servers import REDIS_8, VALKEY, ServerProcess, Unavailable
from tests.support.page_blocks import ROOT, Block, blocks_of, inline_code, pages

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

RUN_ELSEWHERE = {
    "docs/airflow/": "tests/provider/integration/test_docs.py",
    "docs/spark.md": "tests/spark/integration/test_docs.py",
}
"""Pages whose Python needs more than a server: each is run by a test of its own. The tutorial is run here."""
TUTORIAL = "docs/airflow/index.md"
SERVERS = {"docs/coming-from/chasquimq.md": REDIS_8}
"""Pages that need a certain server; ChasquiMQ's worker does."""
MARKS = {"", "file", "save", "printed by", "run by", "compiled only"}


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


PAGES = pages()
BLOCKS = [block for page in PAGES for block in blocks_of(page)]


def _ini(code: str) -> None:
    # A unit file may repeat an option.
    configparser.ConfigParser(strict=False, interpolation=None).read_string(code)


READERS: dict[str, Callable[[str], Any]] = {
    "yaml": lambda code: list(yaml.safe_load_all(code)),
    "toml": tomllib.loads,
    "json": json.loads,
    "ini": _ini,
}


def is_run_elsewhere(page: str) -> bool:
    return page.startswith(tuple(RUN_ELSEWHERE)) and page != TUTORIAL


def is_run(block: Block) -> bool:
    """Whether the page's own test runs it."""
    if block.mark not in ("", "save") or is_run_elsewhere(named(block.page)):
        return False
    return block.language == "python" or (block.language == "sh" and bool(words_of(block)))


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_each_is_of_a_known_kind(block: Block) -> None:
    assert block.mark in MARKS, f"{block.mark!r} is no known mark"
    if block.mark == "file":
        assert block.code == (ROOT / block.says).read_text(encoding="utf-8")
    if block.mark == "run by":
        assert named(block.page) in (ROOT / block.says).read_text(encoding="utf-8")
    if block.mark == "compiled only":
        assert len(block.says) > 10, "say why it cannot be run"
    if block.language == "python":
        compile(block.code, str(block), "exec", flags=0x2000)  # with `await` at the top level
    elif block.language == "sh":
        assert [wrong for command in commands_of(block.code) if (wrong := check(command))] == []
    elif block.language == "text":
        starts = ("$ ", "chasqui ", "make ", "pip ")
        assert not any(line.startswith(starts) for line in block.code.splitlines()), "a command belongs into ```sh"
    else:
        assert block.language in READERS, f"nothing is known about blocks of {block.language!r}"
        READERS[block.language](block.code)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("page", [page for page in PAGES if any(map(is_run, blocks_of(page)))], ids=named)
def test_the_page_runs(page: Path, tmp_path: Path) -> None:
    if "curl " in page.read_text(encoding="utf-8") and shutil.which("curl") is None:
        pytest.skip("the page asks for curl, which is not on this machine")
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    with _server(SERVERS.get(named(page), VALKEY)) as server:
        # A reader's shell has none of what other tests set for their Airflow.
        shell = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW__")}
        environment = {
            **shell,
            "AIRFLOW_HOME": str(tmp_path / "airflow"),
            "CHASQUI_REDIS_URL": server.url,
            "PATH": path,
            "PWD": str(tmp_path),
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.docs.run_page", str(page)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=220,
            check=False,
        )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def _server(kind: str) -> ServerProcess:
    try:
        return ServerProcess(kind)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize(("page", "test"), RUN_ELSEWHERE.items())
def test_pages_run_elsewhere_are_run_there(page: str, test: str) -> None:
    assert page.strip("/") in (ROOT / test).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_in_the_text_are_there(page: Path) -> None:
    named_commands = [code.split()[1:] for code in inline_code(page) if code.startswith("chasqui ")]
    assert [wrong for words in named_commands if (wrong := check_chasqui(words))] == []


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.mark == "save"], ids=str)
def test_a_saved_file_is_used_by_the_page(block: Block) -> None:
    stem = PurePath(block.says).stem
    later = [other.code for other in blocks_of(block.page) if other.line > block.line]
    assert any(stem in code for code in later)
