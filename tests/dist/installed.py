"""Uses an installed chasqui, without the repo on the path: python -I installed.py EXTRAS README. See `run`."""

from __future__ import annotations

import os
import pkgutil
import re
import subprocess
import sys
import tempfile
from importlib import import_module
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path

BIN = Path(sys.executable).parent


def check_core(readme: Path) -> None:
    import chasqui_engine

    assert "site-packages" in chasqui_engine.__file__
    for name in chasqui_engine.__all__:
        getattr(chasqui_engine, name)


def check_embedded(readme: Path) -> None:
    done = _run_python(_example_with("asyncio.run(", readme))
    assert done == "{'rendered': '2026-11-19'}\n", done


def check_cli(readme: Path) -> None:
    done = subprocess.run([BIN / "chasqui", "--help"], check=True, capture_output=True, text=True, timeout=120)
    assert "worker" in done.stdout


def check_dashboard(readme: Path) -> None:
    import chasqui_engine.dashboard

    page = Path(chasqui_engine.dashboard.__file__).parent / "static" / "page.html"
    assert page.stat().st_size > 0


def check_prometheus(readme: Path) -> None:
    from chasqui_engine.metrics import PrometheusSink

    PrometheusSink("q")


def check_otel(readme: Path) -> None:
    from chasqui_engine.metrics import OtelSink

    assert isinstance(OtelSink, type)


# What is for OpenLineage only, which the extra does not bring, and for Airflow 3.3: an older one may be installed.
NEEDED_BY = {
    "lineage_facets": "airflow.providers.openlineage",
    "markers": "airflow.models.asset_state_store",
    "shared_stream": "airflow.triggers.shared_stream",
}


def check_airflow(readme: Path) -> None:
    os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-", dir=os.getcwd()))
    import chasqui_provider

    for module in pkgutil.walk_packages(chasqui_provider.__path__, "chasqui_provider."):
        needed = NEEDED_BY.get(module.name.rpartition(".")[2])
        if needed is None or find_spec(needed):
            import_module(module.name)
    _run_python(_example_with("from airflow", readme))


def check_spark(readme: Path) -> None:
    from chasqui_engine import SyncQueue
    from chasqui_engine.spark.session import start_session

    with tempfile.TemporaryDirectory() as folder:
        url = f"embedded://{folder}/queues"
        with SyncQueue("q", redis_url=url) as queue:
            queue.add_bulk([{"name": "n", "data": n} for n in range(3)])
            spark = start_session("local[2]", quick=True)
            assert spark.read.format("chasqui").options(url=url, queue="q", entity="jobs").load().count() == 3
            spark.stop()


def _example_with(text: str, readme: Path) -> str:
    """README's example that has this in it."""
    examples: list[str] = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)
    return next(example for example in examples if text in example)


def _run_python(program: str) -> str:
    command = [sys.executable, "-I", "-c", program]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout


def main(extras: str, readme: str) -> None:
    known = set(metadata("chasqui").get_all("Provides-Extra") or ()) - {"all"}
    wanted = known if extras == "all" else set(filter(None, extras.split(",")))
    assert wanted <= known, wanted
    # A Java alone does nothing.
    for name in ["core", *sorted(wanted - {"jdk"})]:
        globals()[f"check_{name}"](Path(readme))
        print(f"   {name}: works", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
