"""What is measured: name → scenario, in the order of the table."""

from __future__ import annotations

from benchmarks.scenarios import adding, delayed, latency, memory, results, working
from benchmarks.scenarios.scenario import Scenario

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for family in (adding, working, delayed, latency, results, memory)
    for scenario in family.SCENARIOS
}
