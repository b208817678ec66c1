"""The form in which Airflow asks for a connection.

Airflow 3.2 and later read it from the provider's description; Airflow 3.1 asks the hook for a form of WTForms.
"""

from __future__ import annotations

from typing import Any


def _text(label: str, description: str = "", **schema: Any) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["string", "null"], **schema}}


def _number(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["integer", "null"]}}


def _switch(label: str, description: str) -> dict[str, Any]:
    return {"label": label, "description": description, "schema": {"type": ["boolean", "null"], "default": False}}


BEHAVIOUR: dict[str, Any] = {
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
}

FIELDS: dict[str, dict[str, Any]] = {
    "url": _text(
        "URL",
        "Replaces host, port and database; leave the password in its own field.",
        format="password",
    ),
    "queue_name": _text("Queue", "The queue to use when a task names none."),
    "tls": _switch("TLS", "Connect with TLS."),
    "ssl_ca_certs": _text("Authority", "PEM file of the CA that signed the server's certificate."),
    "ssl_certfile": _text("Certificate", "PEM file of the client's certificate."),
    "ssl_keyfile": _text("Key", "PEM file of the client's key."),
    "ssl_cert_reqs": _text("Certificate check", enum=["required", "optional", "none"]),
    "ssl_check_hostname": {
        **_switch("Check host name", "Whether the host name is checked against the certificate."),
        "schema": {"type": ["boolean", "null"]},
    },
    "sentinel": _text("Sentinel service", "Ask the sentinels in 'host' for the master of this name."),
    "sentinel_username": _text("Sentinel user", "User name for the sentinels, if they have their own users."),
    "sentinel_password": _text("Sentinel password", "Password for the sentinels.", format="password"),
    "sentinel_tls": {
        **_switch("Sentinel TLS", "Whether the sentinels use TLS; defaults to the server's setting."),
        "schema": {"type": ["boolean", "null"]},
    },
    "cluster": _switch("Cluster", "The hosts are nodes of a Redis Cluster."),
    "embedded": _text("Embedded folder", "Run a private server in this folder instead of connecting to one."),
    "max_stream_len": _number("Most waiting jobs", "How many jobs may be waiting in a queue."),
    "when_full": _text("When full", "Refuse the job, or drop the oldest.", enum=["error", "trim"]),
    "max_delay_secs": _number("Longest delay", "Longest delay of a job in seconds; 0 for no limit."),
    "connection_patience": _number(
        "Patience", "Seconds to wait for an unreachable server when adding a job; defaults to 30."
    ),
    "tracing": _switch("Traces", "Whether adding a job makes an OpenTelemetry span, which the job's run continues."),
    "dedup_ttl_secs": _number("Id kept for", "Seconds for which a job id stays taken after the job was due."),
}


def behaviour_for_hook() -> dict[str, Any]:
    """Labels and placeholders of the fields that every connection has, under the keys of a hook."""
    return {key.replace("-", "_"): value for key, value in BEHAVIOUR.items()}


def widgets_for_hook() -> dict[str, Any]:
    """The form's own fields. Without WTForms, Airflow's api-server installs stand-ins for it."""
    return {name: _widget(**field) for name, field in FIELDS.items()}


def _widget(label: str, description: str, schema: dict[str, Any]) -> Any:
    from wtforms import BooleanField, IntegerField, PasswordField, StringField  # type: ignore[import-untyped]
    from wtforms.validators import Optional, any_of  # type: ignore[import-untyped]

    kinds = {"boolean": BooleanField, "integer": IntegerField, "string": StringField}
    kind = PasswordField if schema.get("format") == "password" else kinds[schema["type"][0]]
    validators = [Optional(), any_of(schema["enum"])] if "enum" in schema else [Optional()]
    return kind(label, description=description, validators=validators, default=schema.get("default"))
