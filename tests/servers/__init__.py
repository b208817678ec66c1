"""The real servers that the tests run on.

A kind is a name such as `redis-7.0`. A test asks for the session's server of each kind by the fixture `redis_url` (for
one kind: `valkey_url`, `redis86_url`), and for one of its own, to be killed and restarted at will, by
`ServerProcess(kind)`. Either raises `Unavailable` where the kind cannot be had, and `tests/conftest.py` makes that a
skip with the reason. `make servers` gets what is missing; `SessionServers` falls back to a container where Docker
answers; `CHASQUI_TEST_SERVERS=valkey-9.1,redis-7.0` leaves the others out.
"""

from tests.servers.find import CHOICE, KINDS, REDIS_6, REDIS_7, REDIS_8, VALKEY, Unavailable, find
from tests.servers.process import ServerProcess, TlsFiles, free_port, make_tls_files
from tests.servers.session import GIVEN, SessionServers

__all__ = [
    "CHOICE",
    "GIVEN",
    "KINDS",
    "REDIS_6",
    "REDIS_7",
    "REDIS_8",
    "VALKEY",
    "ServerProcess",
    "SessionServers",
    "TlsFiles",
    "Unavailable",
    "find",
    "free_port",
    "make_tls_files",
]
