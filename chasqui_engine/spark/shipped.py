"""Makes executors without the package raise a one-sentence error.

An object is unpickled by importing its class. Where that fails, Spark shows a traceback of its own with the name of a
module, and nothing about what to do. So readers and writers travel as bytes, with a function that needs nothing but
Python to unpickle them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any


class Shipped:
    """A base class for what Spark pickles on the driver and unpickles in tasks."""

    def __reduce__(self) -> tuple[Callable[[bytes], Any], tuple[bytes]]:
        return _unpack, (pickle.dumps((type(self), self.__getstate__())),)


def _unpack(packed: bytes) -> Any:
    import pickle
    import sys

    try:
        kind, state = pickle.loads(packed)
    except ModuleNotFoundError as err:
        missing = (err.name or "").partition(".")[0]
        raise RuntimeError(
            f"Spark's executors cannot import {missing} (their Python is {sys.executable}): install chasqui[spark] "
            "there, or ship it with --archives or --py-files, as docs/spark.md says under 'On a cluster'"
        ) from None
    found = object.__new__(kind)
    found.__dict__.update(state or {})
    return found


# Functions of `__main__` are pickled with their code by cloudpickle, which Spark uses, and others by their name.
_unpack.__module__ = "__main__"
