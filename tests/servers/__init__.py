"""The real servers that the tests run on.

A kind is a name such as `redis-7.0`. `find` gives its binary, or says why it cannot be had (`make servers` gets what
is missing). `ServerProcess` runs one of a test's own, to be killed and restarted at will. `SessionServers` runs one
of each kind for the whole session, and falls back to a container where Docker answers.
"""

from tests.servers.find import KINDS, REDIS_7, REDIS_8, VALKEY, Unavailable, find
from tests.servers.process import ServerProcess, TlsFiles, make_tls_files
from tests.servers.session import GIVEN, SessionServers

__all__ = [
    "GIVEN",
    "KINDS",
    "REDIS_7",
    "REDIS_8",
    "VALKEY",
    "ServerProcess",
    "SessionServers",
    "TlsFiles",
    "Unavailable",
    "find",
    "make_tls_files",
]
