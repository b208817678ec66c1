"""Servers that end and come back, with each way of writing to disk, for two and for eight seconds."""

from __future__ import annotations

import os

import pytest

from tests.servers import ServerProcess
from tests.support.faults.outages import ALWAYS, EVERYSEC, outage

TIMES = int(os.environ.get("CHASQUI_SOAK_OUTAGES", "3"))
FSYNC = {"always": ALWAYS, "everysec": EVERYSEC}


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("down_s", [2, 8])
@pytest.mark.parametrize("how", ["kill", "stop"])
@pytest.mark.parametrize("fsync", FSYNC)
async def test_what_a_server_keeps_is_not_lost(server_kind: str, fsync: str, how: str, down_s: int) -> None:
    if server_kind == "given":
        pytest.skip("breaks its server, so it needs one of its own")
    for time in range(TIMES):  # each on a server without a past
        with ServerProcess(server_kind, FSYNC[fsync]) as server:
            result = await outage(server, f"outage-{time}", getattr(server, how), down_s, jobs=1000)
        print(f"{server_kind}, {fsync}, {how}, {down_s} s down: {result}", flush=True)
        if fsync == "always" or how == "stop":
            assert result.lost == 0
        assert result.again <= 200
        assert result.back_s < 2
