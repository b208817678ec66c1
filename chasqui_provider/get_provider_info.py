"""The description of this provider that Airflow reads."""

from __future__ import annotations

from typing import Any

from chasqui_provider.connection.form import BEHAVIOUR, FIELDS

_NAME = "Chasqui"


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "chasqui",
        "hook-class-name": "chasqui_provider.hooks.chasqui.ChasquiHook",
        "hook-name": _NAME,
        "ui-field-behaviour": BEHAVIOUR,
        "conn-fields": FIELDS,
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _NAME, "python-modules": [f"chasqui_provider.{name}" for name in names]}]


def _config() -> dict[str, Any]:
    return {
        "chasqui": {
            "description": "Options of the Chasqui provider.",
            "options": {
                "dashboard_url": {
                    "description": "Base URL of the queues page; tasks link to it.",
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "https://queues.example.org",
                    "default": "/chasqui",
                },
                "dashboard_connections": {
                    "description": "More connections for the page, comma-separated: of secrets backends or type redis.",
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "chasqui_default,chasqui_eu",
                    "default": "",
                },
                "dashboard_payloads": {
                    "description": "How the page shows payloads: show, mask (their shape only) or hide.",
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "mask",
                    "default": "show",
                },
                "complete_asset_runs": {
                    "description": (
                        "Whether every event of a queue gets a run of its DAGs on Airflow 3.3, which can "
                        "miss one. Changes rows of Airflow's tables; does nothing from Airflow 3.4 on."
                    ),
                    "version_added": "0.1.0",
                    "type": "boolean",
                    "example": None,
                    "default": "True",
                },
            },
        }
    }


def get_provider_info() -> dict[str, Any]:
    """The provider's description, as `apache_airflow_provider` entry points return it."""
    return {
        "package-name": "chasqui",
        "name": _NAME,
        "description": "Jobs on Redis Streams: enqueue, wait without a slot, trigger DAGs, share schedules.",
        "integrations": [
            {
                "integration-name": _NAME,
                "external-doc-url": "https://redis.io/docs/latest/develop/data-types/streams/",
                "how-to-guide": [f"/docs/airflow/{page}.md" for page in ("index", "enqueue", "connection")],
                "tags": ["service"],
            }
        ],
        "connection-types": [_connection_type()],
        "hooks": _modules("hooks.chasqui"),
        "operators": _modules("operators.chasqui"),
        "sensors": _modules("sensors.chasqui"),
        "triggers": _modules("triggers.chasqui"),
        "queues": ["chasqui_provider.queues.chasqui.ChasquiMessageQueueProvider"],
        "notifications": ["chasqui_provider.notifications.chasqui.ChasquiNotifier"],
        "task-decorators": [{"name": "chasqui", "class-name": "chasqui_provider.decorators.chasqui.chasqui_task"}],
        "asset-uris": [
            {
                "schemes": ["chasqui"],
                "handler": "chasqui_provider.assets.sanitize_uri",
                "factory": "chasqui_provider.assets.queue_asset",
                "to_openlineage_converter": "chasqui_provider.assets.convert_asset_to_openlineage",
            }
        ],
        "extra-links": ["chasqui_provider.operators.links.ChasquiQueueLink"],
        "config": _config(),
    }
