"""Stands between the service and PostgreSQL, and loses a connection after COMMIT has done its work."""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_SOCKET = ".s.PGSQL.5432"


class LosingProxy:
    """`lose_after(text)`: the next transaction that sends this text is committed, and nobody hears of it."""

    def __init__(self, url: str) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="flp", dir="/tmp"))  # a socket's path must be short
        parts = urlsplit(url)
        self._server = f"{parse_qs(parts.query)['host'][0]}/{_SOCKET}"
        self.url = f"{url.partition('?')[0]}?host={self._folder}"
        self.lost = 0
        self._wanted = b""
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._folder / _SOCKET))
        self._listening.listen(50)
        threading.Thread(target=self._accept, daemon=True).start()

    def lose_after(self, text: str) -> None:
        self._wanted = text.encode()

    def close(self) -> None:
        self._listening.close()
        shutil.rmtree(self._folder)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            _Passing(self, client, server)

    def takes(self, sent: bytes) -> bool:
        """Whether this is the transaction to lose."""
        if not self._wanted or self._wanted not in sent:
            return False
        self._wanted = b""
        return True


class _Passing:
    """One connection."""

    def __init__(self, proxy: LosingProxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._losing = False
        self._ended = threading.Semaphore(1)
        for work in (self._up, self._down):
            threading.Thread(target=work, daemon=True).start()

    def _up(self) -> None:
        sent = b""
        while data := _read(self._client):
            sent += data
            if b"COMMIT" in data:
                self._losing = self._losing or self._proxy.takes(sent)
                sent = b""
            with suppress(OSError):
                self._server.sendall(data)
        self._close()

    def _down(self) -> None:
        said = b""
        while data := _read(self._server):
            if not self._losing:
                with suppress(OSError):
                    self._client.sendall(data)
                continue
            said += data
            if b"COMMIT\x00" in said:
                self._proxy.lost += 1
                break
        self._close()

    def _close(self) -> None:
        """Of the two threads the first wakes the other, which closes both ends."""
        first = self._ended.acquire(blocking=False)
        for one in (self._client, self._server):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            if not first:
                one.close()


def _read(one: socket.socket) -> bytes:
    try:
        return one.recv(65_536)
    except OSError:
        return b""
