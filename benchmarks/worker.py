"""One worker process: `python -m benchmarks.worker PEER URL WORK`, until SIGTERM."""

from __future__ import annotations

import json
import logging
import os
import sys

from benchmarks.peers import load
from benchmarks.peers.peer import Work


def main() -> None:
    name, url, work = sys.argv[1:]
    # For all alike: what a library logs per job is not part of the comparison.
    logging.disable(logging.CRITICAL)
    load(name)(url, Work(**json.loads(work))).run_worker()
    # Some native modules abort the interpreter while it shuts down.
    os._exit(0)


if __name__ == "__main__":
    main()
