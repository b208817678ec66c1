"""Payloads are data: nothing in the product can turn bytes into code."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from tests.support.source import Source, product_files, read

if TYPE_CHECKING:
    from collections.abc import Iterator

ALLOWED = {
    # Talks to children that it started itself, over pipes that nobody else holds.
    "chasqui_engine/consumer/execution/processes.py": {"pickle"},
    # Packs and unpacks what Spark itself would pickle, between the driver and the tasks of one program.
    "chasqui_engine/spark/shipped.py": {"pickle"},
    # Runs the examples that are shipped with it.
    "demo/airflow.py": {"run_path"},
    # Imports its own modules, by a table of its own.
    "chasqui_engine/__init__.py": {"import_module"},
    # Imports its own commands, and what whoever types the command names.
    "chasqui_engine/cli/": {"import_module"},
}

MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle", "joblib"}
BUILTINS = {"eval", "exec", "compile", "__import__"}
FUNCTIONS = {"import_module", "import_string", "load_source", "run_path", "run_module"}


def dangers(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            names = {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {(node.module or "").partition(".")[0], *(alias.name for alias in node.names)} & (
                MODULES | FUNCTIONS
            )
        elif isinstance(node, ast.Call):
            names = {node.func.id} if isinstance(node.func, ast.Name) else set()
            names |= {node.func.attr} & FUNCTIONS if isinstance(node.func, ast.Attribute) else set()
            if any(word.arg == "shell" for word in node.keywords):
                yield f"line {node.lineno}: shell="
        else:
            continue
        for name in names & (MODULES | BUILTINS | FUNCTIONS):
            yield f"line {node.lineno}: {name}"


@pytest.mark.parametrize("path", product_files(), ids=str)
def test_nothing_is_unpickled_evaluated_or_imported_by_name(path: object) -> None:
    source = read(path)  # type: ignore[arg-type]
    allowed = {name for place, names in ALLOWED.items() if source.path.startswith(place) for name in names}
    assert [danger for danger in dangers(source) if danger.rpartition(" ")[2] not in allowed] == []


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from pickle import loads",
        "import importlib\nimportlib.import_module(name)",
        "from importlib import import_module",
        "eval(text)",
        "exec(text)",
        "__import__(name)",
        "subprocess.run(text, shell=True)",
    ],
)
def test_each_of_them_would_be_found(text: str) -> None:
    assert list(dangers(Source("m", False, text)))
