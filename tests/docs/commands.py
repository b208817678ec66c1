"""The commands in shell blocks: which are run, and what is looked at in the others."""

from __future__ import annotations

import functools
import importlib.util
import re
import shlex
import tomllib
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from chasqui_engine.cli.app import build
from tests.support.page_blocks import ROOT, Block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RUN = frozenset({"airflow", "cat", "chasqui", "curl", "export"})
"""What a page's test runs."""
RUNS_ON = re.compile(r"chasqui (worker(?!.* --burst)|watch|dashboard|exporter|events .*--follow)\b")
"""What goes on until somebody stops it."""
WAITS_FOR_OTHERS = re.compile(r"\bevents\b")
"""… and says nothing before something happens."""
METRICS_PORTS = ("9100", "9110")
"""The documentation's; a test takes free ones."""
NEEDS_SPARK = re.compile(r"chasqui pipeline\b")
"""Run by `tests/spark`, which has one."""
NEEDS_PORTS = re.compile(r"airflow standalone\b")
"""Run by `tests/provider/e2e`, part by part."""
NEEDS_A_YES = re.compile(r"chasqui (dlq (replay|delete)|queue (drain|clean|delete))\b(?!.*--yes)")


def commands_of(code: str) -> list[str]:
    """The commands of a shell block, without comments; a line may go on after a backslash."""
    lines = code.replace("\\\n", " ").splitlines()
    kept = (re.sub(r"(^|\s)#\s.*$", "", line).strip() for line in lines)
    return [line for line in kept if line]


def words_of(block: Block) -> list[str]:
    """The commands of a block that are run, with the answer that a person would give, and no browser."""
    commands = [command for command in commands_of(block.code) if command.split()[0] in RUN]
    commands = [command for command in commands if not NEEDS_SPARK.match(command) and not NEEDS_PORTS.match(command)]
    return [
        f"{command} --yes" if NEEDS_A_YES.match(command) else command.replace("--open", "--port 0")
        for command in commands
    ]


def check(command: str) -> str | None:
    """What is wrong with a command of a shell block; None when nothing is."""
    for part in re.split(r"\s(?:\||&&)\s", command):
        words = shlex.split(part, comments=True)
        program, rest = words[0], words[1:]
        if program == "chasqui":
            if wrong := check_chasqui(rest):
                return wrong
        elif program in _CHECKS:
            if wrong := _CHECKS[program](rest):
                return f"{part}: {wrong}"
        elif program not in RUN:
            return f"{program!r} is a command that the tests of the documentation do not know"
    return None


def check_chasqui(words: Iterable[str]) -> str | None:
    """Whether the real command line has this command, with these options."""
    command = _command_line()
    path, options = ["chasqui"], set(_flags(command))
    for word in words:
        if word in ("…", "...") or not word:
            continue
        if word.startswith("-") and len(word) > 1:
            flag = word.partition("=")[0]
            if flag not in options and flag not in ("--url", "--json", "--debug", "--conn-id"):
                return f"{' '.join(path)} has no option {flag}"
        elif hasattr(command, "commands"):
            if "|" in word or word.isupper():
                return None  # several at once, or a word for any of them
            name = word if word in command.commands else getattr(command, "default_command", "")
            if name not in command.commands:
                return f"{' '.join(path)} has no command {word!r}"
            command = command.commands[name]
            path.append(name)
            options |= set(_flags(command))
    return None


@functools.cache
def _command_line() -> Any:
    return get_command(build())


def _flags(command: Any) -> Iterable[str]:
    if command.context_settings.get("ignore_unknown_options"):
        from chasqui_engine.pipeline.__main__ import _parser

        return list(_parser()._option_string_actions)  # handed on, all of them
    return [flag for one in command.params for flag in (*one.opts, *one.secondary_opts)] + ["--help", "-h"]


def _pip(words: list[str]) -> str | None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if words[0] != "install":
        return "only pip install"
    for found in re.findall(r"^chasqui\[(.*)\]$", "\n".join(words), re.MULTILINE):
        if unknown := set(found.split(",")) - set(extras):
            return f"chasqui has no extra {sorted(unknown)}"
    return None


def _make(words: list[str]) -> str | None:
    targets = re.findall(r"^([a-z0-9]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    missing = [word for word in words if "=" not in word and word not in targets]
    return f"the Makefile has no target {missing}" if missing else None


def _python(words: list[str]) -> str | None:
    if words[:1] != ["-m"]:
        return None if (ROOT / words[0]).exists() else f"there is no {words[0]}"
    return None if importlib.util.find_spec(words[1]) else f"there is no module {words[1]}"


def _anything(_words: list[str]) -> str | None:
    return None


_CHECKS: dict[str, Callable[[list[str]], str | None]] = {"pip": _pip, "make": _make, "python": _python}
# Of other people's programs, that need a machine of their own.
_CHECKS |= dict.fromkeys(
    (".", "airflow", "docker", "echo", "helm", "kubectl", "python3", "sudo", "systemctl", "promtool"), _anything
)
