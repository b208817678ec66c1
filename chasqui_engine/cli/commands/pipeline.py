"""`chasqui pipeline run`: the Spark pipeline. Its options are those of `python -m chasqui_engine.pipeline`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import typer

from chasqui_engine.cli.session import FAILED, Failure, report

_AS_THEY_ARE = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""All options are passed on, `--help` included."""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="Report on what queues did, with Spark.")
    app.add_typer(group, name="pipeline", rich_help_panel="Inspect")
    group.command("run", context_settings=_AS_THEY_ARE)(run)
    # Typer drops the name of the only command of a group without a callback.
    group.callback()(_group)


def _group() -> None:
    """Report on what queues did, with Spark."""


def run(context: typer.Context) -> int:
    """Compute aggregates and a report from the events of queues; see --help of the command."""
    if find_spec("pyspark") is None:
        failure = Failure("the pipeline needs Spark", "CMQ-004", "pip install 'chasqui[spark]'", FAILED)
        return report(failure, sys.argv)
    from chasqui_engine.pipeline.__main__ import main

    try:
        return main(list(context.args))
    except SystemExit as end:  # argparse has printed the reason
        return end.code if isinstance(end.code, int) else FAILED
