"""The parent of worker processes: restarts them when they die, and on `--reload` when the code changes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from chasqui_engine.cli.session import FAILED, INTERRUPTED, Session, print_json
from chasqui_engine.cli.worker.queue_status import QueueStatus
from chasqui_engine.cli.worker.reload import modification_times
from chasqui_engine.cli.worker.status_line import Numbers, Rate, StatusLine, pass_on, worker_line
from chasqui_engine.runtime.aio import cancel_and_wait
from chasqui_engine.runtime.clock import monotonic

_DRAW_EVERY_S = 0.5
_LOOK_EVERY_S = 0.5
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


@dataclass(slots=True)
class _Child:
    """One slot of the group, which a process fills and its successor after it."""

    index: int
    process: asyncio.subprocess.Process | None = None
    before: Numbers = field(default_factory=Numbers)
    """Of earlier processes in this slot."""
    now: Numbers = field(default_factory=Numbers)
    ready: bool = False
    generation: int = 0


class WorkerGroup:
    """Keeps `count` children alive until it is stopped."""

    def __init__(
        self,
        session: Session,
        queue: str,
        arguments: Sequence[str],
        count: int,
        *,
        group: str,
        reload: bool,
        burst: bool = False,
    ) -> None:
        self._session = session
        self._queue = queue
        self._group = group
        self._arguments = list(arguments)
        self._children = [_Child(index) for index in range(count)]
        self._reload = reload
        self._burst = burst
        self._line = StatusLine()
        self._line.shown = self._line.shown and not session.as_json
        self._stop = asyncio.Event()
        self._generation = 0
        self._proven = -1
        """The last generation that became ready; only such children are restarted."""
        self._generation_changed = asyncio.Condition()
        self._notifying: asyncio.Task[None] | None = None
        self._broken: int | None = None
        self._start_errors: set[str] = set()

    async def run(self) -> int:
        """Runs until Ctrl-C; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._handle_signal)
        started = monotonic()
        self._say("started", f"{_workers(len(self._children))} for {self._queue}. Ctrl-C stops all")
        tasks = [asyncio.create_task(self._keep(child)) for child in self._children]
        background = [asyncio.create_task(self._draw(started))]
        if self._reload:
            background.append(asyncio.create_task(self._watch()))
        try:
            await asyncio.gather(*tasks)
        finally:
            await cancel_and_wait(*background)
            self._line.clear()
            self._line.shown = False
        total = self._total()
        self._say("stopped", f"stopped: {total.done:,} done, {total.failed:,} failed, {total.dead:,} dead")
        return self._broken or (FAILED if self._burst and total.dead else 0)

    def _handle_signal(self) -> None:
        if self._stop.is_set():
            for child in self._children:
                _send(child, signal.SIGKILL)
            self._line.clear()
            os._exit(INTERRUPTED)
        self._stop.set()
        if not self._session.as_json:
            self._line.say("stopping: running jobs may finish, no others start. Ctrl-C again stops at once")
        self._end_all()
        self._notifying = asyncio.get_running_loop().create_task(self._notify_generation())

    def _end_all(self) -> None:
        for child in self._children:
            _send(child, signal.SIGTERM)

    async def _keep(self, child: _Child) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set():
            began, generation = monotonic(), self._generation
            code = await self._live(child)
            if self._stop.is_set():
                return
            if generation != self._generation:
                continue
            if self._burst and code == (FAILED if child.before.dead else 0):
                return
            if code == 0:
                # It has reached one of its limits.
                self._line.say(f"worker {child.index} stopped by itself; starting another")
                continue
            if self._proven != generation:
                if not self._reload:
                    # A worker that failed to start would fail again.
                    self._broken = code or FAILED
                    self._stop.set()
                    self._end_all()
                    return
                self._line.say("the worker cannot start; waiting for a code change")
                await self._next_generation(generation)
                continue
            pause_s = _FIRST_PAUSE_S if monotonic() - began > _LONGEST_PAUSE_S else min(pause_s * 2, _LONGEST_PAUSE_S)
            self._line.say(f"worker {child.index} exited with code {code}; restarting it in {pause_s:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), pause_s)

    async def _next_generation(self, generation: int) -> None:
        async with self._generation_changed:
            await self._generation_changed.wait_for(lambda: generation != self._generation or self._stop.is_set())

    async def _notify_generation(self) -> None:
        async with self._generation_changed:
            self._generation_changed.notify_all()

    async def _live(self, child: _Child) -> int:
        """Runs one process from start to end; returns its exit code."""
        ours, theirs = socket.socketpair()
        arguments = [*self._arguments, "--child", str(child.index), "--child-fd", str(theirs.fileno())]
        child.ready, child.generation = False, self._generation
        # In its own session, because this process forwards Ctrl-C. Its output is piped through here: it
        # would be written over the status line, and what all children print at a failed start would repeat.
        child.process = await asyncio.create_subprocess_exec(
            *(sys.executable, *(["-u"] if self._line.shown else []), "-m", "chasqui_engine.cli", "worker", *arguments),
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
            stdout=asyncio.subprocess.PIPE if self._line.shown else None,
            stderr=asyncio.subprocess.PIPE,
        )
        theirs.close()
        if self._stop.is_set():
            _send(child, signal.SIGTERM)
        streams = (child.process.stdout, child.process.stderr)
        printing = [asyncio.create_task(pass_on(one, partial(self._pass_on, child))) for one in streams if one]
        receiving = asyncio.create_task(self._receive(child, ours))
        code = await child.process.wait()
        await asyncio.gather(receiving, *printing)
        child.process = None
        child.before.add(child.now)
        child.now = Numbers()
        return code

    def _pass_on(self, child: _Child, text: str) -> None:
        if not child.ready:
            if text in self._start_errors:
                return
            self._start_errors.add(text)
        self._line.say(text)

    async def _receive(self, child: _Child, ours: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            # Ends with the process, whose last line may be cut short.
            with contextlib.suppress(OSError, ValueError):
                while line := await reader.readline():
                    counts = json.loads(line)
                    if counts.pop("ready"):
                        child.ready, self._proven = True, child.generation
                    child.now = Numbers(**counts)
        finally:
            writer.close()

    def _total(self) -> Numbers:
        total = Numbers()
        for child in self._children:
            total.add(child.before)
            total.add(child.now)
        return total

    def _say(self, what: str, text: str) -> None:
        if self._session.as_json:
            facts = {"event": what, "queue": self._queue, "processes": len(self._children), "pid": os.getpid()}
            print_json({**facts, **self._total().as_dict()})
        else:
            self._line.say(text)

    async def _draw(self, started: float) -> None:
        if not self._line.shown:
            return
        rate = Rate()
        async with QueueStatus(self._session.url, self._queue, self._group) as status:
            while True:
                total = self._total()
                alive = sum(child.ready and child.process is not None for child in self._children)
                state = f"{alive} of {_workers(len(self._children))} · {status.text}"
                rated = rate.of(total.done + total.failed)
                self._line.draw(worker_line(self._queue, total, rated, monotonic() - started, state))
                await asyncio.sleep(_DRAW_EVERY_S)

    async def _watch(self) -> None:
        before = await asyncio.to_thread(modification_times)
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            now = await asyncio.to_thread(modification_times)
            if now != before:
                changed = sorted(str(path) for path in now.keys() | before.keys() if now.get(path) != before.get(path))
                before = now
                self._line.say(f"{changed[0]} changed; restarting")
                self._generation += 1
                self._start_errors.clear()
                self._end_all()
                await self._notify_generation()


def _send(child: _Child, number: signal.Signals) -> None:
    if child.process is not None and child.process.returncode is None:
        # It may exit at this moment, and `Process.send_signal` would then take its exit code from the task that waits.
        with contextlib.suppress(ProcessLookupError):
            if number is signal.SIGKILL:
                os.killpg(child.process.pid, number)
            else:
                os.kill(child.process.pid, number)


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count:,} workers"
