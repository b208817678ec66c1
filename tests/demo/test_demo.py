"""The demo's parts are run in order, and the last screen tells the truth about them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from demo import __main__ as demo


def part(title: str, code: str, missing: str | None = None) -> demo.Part:
    return demo.Part(title, [sys.executable, "-c", code], lambda: missing)


def show(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *shown: demo.Part) -> tuple[int, list[tuple[str, Path]]]:
    asked: list[tuple[str, Path]] = []

    def parts(url: str, report: Path) -> list[demo.Part]:
        asked.append((url, report))
        return list(shown)

    monkeypatch.setattr(demo, "parts", parts)
    monkeypatch.setattr(demo.tempfile, "mkdtemp", lambda prefix: str(tmp_path))
    return demo.main([]), asked


def test_all_parts_run_on_one_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    url = f"embedded://{tmp_path}/queues"
    add = (
        f"from chasqui_engine import SyncQueue as Q\nwith Q('demo', redis_url={url!r}) as q: q.add('a', 1, job_id='a')"
    )
    see = (
        f"from chasqui_engine import SyncQueue as Q\nwith Q('demo', redis_url={url!r}) as q: print(q.counts().waiting)"
    )
    code, asked = show(monkeypatch, tmp_path, part("first", add), part("second", see), part("third", "", "no Java"))
    assert asked == [(url, tmp_path / "report")]
    said = capfd.readouterr().out
    assert code == 0, said
    assert "── 2/3 second\n\n1\n" in said
    last = said.partition("The demo took")[2]
    assert "first: done in" in last
    assert "third: left out: no Java" in last
    assert f"chasqui inspect demo --url {url}" in last
    assert "report.html" not in last, "there is none"
    assert str(tmp_path) in last


def test_a_part_that_fails_is_named_and_the_others_still_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    page = f"import pathlib; p = pathlib.Path({str(tmp_path)!r}, 'report'); p.mkdir(); (p / 'report.html').touch()"
    code, _ = show(monkeypatch, tmp_path, part("broken", "raise SystemExit(3)"), part("page", page))
    last = capfd.readouterr().out.partition("The demo took")[2]
    assert code == 1
    assert "broken: failed: exit code 3" in last
    assert f"the report       {tmp_path}/report/report.html" in last


def test_a_part_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "PART_TIMEOUT_S", 0.3)
    assert demo.run(part("stuck", "import time; time.sleep(60)")) == "failed: not done after 0.3 s"


def test_the_real_parts_are_programs_of_the_packages(tmp_path: Path) -> None:
    modules = [one.command[4] for one in demo.parts("embedded:///x", tmp_path)]
    assert modules == ["demo.engine", "demo.airflow", "demo.spark"]


@pytest.mark.parametrize("module", ["no_such_module", "pytest"])
def test_what_is_not_installed_is_said(module: str) -> None:
    told = demo._extra(module, "some")
    assert told is None if module == "pytest" else "chasqui[some]" in str(told)
