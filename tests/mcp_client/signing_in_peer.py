"""A server over HTTP that wants the person to sign in, its sign-in page included, and a browser to visit that with."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

BROWSER = """#!{python} -I
import sys, urllib.request
open({visited!r}, "a").write(sys.argv[1] + "\\n")
urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(sys.argv[1]).read()
"""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _base(self) -> str:
        return f"http://127.0.0.1:{self.connection.getsockname()[1]}"

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        if path.startswith("/.well-known/oauth-protected-resource"):
            self._answer(200, {"resource": f"{self._base}/mcp", "authorization_servers": [self._base]})
        elif path.startswith("/.well-known/oauth-authorization-server"):
            ends = {f"{name}_endpoint": f"{self._base}/{page}" for name, page in PAGES.items()}
            able = {"response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"]}
            self._answer(200, {"issuer": self._base, **ends, **able})
        elif path == "/authorize":
            back = urlencode({"code": "abc", "state": query["state"][0]})
            self._answer(302, None, location=f"{query['redirect_uri'][0]}?{back}")
        else:
            self._answer(405, None)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == "/register":
            self._answer(201, {**json.loads(body), "client_id": "me"})
        elif self.path == "/token":
            self._answer(200, {"access_token": "secret", "token_type": "Bearer", "expires_in": 3600})
        elif self.headers.get("authorization") != "Bearer secret":
            place = f'Bearer resource_metadata="{self._base}/.well-known/oauth-protected-resource/mcp"'
            self._answer(401, None, **{"www-authenticate": place})
        else:
            self._answer_call(json.loads(body))

    def _answer_call(self, message: dict[str, Any]) -> None:
        method, key = message.get("method"), message.get("id")
        if key is None:
            self._answer(202, None)
            return
        tool = {"name": "hello", "description": "Say hello.", "inputSchema": {"type": "object"}}
        results: dict[Any, dict[str, Any]] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "guarded", "version": "1"},
            },
            "tools/list": {"tools": [tool]},
            "tools/call": {"content": [{"type": "text", "text": "hello"}]},
        }
        found = results.get(method)
        said = {"result": found} if found else {"error": {"code": -32601, "message": "no such method"}}
        self._answer(200, {"jsonrpc": "2.0", "id": key, **said})

    def _answer(self, status: int, document: Any, **headers: str) -> None:
        body = b"" if document is None else json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *_arguments: Any) -> None:
        """Nobody reads it."""


PAGES = {"authorization": "authorize", "token": "token", "registration": "register"}


@contextmanager
def signing_in() -> Generator[str]:
    """The address of such a server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def browser(folder: Path) -> tuple[dict[str, str], Path]:
    """The environment in which an address is opened by this browser, and the file of those it visited."""
    program, visited = folder / "browser", folder / "visited"
    program.write_text(BROWSER.format(python=sys.executable, visited=str(visited)))
    program.chmod(0o755)
    return {"BROWSER": str(program), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}, visited
