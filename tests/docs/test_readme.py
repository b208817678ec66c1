"""The README's example runs as it stands, and it stays short."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_it_says_what_this_is_before_anything_else() -> None:
    assert README.read_text(encoding="utf-8").startswith(
        "# Chasqui\n\nAn Apache Airflow provider and the job queue under it."
    )


def test_the_program_runs_as_it_stands(tmp_path: Path) -> None:
    _dag, example = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    script = tmp_path / "example.py"
    script.write_text(example, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "{'rendered': '2026-11-19'}\n", done.stderr
    assert done.returncode == 0


def test_it_stays_under_600_words() -> None:
    assert len(README.read_text(encoding="utf-8").split()) < 600
