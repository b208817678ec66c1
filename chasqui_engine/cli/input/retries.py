"""How often a job is run and how soon again, as people type it."""

from __future__ import annotations

from typing import Annotated

import typer

from chasqui_engine import BackoffSpec, JobRetryOverride
from chasqui_engine.cli.input.params import parse_duration_ms
from chasqui_engine.cli.session import USAGE, fail

AttemptsOption = Annotated[int | None, typer.Option("--attempts", min=1, help="Runs in total, retries included.")]
BackoffOption = Annotated[
    str | None, typer.Option("--backoff", metavar="TIME", help="Wait this long before each retry: 500ms, 30s, 10m.")
]
MaxBackoffOption = Annotated[
    str | None, typer.Option("--max-backoff", metavar="TIME", help="Double the wait from retry to retry, up to this.")
]


def parse_retry(attempts: int | None, backoff: str | None, max_backoff: str | None) -> JobRetryOverride | None:
    """The own limits of a job; None if there are none."""
    spec = parse_backoff(backoff, max_backoff)
    return None if attempts is None and spec is None else JobRetryOverride(attempts, spec)


def parse_backoff(backoff: str | None, max_backoff: str | None) -> BackoffSpec | None:
    """The wait before each retry, as two options say it."""
    if backoff is None:
        if max_backoff is not None:
            fail("--max-backoff needs --backoff", "pass the first wait with --backoff", exit_code=USAGE)
        return None
    delay_ms = parse_duration_ms(backoff)
    if max_backoff is None:
        return BackoffSpec.fixed(delay_ms)
    max_ms = parse_duration_ms(max_backoff)
    if max_ms < delay_ms:
        fail(f"--max-backoff {max_backoff} is shorter than --backoff {backoff}", "pass a longer one", exit_code=USAGE)
    return BackoffSpec.exponential(delay_ms, max_ms=max_ms)
