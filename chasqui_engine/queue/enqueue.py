"""The two paths of a job into Redis: onto the stream now, or into the delayed set for later."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from chasqui_engine._redis.client.link import Link
from chasqui_engine._redis.commands import delayed, locks, stream
from chasqui_engine._redis.commands.admission import priorities
from chasqui_engine._redis.commands.admission.priorities import PriorityJob
from chasqui_engine._redis.commands.fences import Fences
from chasqui_engine._redis.commands.keys import QueueKeys
from chasqui_engine._redis.commands.stream import NewJob
from chasqui_engine.codec.envelope import JobEncoder, encode_delayed
from chasqui_engine.codec.headers import encode_headers
from chasqui_engine.runtime.clock import monotonic, now_ms
from chasqui_engine.values.config import ProducerConfig
from chasqui_engine.values.durations import expiry_ms
from chasqui_engine.values.errors import ConfigError, EncodeError
from chasqui_engine.values.ids import mint_id, mint_ids
from chasqui_engine.values.job import Addition, AddOptions, JobId, Moment

# At most this much per script call, so that one caller does not block the server for long.
_CHUNK_JOBS = 1000
_CHUNK_BYTES = 1024 * 1024
_NO_CAP = 2**53

# More than all producers together can add within the second for which room is assumed.
_AMPLE_ROOM = 500_000
_AMPLE_FOR_S = 1.0

_Row = TypeVar("_Row", bound=tuple[Any, ...])


class Enqueuer:
    """Encodes jobs and writes them."""

    def __init__(self, link: Link, keys: QueueKeys, config: ProducerConfig) -> None:
        self._link = link
        self._keys = keys
        self._config = config
        self._encoder = JobEncoder()
        self._fences = Fences()
        self._roomy_until = 0.0
        self.added = 0
        """The number of jobs written so far, without those whose id was taken."""

    async def now(self, additions: Sequence[Addition], created_at_ms: int | None = None) -> list[JobId]:
        """Adds jobs to the stream. Encoding errors are raised before anything is written."""
        ids, writing = self.begin_now(additions, created_at_ms)
        await writing
        return ids

    def begin_now(
        self, additions: Sequence[Addition], created_at_ms: int | None = None
    ) -> tuple[list[JobId], Coroutine[Any, Any, None]]:
        """Like `now`, in two steps: returns the ids, and a coroutine that writes."""
        jobs = self._encode(additions, created_at_ms)
        ids = [job.job_id for job in jobs]
        if any(options.priority for _, options in additions):
            return ids, self._write_by_priority(additions, jobs, [None] * len(jobs))
        return ids, self._write_now(jobs)

    async def one_now(self, payload: Any, options: AddOptions, created_at_ms: int | None = None) -> JobId:
        """Adds one job to the stream.

        Without its own id it is a plain XADD while the stream is far from full: checking for room with
        every job, in a script, costs the server four times as much.
        """
        created_at_ms = now_ms() if created_at_ms is None else created_at_ms
        if options.id is not None or monotonic() >= self._roomy_until or options.has_headers or options.priority:
            return (await self.now([(payload, options)], created_at_ms))[0]
        job_id = mint_id(created_at_ms)
        try:
            envelope = self._encoder.encode(job_id, payload, created_at_ms, options.retry)
        except EncodeError as err:
            raise _unencodable(err, 1, 1) from err
        fence = self._fences.make(self._link)
        await stream.add_unasked(self._link, self._keys, options.name, envelope, fence)
        self.added += 1
        return job_id

    async def later(
        self, additions: Sequence[Addition], moments: Sequence[Moment | None], created_at_ms: int | None = None
    ) -> list[JobId]:
        """Adds jobs, each for its own time; those without one, or already due, go to the stream."""
        jobs = self._encode(additions, created_at_ms)
        # The server's clock decides whether a time has passed: this machine's may be wrong.
        timed = any(moment is not None and not moment.relative for moment in moments)
        now = await locks.server_now_ms(self._link) if timed else 0
        self._check_furthest(moments, now)
        if any(options.priority for _, options in additions):
            await self._write_by_priority(additions, jobs, moments)
        else:
            await self._write_by_moment(jobs, moments, now)
        return [job.job_id for job in jobs]

    async def _write_by_moment(self, jobs: Sequence[NewJob], moments: Sequence[Moment | None], now: int) -> None:
        due: list[NewJob] = []
        delays: list[tuple[int, NewJob]] = []
        times: list[tuple[int, NewJob]] = []
        for moment, job in zip(moments, jobs, strict=True):
            if moment is None or moment.ms <= (0 if moment.relative else now):
                due.append(job)
            else:
                (delays if moment.relative else times).append((moment.ms, job))
        await self._write_now(due)
        await self._write_later(delays, relative=True)
        await self._write_later(times, relative=False)

    async def _write_by_priority(
        self, additions: Sequence[Addition], jobs: Sequence[NewJob], moments: Sequence[Moment | None]
    ) -> None:
        """Jobs of which some have a priority."""
        rows = list(zip(jobs, moments, (options.priority for _, options in additions), strict=True))
        plain = [(job, moment) for job, moment, priority in rows if not priority]
        ranked = [
            PriorityJob(
                job.job_id, encode_delayed(job.name, job.envelope), job.name, job.own_id, priority, moment, job.headers
            )
            for job, moment, priority in rows
            if priority
        ]
        # The first call asks for room for all: if it is refused, nothing is written.
        await self._write_ranked(ranked, to_come=len(jobs))
        if plain:
            timed = any(moment is not None and not moment.relative for _, moment in plain)
            now = await locks.server_now_ms(self._link) if timed else 0
            await self._write_by_moment([job for job, _ in plain], [moment for _, moment in plain], now)

    def _encode(self, additions: Sequence[Addition], created_at_ms: int | None) -> list[NewJob]:
        created_at_ms = now_ms() if created_at_ms is None else created_at_ms
        encode = self._encoder.encode
        jobs: list[NewJob] = []
        for (payload, options), fresh_id in zip(additions, mint_ids(len(additions), created_at_ms), strict=True):
            job_id = fresh_id if options.id is None else options.id
            try:
                envelope = encode(job_id, payload, created_at_ms, options.retry)
            except EncodeError as err:
                raise _unencodable(err, len(jobs) + 1, len(additions)) from err
            headers = b""
            if options.has_headers:
                until = None if options.expires is None else expiry_ms(options.expires, created_at_ms)
                headers = encode_headers(options.headers or {}, created_at_ms, until)
            jobs.append(NewJob(job_id, envelope, options.name, options.id is not None, headers))
        return jobs

    def _check_furthest(self, moments: Sequence[Moment | None], now: int) -> None:
        cap_s = self._config.max_delay_secs
        delays = [moment.ms - (0 if moment.relative else now) for moment in moments if moment is not None]
        if cap_s and delays and max(delays) > cap_s * 1000:
            raise ConfigError(f"a delay of {max(delays) / 1000:.0f} s is over max_delay_secs={cap_s} (0 means no cap)")

    async def _write_now(self, jobs: Sequence[NewJob]) -> None:
        config = self._config
        trim = config.when_full == "trim"
        to_come = len(jobs)
        begun = False
        for chunk in _chunks(jobs):
            to_come -= len(chunk)
            # The first chunk checks for room for all. Once it is written, the others always fit, so that
            # a refusal always means that nothing was written.
            max_len = _NO_CAP if begun and not trim else config.max_stream_len
            needs_fence = not trim and not all(job.own_id for job in chunk)
            added = await stream.add(
                self._link,
                self._keys,
                chunk,
                max_len=max_len,
                trim=trim,
                taken_ttl_s=config.dedup_ttl_secs,
                fence=self._fences.make(self._link) if needs_fence else None,
                to_come=to_come,
            )
            self.added += added.new
            begun = begun or added.new > 0
            ample = added.room > _AMPLE_ROOM and max_len != _NO_CAP
            self._roomy_until = monotonic() + _AMPLE_FOR_S if ample else 0.0

    async def _write_ranked(self, jobs: Sequence[PriorityJob], *, to_come: int) -> None:
        config = self._config
        begun = False
        for chunk in _chunks(jobs):
            to_come -= len(chunk)
            # As for the stream: the first chunk asks for room for all.
            bounded = config.when_full != "trim" and not begun
            added = await priorities.add(
                self._link,
                self._keys,
                chunk,
                most=config.max_stream_len - to_come if bounded else None,
                taken_ttl_s=config.dedup_ttl_secs,
                longest_wait_ms=config.priority_max_wait_secs * 1000,
                events_max=config.events_max,
            )
            if added < 0:
                raise stream.queue_full(self._keys, len(chunk) + to_come, config.max_stream_len)
            self.added += added
            begun = begun or added > 0

    async def _write_later(self, jobs: Sequence[tuple[int, NewJob]], *, relative: bool) -> None:
        config = self._config
        events_max = config.events_max
        rows = [
            (moment, encode_delayed(job.name, job.envelope), job.job_id, job.name, job.own_id, job.headers)
            for moment, job in jobs
        ]
        for chunk in _chunks(rows):
            self.added += await delayed.schedule(
                self._link,
                self._keys,
                chunk,
                relative=relative,
                taken_ttl_s=config.dedup_ttl_secs,
                events_max=events_max,
            )


def _unencodable(err: EncodeError, number: int, of: int) -> EncodeError:
    return EncodeError(f"the payload of job {number} of {of} {err.args[0]}")


def _chunks(rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
    """Slices that one script call can carry; the bytes of a row are its second and last fields."""
    sizes = [len(row[1]) + len(row[-1]) for row in rows]
    start = size = 0
    if len(rows) > _CHUNK_JOBS or sum(sizes) > _CHUNK_BYTES:
        for end, row_size in enumerate(sizes):
            size += row_size
            if end > start and (end - start >= _CHUNK_JOBS or size > _CHUNK_BYTES):
                yield rows[start:end]
                start, size = end, row_size
    if start < len(rows):
        yield rows[start:]
