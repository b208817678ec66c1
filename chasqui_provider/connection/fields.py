"""The fields of an Airflow connection that matter here, for callers without Airflow's own connection object."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ConnectionFields:
    """A connection, with its extras as a mapping."""

    conn_id: Any
    conn_type: Any = None
    host: Any = None
    port: Any = None
    login: Any = None
    password: Any = None
    schema: Any = None
    extra_dejson: dict[str, Any] = field(default_factory=dict)
