"""Measures Chasqui beside its peers: `python -m benchmarks.run`, or `make bench ARGS='--quick'`."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import check, environments, plot, redis_benchmark, report
from benchmarks.peers import PINS, RIVAL, US
from benchmarks.resp import Server
from benchmarks.results import Measured, Results, path_of, this_machine
from benchmarks.scenarios import SCENARIOS
from benchmarks.scenarios.scenario import RATE, Scenario
from tests.servers import REDIS_6, REDIS_7, REDIS_8, VALKEY, ServerProcess, Unavailable, find

SERVERS = {"redis8.6": REDIS_8, "redis7": REDIS_7, "redis6.2": REDIS_6, "valkey": VALKEY}
_ROOT = Path(__file__).parent.parent
_TIMEOUT_S = 600
_QUICK_SHARE = 0.1
_QUICK_LIMIT = 0.3


@dataclass(frozen=True, kw_only=True)
class Contestant:
    """A peer on a server, with the name it has in the table."""

    label: str
    peer: str
    python: str
    server: ServerProcess


@dataclass(frozen=True, kw_only=True)
class Run:
    """Everything to be measured, and how often."""

    contestants: Sequence[Contestant]
    scenarios: Sequence[Scenario]
    repeat: int
    quick: bool

    def measure(self) -> dict[str, Measured]:
        """All of it, telling on stderr how far it is."""
        began = time.monotonic()
        done = {}
        for number, scenario in enumerate(self.scenarios):
            _say(f"[{number + 1}/{len(self.scenarios)}, {time.monotonic() - began:.0f} s] {scenario.name}")
            done[scenario.name] = self._scenario(scenario)
        return done

    def _scenario(self, scenario: Scenario) -> Measured:
        measured = Measured(what=scenario.what, units=dict(scenario.rows))
        jobs = scenario.jobs
        if self.quick:
            jobs = scenario.quick_jobs or int(scenario.jobs * _QUICK_SHARE)
        for turn in range(min(self.repeat, scenario.most_repeats)):
            for contestant in self.contestants:
                if contestant.label not in measured.left_out | measured.failed:
                    answer = _measure(contestant, scenario, jobs)
                    measured.note(contestant.label, answer)
                    _say(f"    {turn + 1}  {contestant.label:<14} {_in_short(answer, scenario.rows)}")
        return measured

    def limit(self) -> Measured:
        """What the server itself can take."""
        measured = Measured(what=redis_benchmark.WHAT, units=dict.fromkeys(redis_benchmark.ROWS, RATE))
        server = self.contestants[0].server
        for turn in range(self.repeat):
            Server(server.url).command("FLUSHALL SYNC")
            figures = redis_benchmark.measure(find(server.kind), server.port, share=_QUICK_LIMIT if self.quick else 1)
            measured.note(redis_benchmark.LABEL, {"figures": figures, "jobs": 0})
            _say(f"    {turn + 1}  {redis_benchmark.LABEL:<14} {_in_short({'figures': figures}, measured.units)}")
        return measured


def _measure(contestant: Contestant, scenario: Scenario, jobs: int) -> dict[str, Any]:
    if contestant.peer == RIVAL and contestant.server.kind != REDIS_8:
        return {"left_out": "needs Redis 8.6"}
    Server(contestant.server.url).command("FLUSHALL SYNC")
    arguments = [contestant.peer, scenario.name, contestant.server.url, str(jobs)]
    process = subprocess.Popen(
        [contestant.python, "-m", "benchmarks.measure", *arguments],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        return _last_line(*process.communicate(timeout=_TIMEOUT_S))
    except subprocess.TimeoutExpired:
        return {"failed": f"took more than {_TIMEOUT_S} s"}
    finally:
        # Its workers are in the same session; normally they have ended by now.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(out: bytes, err: bytes) -> dict[str, Any]:
    try:
        answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        return {"failed": err.decode(errors="replace")[-400:] or "it printed no answer"}
    return answer


def _in_short(answer: dict[str, Any], units: Any) -> str:
    if "figures" not in answer:
        return next(f"{kind.replace('_', ' ')}: {why}" for kind, why in answer.items())
    return ", ".join(f"{report.amount(figure, units[row])} {units[row]}" for row, figure in answer["figures"].items())


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _names(known: Sequence[str]) -> Any:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        if unknown := set(names) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}: not among {', '.join(known)}")
        return names

    return parse


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"about a minute: {US} and {RIVAL}, fewer jobs, 3 repeats")
    parser.add_argument(
        "--only", type=_names([*SCENARIOS, redis_benchmark.NAME]), help="scenarios, separated by commas"
    )
    parser.add_argument("--peers", type=_names([US, *PINS]), help="contestants, separated by commas")
    parser.add_argument(
        "--server",
        type=_names(list(SERVERS)),
        default=["redis8.6"],
        help=f"one of {', '.join(SERVERS)}; several, separated by commas, measure {US} on each of them",
    )
    parser.add_argument("--repeat", type=int, help="measurements of each, of which the median counts (5; 3 if quick)")
    parser.add_argument("--save", action="store_true", help="keep under results/, fill README.md, draw the plot")
    parser.add_argument("--check", action="store_true", help="a quick run; exit 1 where a saved ratio is missed")
    parser.add_argument(
        "--tolerance", type=float, default=check.TOLERANCE, help="how far below the saved ratio is fine"
    )
    options = parser.parse_args()
    options.quick |= options.check
    options.repeat = options.repeat or (3 if options.quick else 5)
    return options


def _contestants(options: argparse.Namespace, servers: dict[str, ServerProcess]) -> list[Contestant]:
    several = len(servers) > 1
    usual = [US] if several else [US, RIVAL] if options.quick else [US, *PINS]
    found = []
    for name, server in servers.items():
        for peer in options.peers or usual:
            python = environments.python_of(peer)
            label = f"{peer} on {name}" if several else peer
            found.append(Contestant(label=label, peer=peer, python=python, server=server))
    return found


def _measure_all(options: argparse.Namespace, servers: dict[str, ServerProcess]) -> Results:
    contestants = _contestants(options, servers)
    names = options.only or [n for n, s in SCENARIOS.items() if not options.quick or s.quick_jobs is not None]
    scenarios = [SCENARIOS[name] for name in names if name != redis_benchmark.NAME]
    run = Run(contestants=contestants, scenarios=scenarios, repeat=options.repeat, quick=options.quick)
    first = contestants[0].server
    results = Results(
        server=f"{first.kind.partition('-')[0]} {Server(first.url).info('redis_version')}",
        baseline=contestants[0].label,
        quick=options.quick,
        repeat=options.repeat,
        machine=this_machine(),
        versions={peer: environments.versions_of(peer) for peer in dict.fromkeys(c.peer for c in contestants)},
    )
    results.scenarios = run.measure()
    if redis_benchmark.NAME in (options.only or [redis_benchmark.NAME]):
        _say(redis_benchmark.NAME)
        results.scenarios[redis_benchmark.NAME] = run.limit()
    if options.check:
        _check_twice(options, run, results)
    return results


def _check_twice(options: argparse.Namespace, run: Run, results: Results) -> None:
    """What falls short is measured once more: a busy machine should not be taken for a slower program."""
    again = check.shortfalls(results, _saved_path(options), options.tolerance)
    names = {shortfall.scenario for shortfall in again}
    if names:
        _say(f"once more: {', '.join(sorted(names))}")
        retried = Run(
            contestants=run.contestants,
            scenarios=[scenario for scenario in run.scenarios if scenario.name in names],
            repeat=run.repeat,
            quick=True,
        )
        results.scenarios |= retried.measure()


def _saved_path(options: argparse.Namespace) -> Path:
    server = ",".join(options.server)
    quick = path_of(server, quick=True)
    return quick if quick.exists() else path_of(server, quick=False)


def _keep(options: argparse.Namespace, results: Results) -> None:
    server = ",".join(options.server)
    path = path_of(server, quick=options.quick)
    results.save(path)
    _say(f"saved {path}")
    if not options.quick:
        report.fill_readme(results, server)
        if server == "redis8.6":
            _say(f"drawn {plot.draw(results)}")


def main() -> int:
    options = _options()
    if options.check and not _saved_path(options).exists():
        _say(f"nothing to check against: there is no {_saved_path(options)}; run with --quick --save first")
        return 2
    with contextlib.ExitStack() as stack:
        try:
            servers = {name: stack.enter_context(ServerProcess(SERVERS[name])) for name in options.server}
        except Unavailable as reason:
            _say(f"{reason}. `make servers` gets the servers.")
            return 2
        results = _measure_all(options, servers)
    print(report.for_terminal(results))
    ours_failed = any(results.baseline in measured.failed for measured in results.scenarios.values())
    if options.save and ours_failed:
        _say(f"not saved, as {results.baseline} failed")
    elif options.save:
        _keep(options, results)
    if options.check:
        short = check.shortfalls(results, _saved_path(options), options.tolerance)
        print("\n".join(map(str, short)) or f"no ratio is more than {options.tolerance:.0%} below the saved one")
        return 1 if short else 0
    return 1 if ours_failed else 0


if __name__ == "__main__":
    sys.exit(main())
