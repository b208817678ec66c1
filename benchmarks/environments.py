"""An environment of its own for every peer, made once under ~/.cache/chasqui/bench."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.peers import PINS, US

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "chasqui" / "bench"


def python_of(peer: str) -> str:
    """The interpreter that runs this peer; installs it where it is missing or its pins have changed."""
    return sys.executable if peer == US else python_with(peer, PINS[peer])


def python_with(name: str, pins: Sequence[str]) -> str:
    """The interpreter of an environment with these packages; made where it is missing or its pins have changed."""
    folder = _CACHE / name
    python, installed = folder / "bin" / "python", folder / "pins.txt"
    wanted = "\n".join(pins)
    if not (python.exists() and installed.exists() and installed.read_text() == wanted):
        uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}") or "uv"
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        subprocess.run([uv, "venv", "--quiet", "--clear", "--python", version, str(folder)], check=True)
        subprocess.run([uv, "pip", "install", "--quiet", "--python", str(python), *pins], check=True)
        installed.write_text(wanted)
    return str(python)


def versions_of(peer: str) -> dict[str, str]:
    """What is installed for it, of what bears on the figures."""
    ask = (
        "import importlib.metadata as m, json\n"
        "print(json.dumps({d.name.lower(): d.version for d in m.distributions()}))"
    )
    answer = subprocess.run([python_of(peer), "-c", ask], capture_output=True, text=True, check=True, timeout=60).stdout
    every: dict[str, str] = json.loads(answer)
    names = {peer, "redis", "hiredis", "coredis", "taskiq", "kombu", "uvloop"}
    return {name: version for name, version in sorted(every.items()) if name in names}
