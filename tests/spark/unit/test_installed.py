"""What is installed: the whole of one PySpark, and nothing that would lay its own files over it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import pytest

from chasqui_engine.spark import session


def test_pyspark_is_whole() -> None:
    import pyspark

    assert pyspark.__version__ == version("pyspark") == "4.3.0"
    jars = Path(pyspark.__file__).parent / "jars"
    assert any(jar.name.startswith("spark-core_") for jar in jars.iterdir())


def test_the_client_that_overlays_pyspark_is_absent() -> None:
    with pytest.raises(PackageNotFoundError):
        distribution("pyspark-client")


def test_a_missing_pyspark_is_said_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "find_spec", lambda _: None)
    assert "chasqui[spark]" in str(session.what_is_missing())
