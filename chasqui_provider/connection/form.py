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
    "connection_patience": _number(
        "Patience", "Seconds for which an added job waits for a server that is not there; 30 if left out."
    ),
    "dedup_ttl_secs": _number("Id kept for", "Seconds an id stays taken after its job was due."),
}


def behaviour_for_hook() -> dict[str, Any]:
    """What the form shows for the fields that every connection has, under the keys that a hook gives."""
    return {key.replace("-", "_"): value for key, value in BEHAVIOUR.items()}


def widgets_for_hook() -> dict[str, Any]:
    """The form's own fields. Where WTForms is not installed, Airflow's api-server puts stand-ins in its place."""
    return {name: _widget(**field) for name, field in FIELDS.items()}


def _widget(label: str, description: str, schema: dict[str, Any]) -> Any:
    from wtforms import BooleanField, IntegerField, PasswordField, StringField  # type: ignore[import-untyped]
    from wtforms.validators import Optional, any_of  # type: ignore[import-untyped]

    kinds = {"boolean": BooleanField, "integer": IntegerField, "string": StringField}
    kind = PasswordField if schema.get("format") == "password" else kinds[schema["type"][0]]
    validators = [Optional(), any_of(schema["enum"])] if "enum" in schema else [Optional()]
    return kind(label, description=description, validators=validators, default=schema.get("default"))
