"""`chasqui pipeline run`: the Spark pipeline. Its options are those of `python -m chasqui_engine.pipeline`."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import typer

from chasqui_engine.cli.session import FAILED, Failure, report

_AS_THEY_ARE = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""Options are not ours to know: they are handed on, `--help` too."""


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(no_args_is_help=True, help="What queues did, as answers and a report, by Spark.")
    app.add_typer(group, name="pipeline", rich_help_panel="Look")
    group.command("run", context_settings=_AS_THEY_ARE)(run)
    # With one command only, typer would leave out its name.
    group.callback()(_group)


def _group() -> None:
    """What queues did, as answers and a report, by Spark."""


def run(context: typer.Context) -> int:
    """Make answers and a report of what queues told; --help says more."""
    if find_spec("pyspark") is None:
        told = Failure("the pipeline needs Spark", "CMQ-004", "pip install 'chasqui[spark]'", FAILED)
        return report(told, sys.argv)
    from chasqui_engine.pipeline.__main__ import main

    try:
        return main(list(context.args))
    except SystemExit as end:  # argparse has said why
        return end.code if isinstance(end.code, int) else FAILED
