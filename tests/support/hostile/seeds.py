"""Which hostile data, and how much of it: the same in every run, unless the environment says otherwise."""

from __future__ import annotations

import os

SEED = int(os.environ.get("CHASQUI_FUZZ_SEED", "20260714"))
COUNT = int(os.environ.get("CHASQUI_FUZZ_COUNT", "60"))
"""Hostile entries for each kind of key that a reader of a real queue is given."""
CHEAP_COUNT = 20 * COUNT
"""The same for readers that need no server: a conversion takes a fraction of a millisecond."""
SOAK_COUNT = int(os.environ.get("CHASQUI_FUZZ_COUNT", "1000000"))
