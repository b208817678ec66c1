"""The demo shows what it says."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_demo() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "demo.airflow"], capture_output=True, timeout=380, check=False
    )
    said = done.stdout.decode()
    assert done.returncode == 0, said + done.stderr.decode()[-3000:]
    assert "success: the results add up to 2646700" in said
