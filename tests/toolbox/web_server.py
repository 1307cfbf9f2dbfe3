"""A web server on this machine that does what is asked of it, hostile things too."""

from __future__ import annotations

import base64
import gzip
import json
import threading
import time
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

PAGE = """<!doctype html><html><head><title>Ferrules &amp; rings</title><script>steal()</script></head><body>
<nav><a href="/">Home</a> <a href="/shop">Shop</a></nav><article><h1>What a ferrule is</h1>
<p>A ferrule is the ring that binds a tool to its handle. It keeps the wood from splitting, and it is made of
metal in most cases. See <a href="/history">its history</a> for more about how it came to be.</p>
<p>Für Größe und Maß gibt es Tabellen, die zeigen, welcher Ring auf welchen Stiel passt und wie er sitzt.</p>
<table><tr><th>size</th><th>fits</th></tr><tr><td>8</td><td>file</td></tr></table></article></body></html>"""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: WebServer  # pyright: ignore[reportIncompatibleVariableOverride]

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, body: bytes = b"", status: int = 200, kind: str = "text/plain", **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def serve(self) -> None:
        sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.seen.append(
            {"method": self.command, "path": self.path, "headers": dict(self.headers), "body": sent}
        )
        path = self.path.partition("?")[0]
        with suppress(OSError):  # whoever asked has gone
            getattr(self, f"do_{path.strip('/').replace('/', '_').replace('-', '_')}", self.echo)(sent)
        self.close_connection = True

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = serve

    def echo(self, sent: bytes) -> None:
        told = {
            "method": self.command,
            "path": self.path,
            "headers": dict(self.headers),
            "body": sent.decode("latin-1"),
        }
        self.answer(json.dumps(told).encode(), kind="application/json", X_Path=self.path)

    def do_page(self, _sent: bytes) -> None:
        self.answer(PAGE.encode(), kind="text/html; charset=utf-8")

    def do_latin(self, _sent: bytes) -> None:
        self.answer("Größe: 3 µm".encode("latin-1"), kind="text/plain; charset=iso-8859-1")

    def do_picture(self, _sent: bytes) -> None:
        self.answer(b"\x89PNG\r\n\x1a\n\0\0\0", kind="image/png")

    def do_missing(self, _sent: bytes) -> None:
        self.answer(b"none", 404)

    def do_moved(self, _sent: bytes) -> None:
        self.answer(status=302, Location="/page")

    def do_away(self, _sent: bytes) -> None:
        self.answer(status=302, Location=self.server.away)

    def do_round(self, _sent: bytes) -> None:
        self.answer(status=302, Location="/round")

    def do_bomb(self, _sent: bytes) -> None:
        self.answer(gzip.compress(bytes(50_000_000)), Content_Encoding="gzip")

    def do_packed(self, _sent: bytes) -> None:
        self.answer(gzip.compress(b"packed " * 100), Content_Encoding="gzip")

    def do_raw_deflate(self, _sent: bytes) -> None:
        packer = zlib.compressobj(wbits=-15)
        self.answer(packer.compress(b"deflated") + packer.flush(), Content_Encoding="deflate")

    def do_damaged(self, _sent: bytes) -> None:
        self.answer(b"not gzip at all", Content_Encoding="gzip")

    def do_brotli(self, _sent: bytes) -> None:
        self.answer(b"\x0b\x02\x80", Content_Encoding="br")

    def do_large(self, _sent: bytes) -> None:
        self.answer(b"x" * 3_000_000)

    def do_endless(self, _sent: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(b"x" * 65_536)

    def do_slow(self, _sent: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        for _ in range(600):
            self.wfile.write(b"x")
            self.wfile.flush()
            time.sleep(0.05)

    def do_silent(self, _sent: bytes) -> None:
        self.server.over.wait(30)

    def do_cut_off(self, _sent: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"half")

    def do_garbage(self, _sent: bytes) -> None:
        self.wfile.write(b"\x00\xff not http\r\n\r\n")

    def do_headers(self, _sent: bytes) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(200_000)) + b"\r\n")

    def do_echo_secret(self, _sent: bytes) -> None:
        """Give back what authorised the request, in every form that comes to mind."""
        raw = self.headers.get("Authorization") or self.headers.get("X-Api-Key") or self.path.partition("=")[2]
        word = raw.split()[-1]
        forms = [
            raw, word, quote(raw, safe=""), quote(word, safe=""), quote(quote(word, safe=""), safe=""),
            json.dumps(raw), json.dumps(word).replace("/", "\\/"), base64.b64encode(raw.encode()).decode(),
            base64.b64encode(b"xy" + raw.encode() + b"z").decode(),
            base64.urlsafe_b64encode(b"k" + word.encode()).decode(),
            word.encode().hex(), "".join(f"&#{ord(one)};" for one in word), "".join(f"%{ord(one):02x}" for one in word),
        ]  # fmt: skip
        self.answer("\n".join(forms).encode(), status=401, X_Echo=quote(raw, safe=""), Location=f"/?key={raw}")


class WebServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen: list[dict[str, Any]] = []
        self.away = "http://127.0.0.2/elsewhere"
        self.over = threading.Event()

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients of these tests leave when they have seen enough


@contextmanager
def web_server() -> Generator[WebServer]:
    server = WebServer()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
