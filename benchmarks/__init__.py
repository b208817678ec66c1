"""Chasqui measured beside its peers. `python -m benchmarks.run --help`; the method is in README.md.

`run` starts a private server and, for every scenario, peer and repeat, a process of its own (`measure`), in that peer's
environment. That process adds the jobs, starts worker processes (`work`) where the scenario needs some, and prints one
line of JSON. What a scenario does is in `scenarios/`, how a peer does it in `peers/`.
"""
