"""Airflow finds the provider without complaint, in whatever way it looks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[3]


@pytest.mark.parametrize("lazy", ["True", "False"])
def test_airflow_finds_all_of_it_and_has_nothing_to_say(lazy: str) -> None:
    env = {**os.environ, "AIRFLOW__CORE__LAZY_DISCOVER_PROVIDERS": lazy}
    command = [sys.executable, "-m", "tests.compat.discovery"]
    done = subprocess.run(command, cwd=REPO, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_without_common_messaging_the_message_queue_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.exceptions import AirflowOptionalProviderFeatureException

    monkeypatch.delitem(sys.modules, "chasqui_provider.queues.chasqui", raising=False)
    monkeypatch.setitem(sys.modules, "airflow.providers.common.messaging.providers.base_provider", None)
    with pytest.raises(AirflowOptionalProviderFeatureException, match="apache-airflow-providers-common-messaging"):
        import chasqui_provider.queues.chasqui  # noqa: F401
