"""The names of this library and its program, as a server's CLIENT LIST shows them."""

from __future__ import annotations

import re

_NOT_FOR_CLIENT_LIST = re.compile(r"[^!-~]")
_program = ""


def version() -> str:
    """The version of this package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    try:
        return installed_version("chasqui")
    except PackageNotFoundError:  # a source tree that is not installed
        return "0+unknown"


def name_program(name: str, program_version: str) -> None:
    """Names the program that this process runs, such as Airflow; connections that are opened later show it."""
    global _program  # noqa: PLW0603 - a process runs one program
    _program = for_client_list(f"({name}_v{program_version})")


def library_name() -> str:
    """`chasqui`, or `chasqui(airflow_v3.3.2)` in a program that has named itself."""
    return f"chasqui{_program}"


def for_client_list(text: str) -> str:
    """The text with everything replaced that is not printable ASCII, since a server accepts nothing else there."""
    return _NOT_FOR_CLIENT_LIST.sub("_", text)
