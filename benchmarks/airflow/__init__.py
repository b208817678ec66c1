"""What the Airflow provider costs: ten thousand waits, and jobs on their way into asset events."""
