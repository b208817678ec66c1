"""Everything here runs without Spark; it needs numpy and pyarrow only."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = (
    [] if importlib.util.find_spec("pyarrow") and importlib.util.find_spec("numpy") else ["test_*.py", "*/test_*.py"]
)
