"""Ways to a server and what can go wrong on them: Sentinel, Cluster, planned failovers, a network that fails."""
