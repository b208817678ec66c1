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
        if name not in ("OtelSink", "PrometheusSink"):
            getattr(chasqui_engine, name)


def check_embedded(readme: Path) -> None:
    program = re.findall(r"```python\n(.*?)```", readme.read_text(encoding="utf-8"), re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], check=True, capture_output=True, text=True, timeout=120
    )
    assert "ada@example.com" in done.stdout


def check_cli(readme: Path) -> None:
    done = subprocess.run([BIN / "chasqui", "--help"], check=True, capture_output=True, text=True, timeout=120)
    assert "worker" in done.stdout


def check_dashboard(readme: Path) -> None:
    import chasqui_engine.dashboard

    page = Path(chasqui_engine.dashboard.__file__).parent / "static" / "page.html"
    assert page.stat().st_size > 0


def check_prometheus(readme: Path) -> None:
    from chasqui_engine import PrometheusSink

    PrometheusSink("q")


def check_otel(readme: Path) -> None:
    from chasqui_engine import OtelSink

    assert isinstance(OtelSink, type)


def check_airflow(readme: Path) -> None:
    os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-", dir=os.getcwd()))
    import chasqui_provider

    # What is for OpenLineage only (the extra does not bring it), and for Airflow 3.3 (it may be an older one)
    left_out = (".lineage_facets", *(() if find_spec("airflow.models.asset_state_store") else (".markers",)))
    for module in pkgutil.walk_packages(chasqui_provider.__path__, "chasqui_provider."):
        if not module.name.endswith(left_out):
            import_module(module.name)


def check_spark(readme: Path) -> None:
    from chasqui_engine import SyncQueue
    from chasqui_engine.spark.session import session

    with tempfile.TemporaryDirectory() as folder:
        url = f"embedded://{folder}/queues"
        with SyncQueue("q", redis_url=url) as queue:
            queue.add_bulk([{"name": "n", "data": n} for n in range(3)])
            spark = session("local[2]", quick=True)
            assert spark.read.format("chasqui").options(url=url, queue="q", entity="jobs").load().count() == 3
            spark.stop()


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
