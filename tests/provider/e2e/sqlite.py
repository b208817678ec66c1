"""What Airflow's SQLite is opened with: writers wait for one another, however busy the machine."""

CONNECT_ARGS = {"timeout": 120}
