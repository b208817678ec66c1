"""Reading and administering queues: snapshots, jobs, dead letters, delayed jobs."""
