"""Files that are written completely or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from chasqui_engine.cli.session import USAGE, fail


@contextlib.contextmanager
def write_atomically(path: str) -> Iterator[TextIO]:
    """A file to write; an existing one is replaced only when the block ends without an error."""
    target = Path(os.path.realpath(path))
    try:
        if target.exists() and not target.is_file():
            # A device or a pipe cannot be replaced.
            with target.open("w", encoding="utf-8") as file:
                yield file
            return
        part = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with part.open("x", encoding="utf-8") as file:
                yield file
            if target.exists():
                shutil.copymode(target, part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    except TimeoutError:
        raise
    except OSError as err:
        fail(f"{path} cannot be written: {err.strerror}", "choose another file", exit_code=USAGE)
