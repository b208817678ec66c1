"""The reference has every public name, and each of them says what it is; the errors' page has every code."""

from __future__ import annotations

import functools
import inspect
import re
from importlib import import_module
from typing import Any

import griffe
import pytest

import chasqui_engine
from chasqui_engine import ChasquiError
from chasqui_engine.values.job import _REASON_CODES
from chasqui_provider.get_provider_info import get_provider_info
from tests.support.page_blocks import DOCS

SHOWN = re.findall(
    r"^::: (\S+)", "\n".join(page.read_text(encoding="utf-8") for page in sorted(DOCS.rglob("*.md"))), re.MULTILINE
)
FEWEST_WORDS = 4
"""Of a docstring that tells more than its name does."""


def test_every_public_name_is_in_the_reference_once() -> None:
    engine = [name.removeprefix("chasqui_engine.") for name in SHOWN if name.startswith("chasqui_engine.")]
    assert sorted(name for name in engine if "." not in name) == sorted(chasqui_engine.__all__)
    assert len(engine) == len(set(engine))


@pytest.mark.parametrize("path", [name for name in SHOWN if re.match(r"chasqui_engine\.\w+\.", name)])
def test_what_is_shown_of_a_package_is_exported_by_it(path: str) -> None:
    package, _, name = path.rpartition(".")
    assert name in import_module(package).__all__


@pytest.mark.parametrize("name", chasqui_engine.__all__)
def test_every_public_name_says_what_it_is(name: str) -> None:
    value = getattr(chasqui_engine, name)
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return  # an alias: what stands below it in the source is not there at run time
    assert len((value.__doc__ or "").split()) >= FEWEST_WORDS
    public = [member for one, member in vars(value).items() if not one.startswith("_") and inspect.isfunction(member)]
    base = next(iter(value.__bases__)) if inspect.isclass(value) else object
    assert [one.__name__ for one in public if not (one.__doc__ or hasattr(base, one.__name__))] == []


@functools.cache
def _provider() -> Any:
    # Read, not imported: Airflow takes its time.
    return griffe.load("chasqui_provider", search_paths=[str(DOCS.parent)])


@pytest.mark.parametrize("path", [name for name in SHOWN if name.startswith("chasqui_provider.")])
def test_what_is_shown_of_the_provider_says_what_it_is(path: str) -> None:
    docstring = _provider()[path.removeprefix("chasqui_provider.")].docstring
    assert docstring is not None
    assert len(docstring.value.split()) >= FEWEST_WORDS


def test_every_class_that_the_provider_tells_airflow_of_is_shown() -> None:
    info = get_provider_info()
    told = [one["class-name"] for one in info.get("task-decorators", [])]
    told += [one["hook-class-name"] for one in info.get("connection-types", [])]
    told += info.get("notifications", [])
    shown = {name.rpartition(".")[2] for name in SHOWN}
    assert {name.rpartition(".")[2] for name in told} - shown == set()


def _errors() -> dict[str, str]:
    exported = [getattr(chasqui_engine, name) for name in chasqui_engine.__all__]
    errors = [one for one in exported if inspect.isclass(one) and issubclass(one, ChasquiError)]
    return {one.code: one.__name__ for one in errors}


def test_the_page_of_errors_has_every_code() -> None:
    rows = re.findall(r"^\| (CMQ-\d+) \| \[?`(\w+)`", (DOCS / "errors.md").read_text(encoding="utf-8"), re.MULTILINE)
    spark = {"CMQ-315": "DataLossError", "CMQ-316": "NotRepeatableError"}
    assert dict(rows) == _errors() | spark
    assert len(rows) == len(dict(rows))


def test_the_page_of_dead_letters_has_every_reason() -> None:
    text = (DOCS / "howto/dead-letters.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(\w+)` \| (CMQ-\d+) \|", text, re.MULTILINE)) == _REASON_CODES
