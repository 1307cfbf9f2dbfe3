"""A market for tests: wheels, an index, and real servers on this machine, honest and hostile."""

from __future__ import annotations

import json
import socket
import threading
import zipfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ferrule.plugins.signed_index import INDEX_FILE, public_key, sign

KEY = Ed25519PrivateKey.from_private_bytes(b"1" * 32)
OTHER_KEY = Ed25519PrivateKey.from_private_bytes(b"2" * 32)
PINNED = public_key(KEY)

TABLE = """\
[tool.ferrule.plugin]
name = "{name}"
summary = "{summary}"
publisher = "Acme"
ferrule = ">=0.1"
entry = "acme_weather:tools"
tools = [{{name = "read_weather", kind = "readonly", summary = "Read the weather."}}]
needs = {{hosts = ["api.weather.example"], secrets = ["WEATHER_KEY"]}}
"""


def make_wheel(
    folder: Path,
    name: str = "weather",
    version: str = "1.0.0",
    *,
    summary: str = "The weather of a city.",
    table: str | None = None,
    tag: str = "py3-none-any",
) -> Path:
    """A wheel with the declaration of a plugin, as a build makes it."""
    folder.mkdir(parents=True, exist_ok=True)
    package = f"acme_{name.rpartition('/')[2].replace('-', '_').replace('.', '_')}"
    file = folder / f"{package}-{version}-{tag}.whl"
    with zipfile.ZipFile(file, "w") as archive:

        def put(inner: str, text: str) -> None:
            archive.writestr(zipfile.ZipInfo(inner, (2026, 1, 1, 0, 0, 0)), text)

        put(f"{package}/__init__.py", f'"""{summary} {tag}"""\n')
        put(f"{package}/ferrule-plugin.toml", TABLE.format(name=name, summary=summary) if table is None else table)
        put(
            f"{package}-{version}.dist-info/METADATA",
            f"Metadata-Version: 2.4\nName: {package.replace('_', '-')}\nVersion: {version}\n",
        )
    return file


def make_mcpb(folder: Path, manifest: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "clock.mcpb"
    if isinstance(manifest, dict):
        manifest = {"server": {"type": "node", "mcp_config": {"command": "node"}}, **manifest}
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
    return file


def entry(name: str = "weather", version: str = "1.0.0", **meta: Any) -> dict[str, Any]:
    files = [{"url": f"files/{name}-{version}.whl", "sha256": "0" * 64, "size": 3}]
    plugin = {"files": files, "publisher": "Acme", "published_at": "2026-01-01T00:00:00Z", **meta}
    server = {"name": name, "version": version, "description": f"About {name}."}
    return {"server": server, "_meta": {"dev.ferrule/plugin": plugin}}


def index(*entries: Mapping[str, Any], serial: int = 1, days: float = 30) -> bytes:
    now = datetime.now(UTC)
    metadata = {
        "serial": serial,
        "generated_at": now.isoformat(),
        "expires_at": (now + timedelta(days=days)).isoformat(),
    }
    return json.dumps({"servers": list(entries or [entry()]), "metadata": metadata}).encode()


class Site:
    """A folder that is served over HTTP, and what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = ""

    def put(self, data: bytes) -> None:
        (self.folder / INDEX_FILE).write_bytes(data)

    def offer(self, *entries: Mapping[str, Any], serial: int = 1, days: float = 30) -> None:
        self.put(sign(index(*entries, serial=serial, days=days), KEY))


@contextmanager
def serving(folder: Path) -> Generator[Site]:
    """An honest server of a folder."""
    folder.mkdir(parents=True, exist_ok=True)

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    site = Site(folder)
    with running(partial(Quiet, directory=str(folder))) as site.url:
        yield site


@contextmanager
def running(handler: Callable[..., Any]) -> Generator[str]:
    """A server with a handler of `http.server`; its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def raw(answer: Callable[[socket.socket], object]) -> Generator[str]:
    """A server that does with each connection what it likes, until the client goes away; its address."""
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _address = listening.accept()
                with connection, suppress(OSError):
                    connection.recv(65_536)
                    answer(connection)

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
