"""What Airflow is told about this provider."""

from __future__ import annotations

from typing import Any

_NAME = "Chasqui"


def _text(label: str, description: str = "", **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}


def _number(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["integer", "null"]}}


def _switch(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["boolean", "null"], "default": False}}


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "chasqui",
        "hook-class-name": "chasqui_provider.hooks.chasqui.ChasquiHook",
        "hook-name": _NAME,
        "ui-field-behaviour": {
            "hidden-fields": [],
            "relabeling": {"schema": "Database", "host": "Host, or hosts with commas", "login": "User"},
            "placeholders": {
                "host": "redis.example.org, or s1:26379,s2:26379 for Sentinel",
                "port": "6379",
                "schema": "0",
                "url": "rediss://user@host:6379/0",
                "sentinel": "mymaster",
                "embedded": "/var/lib/chasqui",
                "queue_name": "emails",
            },
        },
        "conn-fields": {
            "url": _text(
                "URL",
                "Takes the place of host, port and database; leave the password in its own field.",
                format="password",
            ),
            "queue_name": _text("Queue", "The queue that is meant when a task names none."),
            "tls": _switch("TLS", "Connect with TLS."),
            "ssl_ca_certs": _text("Authority", "PEM file of the authority that signed the server's certificate."),
            "ssl_certfile": _text("Certificate", "PEM file of the client's certificate."),
            "ssl_keyfile": _text("Key", "PEM file of the client's key."),
            "ssl_cert_reqs": _text("Certificate check", enum=["required", "optional", "none"]),
            "ssl_check_hostname": {
                **_switch("Check host name", "Whether the certificate must name the host."),
                "schema": {"type": ["boolean", "null"]},
            },
            "sentinel": _text("Sentinel service", "Ask the sentinels in 'host' for the master of this name."),
            "sentinel_username": _text("Sentinel user", "Where the sentinels have users of their own."),
            "sentinel_password": _text("Sentinel password", "The sentinels' own password.", format="password"),
            "sentinel_tls": {
                **_switch("Sentinel TLS", "Whether the sentinels speak TLS; like the server itself if left out."),
                "schema": {"type": ["boolean", "null"]},
            },
            "cluster": _switch("Cluster", "The hosts are nodes of a Redis Cluster."),
            "embedded": _text("Embedded folder", "Run a private server in this folder instead of connecting to one."),
            "max_stream_len": _number("Most waiting jobs", "How many jobs may wait in a queue."),
            "when_full": _text("When full", "Refuse the job, or drop the oldest.", enum=["error", "trim"]),
            "max_delay_secs": _number("Longest delay", "Seconds a job may be delayed at most; 0 is no cap."),
            "dedup_ttl_secs": _number("Id kept for", "Seconds an id stays taken after its job was due."),
        },
    }


def _modules(*names: str) -> list[dict[str, Any]]:
    return [{"integration-name": _NAME, "python-modules": [f"chasqui_provider.{name}" for name in names]}]


def _config() -> dict[str, Any]:
    return {
        "chasqui": {
            "description": "Options of the Chasqui provider.",
            "options": {
                "dashboard_url": {
                    "description": "Where the page of the queues is; tasks link to it.",
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "https://queues.example.org",
                    "default": "/chasqui",
                },
                "dashboard_connections": {
                    "description": "Connections of a secrets backend that the page is to show, with commas.",
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "chasqui_default,chasqui_eu",
                    "default": "",
                },
                "dashboard_payloads": {
                    "description": "What the page shows of payloads: show, mask (their shape) or hide.",
                    "version_added": "0.1.0",
                    "type": "string",
                    "example": "mask",
                    "default": "show",
                },
                "complete_asset_runs": {
                    "description": (
                        "Whether every event of a queue gets a run of its DAGs on Airflow 3.3, which alone may "
                        "leave one out. Changes rows of Airflow's tables; does nothing from Airflow 3.4 on."
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
        "description": "Jobs on Redis Streams: enqueue, wait without a slot, wake DAGs, share schedules.",
        "integrations": [{"integration-name": _NAME, "tags": ["service"]}],
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
        "extra-links": ["chasqui_provider.links.ChasquiQueueLink"],
        "plugins": [{"name": "chasqui", "plugin-class": "chasqui_provider.plugins.chasqui.ChasquiPlugin"}],
        "config": _config(),
    }
