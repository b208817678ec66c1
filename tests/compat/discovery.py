"""What Airflow finds of the provider, and whether it complains: ends with exit code 0, or with what went wrong.

Run by `tests/compat/airflow` beside an Airflow that has nothing but the package itself, and by the provider's tests.
Needs neither pytest nor a server.
"""

from __future__ import annotations

import importlib
import logging
import os
import tempfile
from importlib.util import find_spec
from typing import Any

MESSAGING = "airflow.providers.common.messaging"


class Complaints(logging.Handler):
    """Every warning that names something of ours."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if "chasqui" in text:
            self.texts.add(text)


def has(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def discover_all() -> Any:
    """Everything that Airflow imports of a provider in one process or another."""
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    for name in dir(manager):
        if name.startswith("initialize_providers_"):
            getattr(manager, name)()
    assert list(manager.hooks.values())  # a hook is imported when it is asked for
    return manager


def plugin_errors() -> dict[str, str]:
    from airflow import plugins_manager

    plugins_manager.ensure_plugins_loaded()
    read = getattr(plugins_manager, "get_import_errors", None)
    errors: dict[str, str] = read() if read else plugins_manager.import_errors
    # OpenLineage's own plugin is listed twice where providers are not loaded lazily.
    return {name: error for name, error in errors.items() if "OpenLineage" not in name}


def check_queue() -> None:
    """The message queue is there, or says what it lacks."""
    from airflow.exceptions import AirflowOptionalProviderFeatureException

    said = ""
    try:
        importlib.import_module("chasqui_provider.queues.chasqui")
    except AirflowOptionalProviderFeatureException as err:
        said = str(err)
    assert has(MESSAGING) or "pip install 'chasqui[airflow]'" in said
    assert not (has(MESSAGING) and said), said


def check_form() -> None:
    """The connection's form, as the page of Airflow gets it, is the one that is described."""
    from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService

    from chasqui_provider.connection.form import BEHAVIOUR, FIELDS

    (form,) = (form for form in HookMetaService.hook_meta_data() if form.connection_type == "chasqui")
    assert form.standard_fields is not None
    assert form.standard_fields.url_schema.title == BEHAVIOUR["relabeling"]["schema"]
    assert form.standard_fields.host.placeholder == BEHAVIOUR["placeholders"]["host"]
    shown = {name: (field["value"], field["description"], field["schema"]) for name, field in form.extra_fields.items()}
    assert list(shown) == list(FIELDS), shown
    for name, field in FIELDS.items():
        value, description, schema = shown[name]
        assert (value, description or "") == (field["schema"].get("default"), field["description"]), name
        assert {"default": value, **schema} == {"default": None, "title": field["label"], **field["schema"]}, name


def main() -> None:
    from airflow import __version__, settings

    complaints = Complaints()
    for name in ("", "airflow"):
        logging.getLogger(name).addHandler(complaints)
    if settings.LAZY_LOAD_PROVIDERS:
        check_form()  # first, as Airflow 3.1 makes no form where hooks were imported before
    manager = discover_all()
    assert "chasqui" in manager.providers
    assert "chasqui" in manager.hooks
    errors = plugin_errors()
    assert not errors, errors
    check_queue()
    assert not complaints.texts, complaints.texts
    print(f"Airflow {__version__}: the provider is found, and nothing is wrong with it")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        os.environ.setdefault("AIRFLOW_HOME", home)
        main()
