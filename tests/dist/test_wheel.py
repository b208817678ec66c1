"""The wheel and the sdist as they are built: what is in them, and what a package index shows of them."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [BIN / "uv", "build", "--quiet", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder]
    subprocess.run([*command, ROOT], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> zipfile.ZipFile:
    [built] = dist.glob("*.whl")
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def shown(wheel: zipfile.ZipFile) -> Message:
    """What an index shows."""
    [name] = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    return BytesParser().parsebytes(wheel.read(name))


def test_an_index_would_take_both(dist: Path) -> None:
    built = sorted(dist.glob("chasqui-*"))
    assert {path.suffix for path in built} == {".whl", ".gz"}
    done = subprocess.run([BIN / "twine", "check", "--strict", *built], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_wheel_holds_all_files_of_the_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "chasqui_engine",
            "chasqui_provider",
            "pyspark_chasqui",
        ],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    ).stdout.split()
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == set(listed)
    for kind in (".lua", "static/page.html", "py.typed", "chasqui_engine/__init__.pyi"):
        assert any(name.endswith(kind) for name in listed), kind


def test_programs_in_the_wheel_can_be_run(wheel: zipfile.ZipFile) -> None:
    mode = wheel.getinfo("chasqui_engine/spark/carried_java/bin/java").external_attr >> 16
    assert mode & 0o111


def test_the_page_on_an_index_has_no_link_that_leads_nowhere(shown: Message) -> None:
    page = str(shown.get_payload())
    links = re.findall(r"\]\(([^)]+)\)", page)
    urls = dict(url.split(", ", 1) for url in shown.get_all("Project-URL") or ())
    home = urls["Repository"]
    assert {"Repository", "Documentation", "Changelog", "Issues"} <= set(urls)
    assert all(url.startswith(home) for url in urls.values())
    raw = home.replace("https://github.com", "https://raw.githubusercontent.com")
    roots = (f"{home}/blob/HEAD/", f"{raw}/HEAD/")
    assert len(links) > 10
    for link in [*links, *(url for url in urls.values() if "/blob/" in url)]:
        assert link.startswith(roots), link
        path = link.removeprefix(roots[0]).removeprefix(roots[1])
        assert (ROOT / path).exists(), link
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page):
        assert picture.startswith(roots[1]), picture
