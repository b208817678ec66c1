"""`make demo`: the queue, Airflow and Spark, one after the other on one private server."""
