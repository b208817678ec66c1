"""The code in docs/airflow/ runs, and the examples in it are the examples; tests/docs runs the tutorial, index.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import ServerProcess
from tests.support.page_blocks import blocks_of, pages

# MessageQueueTrigger loads every installed provider, and some of those warn.
pytestmark = pytest.mark.filterwarnings("default")

ROOT = Path(__file__).parents[3]
GUIDES = [page for page in pages() if page.parent.name == "airflow" and page.stem != "index"]
BLOCKS = [block for page in GUIDES for block in blocks_of(page) if block.language == "python"]
FILES = {block.says: block.code for block in BLOCKS if block.mark == "file"}
SNIPPETS = {str(block): block.code for block in BLOCKS if not block.mark}


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as one:
        yield one


@pytest.mark.parametrize("file", sorted(path.name for path in (ROOT / "dags_examples").glob("*.py")))
def test_examples_are_shown_as_they_are(file: str) -> None:
    if f"dags_examples/{file}" not in FILES and "spark" in file:
        pytest.skip("described in the how-to on Spark")
    assert FILES[f"dags_examples/{file}"] == (ROOT / "dags_examples" / file).read_text()


@pytest.mark.parametrize("code", SNIPPETS.values(), ids=SNIPPETS.keys())
def test_the_code_runs(
    code: str, server: ServerProcess, connect: Any, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from chasqui_provider.operators import manage
    from chasqui_provider.timetables import snapshot

    kept: dict[str, Any] = {}
    monkeypatch.setattr(manage.Variable, "set", lambda name, value, **_: kept.update({name: value}))
    monkeypatch.setattr(snapshot.Variable, "get", lambda name, **_: kept.get(name))
    connect(url=server.url)
    exec(compile(code, "docs/airflow", "exec"), {"context": context, "__name__": "docs"})
