"""The settings in an Airflow connection: where the server is, and how its queues are configured."""
