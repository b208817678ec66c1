"""What an Airflow connection says: where the server is, and how its queues are set up."""
