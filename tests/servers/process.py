"""One server process on loopback, or on a unix socket, in a temporary folder."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import redis

from tests.servers.find import VALKEY, find

if TYPE_CHECKING:
    from collections.abc import Sequence

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 20.0
_PORT_TRIES = 5


@dataclass(frozen=True, kw_only=True)
class TlsFiles:
    """PEM files: what a server shows, and the authority that a client trusts for it."""

    certificate: Path
    key: Path
    authority: Path


def make_tls_files(folder: Path) -> TlsFiles:
    """A new authority and a certificate of it for this machine's loopback names."""
    import trustme

    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1", "localhost")
    files = TlsFiles(certificate=folder / "server.pem", key=folder / "server.key", authority=folder / "ca.pem")
    leaf.private_key_pem.write_to_path(files.key)
    for number, blob in enumerate(leaf.cert_chain_pems):
        blob.write_to_path(files.certificate, append=number > 0)
    authority.cert_pem.write_to_path(files.authority)
    return files


class ServerProcess:
    """A server of the test's own: `with ServerProcess("redis-7.0") as server: … server.url …`.

    It keeps its port and its folder over `kill` and `restart`, and saves nothing unless told to
    (`extra_args=("--appendonly", "yes")`). TLS needs a Redis kind: the embedded Valkey is built without it.
    """

    def __init__(
        self,
        kind: str = VALKEY,
        extra_args: Sequence[str] = (),
        *,
        port: int = 0,
        unix_socket: bool = False,
        tls: TlsFiles | None = None,
    ) -> None:
        self.kind = kind
        self.folder = Path(tempfile.mkdtemp(prefix="chasqui-test-"))
        self.port = port
        self._binary = find(kind)
        self._extra_args = list(extra_args)
        self._unix_socket = unix_socket
        self._tls = tls
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        if self._unix_socket:
            return f"unix://{self.folder}/server.sock"
        if self._tls:
            return f"rediss://127.0.0.1:{self.port}/0?ssl_ca_certs={self._tls.authority}"
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> Self:
        """Start it and wait until it answers. A second start comes back on the same port."""
        # Between choosing a free port and listening on it, somebody else may take it.
        for _ in range(1 if self.port or self._unix_socket else _PORT_TRIES):
            port = self.port or free_port()
            self._process = subprocess.Popen(
                [self._binary, *self._args(port)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
            )
            if self._answers(port):
                self.port = port
                return self
            self._end(signal.SIGKILL)
        raise RuntimeError(f"{self.kind} does not start:\n{self.log()[-2000:]}")

    def stop(self) -> None:
        """Ask it to end, as a service manager would; what it persists is saved."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing answers."""
        assert self._process is not None, "the server is not running"
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None, "the server is not running"
        self._process.send_signal(signal.SIGCONT)

    def log(self) -> str:
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        """End it and remove its folder."""
        self._end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _args(self, port: int) -> list[str]:
        args = ["--bind", "127.0.0.1", "--dir", str(self.folder), "--logfile", str(self.folder / "server.log")]
        args += ["--daemonize", "no", "--save", "", "--appendonly", "no"]
        if self._unix_socket:
            args += ["--port", "0", "--unixsocket", str(self.folder / "server.sock"), "--unixsocketperm", "700"]
        elif self._tls:
            args += ["--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"]
            args += ["--tls-cert-file", str(self._tls.certificate), "--tls-key-file", str(self._tls.key)]
            args += ["--tls-ca-cert-file", str(self._tls.authority)]
        else:
            args += ["--port", str(port)]
        return args + self._extra_args

    def _answers(self, port: int) -> bool:
        """Whether this process, and not another one on its port, comes to answer."""
        assert self._process is not None
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while self._process.poll() is None and time.monotonic() < deadline_s:
            if self._ready_on(port):
                return self._process.poll() is None
            time.sleep(0.01)
        return False

    def _ready_on(self, port: int) -> bool:
        if self._tls:
            return self._tls_ready_on(port)
        with socket.socket(socket.AF_UNIX if self._unix_socket else socket.AF_INET) as client:
            client.settimeout(_START_TIMEOUT_S)
            try:
                client.connect(str(self.folder / "server.sock") if self._unix_socket else ("127.0.0.1", port))
                client.sendall(b"PING\r\n")
                # A server with a password answers -NOAUTH, and one that still reads its data -LOADING.
                return client.recv(64).startswith((b"+PONG", b"-NOAUTH"))
            except OSError:
                return False

    def _tls_ready_on(self, port: int) -> bool:
        assert self._tls is not None
        with redis.Redis(port=port, ssl=True, ssl_ca_certs=str(self._tls.authority)) as client:
            try:
                return bool(client.ping())
            except redis.AuthenticationError:
                return True
            except redis.RedisError:
                return False

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        process.send_signal(signal.SIGCONT)  # a paused one would never see the rest
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
