"""The code in docs/airflow.md runs, and the examples in it are the examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import ServerProcess

# MessageQueueTrigger loads every installed provider, and some of those warn.
pytestmark = pytest.mark.filterwarnings("default")

ROOT = Path(__file__).parents[3]
DOCUMENT = (ROOT / "docs/airflow.md").read_text()
BLOCK = re.compile(r"(?:<!-- file: (\S+) -->\n)?```python\n(.*?)```", re.DOTALL)
BLOCKS = [(match[1], match[2], DOCUMENT[: match.start()].count("\n") + 1) for match in BLOCK.finditer(DOCUMENT)]
FILES = {file: code for file, code, _ in BLOCKS if file}
SNIPPETS = {f"line {line}": code for file, code, line in BLOCKS if not file}


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
    exec(compile(code, "docs/airflow.md", "exec"), {"context": context, "__name__": "docs"})
