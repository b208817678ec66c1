"""The Airflow provider of Chasqui."""
