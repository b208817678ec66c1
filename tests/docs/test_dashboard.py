"""The code in docs/dashboard.md runs and does what it says; the pictures are there, and small."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "dashboard.md").read_text(encoding="utf-8")


async def test_the_application_of_your_own() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    made: dict[str, Any] = {}
    exec(compile(code, "docs/dashboard.md", "exec"), made)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(made["app"]), base_url="http://own") as client:
        assert (await client.get("/chasqui/api/me")).status_code == 401
        ada = await client.get("/chasqui/api/me", headers={"x-authenticated-user": "ada"})
        eve = await client.get("/chasqui/api/me", headers={"x-authenticated-user": "eve"})
    assert (ada.json()["user"], ada.json()["may_change"], ada.json()["payloads"]) == ("ada", True, "mask")
    assert eve.json()["may_change"] is False


@pytest.mark.parametrize("picture", re.findall(r"!\[[^]]*\]\(([^)]+)\)", PAGE))
def test_its_pictures_are_there_and_small(picture: str) -> None:
    assert 0 < (DOCS / picture).stat().st_size < 200_000


@pytest.mark.parametrize("target", re.findall(r"\]\((\.\./[^)#]+|[a-z-]+\.md)", PAGE))
def test_its_links_lead_somewhere(target: str) -> None:
    assert (DOCS / target).resolve().exists()
