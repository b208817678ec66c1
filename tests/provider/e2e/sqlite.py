"""What Airflow's SQLite is opened with: writers wait for one another, however busy the machine."""

CONNECT_ARGS = {"timeout": 120}

API_SERVER_CONNECT_ARGS = {"timeout": 10}
"""Airflow 3.3.2 writes its audit log in the event loop of the api-server. If another request of that process is about
to commit, and needs the loop for that, the two wait for each other until this ends."""
