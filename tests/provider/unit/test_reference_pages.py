"""The pages of Airflow's options and connection fields say what `get_provider_info` tells Airflow, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chasqui_provider.get_provider_info import get_provider_info

INFO = get_provider_info()
ROOT = Path(__file__).parents[3]


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _code(text: Any) -> str:
    return f"`{text}`" if text not in (None, "") else ""


def options_table() -> str:
    options = INFO["config"]["chasqui"]["options"]
    return _table(
        ["option", "what it does", "type", "default", "example"],
        [
            [_code(name), one["description"], one["type"], _code(one["default"]), _code(one["example"])]
            for name, one in options.items()
        ],
    )


def _meaning(one: dict[str, Any]) -> str:
    choices = [_code(choice) for choice in one["schema"].get("enum", ())]
    return " ".join(filter(None, [one.get("description"), f"One of {', '.join(choices)}." if choices else ""]))


def fields_table() -> str:
    (form,) = INFO["connection-types"]
    return _table(
        ["extra", "in the form", "type", "what it says"],
        [
            [_code(name), one["label"], one["schema"]["type"][0], _meaning(one)]
            for name, one in form["conn-fields"].items()
        ],
    )


def test_the_page_of_options_lists_what_airflow_is_told() -> None:
    page = (ROOT / "docs/airflow/configuration.md").read_text()
    assert options_table() in page, f"replace the page's table by:\n{options_table()}"


def test_the_page_of_the_connection_lists_what_its_form_offers() -> None:
    page = (ROOT / "docs/airflow/connection.md").read_text()
    assert fields_table() in page, f"replace the page's table by:\n{fields_table()}"


def test_the_guides_that_airflow_is_told_of_are_there() -> None:
    (integration,) = INFO["integrations"]
    assert integration["external-doc-url"].startswith("https://")
    assert integration["how-to-guide"]
    for guide in integration["how-to-guide"]:
        assert (ROOT / guide.lstrip("/")).is_file(), guide
