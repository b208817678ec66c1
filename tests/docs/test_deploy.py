"""What is in `deploy/` can be used as it stands: it can be read, its commands and metrics exist."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis
import yaml
from prometheus_client.parser import text_string_to_metric_families

from chasqui_engine import SyncQueue
from chasqui_engine._redis.commands.keys import QueueKeys
from tests.docs.commands import check_chasqui
from tests.servers import free_port
from tests.support.page_blocks import ROOT
from tests.support.processes import Process
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd/chasqui-worker@.service"
DEADLINE_S = {"30s": 30, "5m": 300}
EXPORTER_PORT = "9110"

TASKS = """
import asyncio

from chasqui_engine import handler, UnrecoverableError

@handler("fine")
async def fine(job): ...

@handler("slow")
async def slow(job):
    await asyncio.sleep(60)

@handler("again")
async def again(job):
    if job.attempt == 0:
        raise ValueError("once more")

@handler("never")
async def never(job):
    raise UnrecoverableError("not at all")
"""


def loaded(path: str) -> Any:
    return yaml.safe_load((DEPLOY / path).read_text(encoding="utf-8"))


def commands() -> Iterator[tuple[str, list[str], int]]:
    """Where a command stands, its words, and the seconds that it is given to stop."""
    unit = UNIT.read_text(encoding="utf-8")
    [line] = re.findall(r"^ExecStart=\S+/chasqui (.*)$", unit, re.MULTILINE)
    yield "systemd", shlex.split(line), int(re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)[0])
    worker = loaded("compose/compose.yaml")["services"]["emails"]
    yield "compose", worker["command"], int(worker["stop_grace_period"].removesuffix("s"))
    for name, controller in loaded("helm/values.yaml")["controllers"].items():
        if container := controller["containers"].get("worker"):
            yield f"helm {name}", container["args"], controller["pod"]["terminationGracePeriodSeconds"]


COMMANDS = list(commands())


@pytest.mark.parametrize(("where", "words", "patience_s"), COMMANDS, ids=[where for where, _, _ in COMMANDS])
def test_commands_exist_and_have_time_to_stop(where: str, words: list[str], patience_s: int) -> None:
    assert words[0] == "worker"
    assert check_chasqui(words) is None
    assert patience_s > DEADLINE_S[words[words.index("--deadline") + 1]]


def test_exporters_serve_others_at_the_port_that_is_scraped() -> None:
    compose = loaded("compose/compose.yaml")["services"]["exporter"]["command"]
    controller = loaded("helm/values.yaml")["controllers"]["exporter"]
    for words in (compose, controller["containers"]["exporter"]["args"]):
        assert check_chasqui(words) is None
        assert words == ["exporter", "--host", "0.0.0.0"]
    assert controller["pod"]["annotations"]["prometheus.io/port"] == EXPORTER_PORT
    [queues] = [one for one in loaded("prometheus/prometheus.yml")["scrape_configs"] if "queues" in one["job_name"]]
    assert queues["static_configs"] == [{"targets": [f"exporter:{EXPORTER_PORT}"]}]


def test_keda_counts_what_a_queue_holds(redis_url: str, queue_name: str, tmp_path: Path) -> None:
    scaled, _ = yaml.safe_load_all((DEPLOY / "keda/emails.yaml").read_text(encoding="utf-8"))
    assert (
        scaled["spec"]["scaleTargetRef"]["name"].removeprefix("workers-") in loaded("helm/values.yaml")["controllers"]
    )
    [trigger] = scaled["spec"]["triggers"]
    assert trigger["metadata"]["stream"] == QueueKeys("emails").stream
    assert "consumerGroup" not in trigger["metadata"]
    (tmp_path / "chores.py").write_text(TASKS, encoding="utf-8")
    stream = QueueKeys(queue_name).stream
    with (
        SyncQueue(queue_name, redis_url=redis_url) as queue,
        redis.Redis.from_url(redis_url, decode_responses=True) as server,
    ):
        with Process(redis_url, tmp_path, "worker", "chores", "-q", queue_name, "--json") as worker:
            queue.add_bulk([{"name": "slow", "data": 1}, {"name": "fine", "data": 2}])
            wait_for(lambda: server.xlen(stream) == 1, "the second has ended before the first")
            worker.kill()
        queue.add_bulk([{"name": "fine", "data": n} for n in range(3)])
        assert server.xlen(stream) == 4
        [group] = server.xinfo_groups(stream)
        assert group.get("lag") is None, "the lag is known after all: see the comment in deploy/keda"


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    verify = shutil.which("systemd-analyze")
    if verify is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text(encoding="utf-8").replace("/srv/app/.venv/bin/chasqui", sys.executable))
    done = subprocess.run([verify, "verify", str(copy)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_compose_keeps_jobs() -> None:
    server = loaded("compose/compose.yaml")["services"]["redis"]["command"]
    assert server[server.index("--maxmemory-policy") + 1] == "noeviction"
    assert server[server.index("--appendonly") + 1] == "yes"


@pytest.fixture(scope="module")
def scraped(valkey_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Every series that a worker exports after one of everything, and those of the exporter, with their labels."""
    folder, port, queue_name = tmp_path_factory.mktemp("scrape"), free_port(), f"scraped-{free_port()}"
    exporter_port = free_port()
    (folder / "chores.py").write_text(TASKS, encoding="utf-8")
    with (
        Process(valkey_url, folder, "worker", "chores", "-q", queue_name, "--metrics-port", str(port), "--json"),
        Process(valkey_url, folder, "exporter", queue_name, "--port", str(exporter_port), "--json") as exporter,
        SyncQueue(queue_name, redis_url=valkey_url) as queue,
    ):
        for name in ("fine", "again", "never"):
            queue.add(name, None)
        queue.add("fine", None, delay_ms=1)

        def text(port: int = port) -> str:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return str(answer.read().decode())

        def done() -> bool:
            counts = queue.counts()
            return not (counts.waiting or counts.active or counts.delayed) and counts.dead == 1

        wait_for(done, "every job has ended")
        wait_for(lambda: 'dlq_routed_total{name="never"' in text(), "the dead one is counted")
        assert exporter.next_json()["event"] == "started"
        families = [*text_string_to_metric_families(text()), *text_string_to_metric_families(text(exporter_port))]
    # Prometheus itself adds where a series comes from.
    return {sample.name: {"instance", *sample.labels} for family in families for sample in family.samples}


def expressions() -> Iterator[tuple[str, str]]:
    board = json.loads((DEPLOY / "grafana/chasqui.json").read_text(encoding="utf-8"))
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]
    for rule in loaded("prometheus/alerts.yml")["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]


@pytest.mark.timeout(120)
def test_queries_ask_for_what_is_exported(scraped: dict[str, set[str]]) -> None:
    wrong = []
    for where, expression in expressions():
        names = re.findall(r"\bchasqui(?:mq)?_\w+", expression)
        assert names, where
        assert expression.count("(") == expression.count(")")
        wrong += [(where, name) for name in names if name not in scraped]
        labels = {label for found in re.findall(r"by \(([^)]*)\)", expression) for label in found.split(", ")}
        labels |= set(re.findall(r"[{,]\s*(\w+)\s*(?:=~|!~|!=|=)", expression)) - {"__name__"}
        wrong += [(where, label) for label in labels for name in names if label not in scraped.get(name, set())]
    assert wrong == []


def test_every_metric_is_on_the_dashboard_and_in_the_documentation(scraped: dict[str, set[str]]) -> None:
    ours = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in scraped if name.startswith("chasqui")}
    ours = {name for name in ours if f"{name}_total" not in ours}
    asked = " ".join(expression for _, expression in expressions())
    told = (ROOT / "docs/howto/metrics.md").read_text(encoding="utf-8")
    assert sorted(name for name in ours if name not in asked) == []
    assert sorted(name for name in ours if f"`{name}`" not in told) == []


def test_panels_have_ids_of_their_own_and_do_not_overlap() -> None:
    panels = json.loads((DEPLOY / "grafana/chasqui.json").read_text(encoding="utf-8"))["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
