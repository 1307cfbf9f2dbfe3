"""A model that says what a script says, behind the HTTP API of a real one: it drives agents without a network.

An agent's request holds the whole conversation, so the endpoint keeps none: the number of results in it is the place in
the script. A request without tools (agents ask for titles and the like) is answered with a word. Where an agent offers
its servers' tools only to a model that looks for them, the endpoint looks first.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Generator

LAST_WORDS = "That was all."
SEARCH = "ToolSearch"
"""Claude Code's tool that brings the tools which it holds back."""
LOOKED = "looked_"
"""Begins the id of a call that is not in the script."""


class Offered(NamedTuple):
    """A tool as the agent offers it to the model."""

    name: str
    description: str
    schema: dict[str, Any]
    group: str | None = None
    """The namespace that a call must name too, where the API has such."""


@dataclass
class Given:
    """A result as the agent gives it to the model."""

    text: str
    pictures: list[str] = field(default_factory=list[str])
    """The base64 of each."""
    failed: bool | None = None
    """Whether it is marked as an error; None where the API cannot say."""


class Call(NamedTuple):
    tool: str
    """As Ferrule names it."""
    arguments: dict[str, Any]


class Asked(NamedTuple):
    """A request: what the model may call, and what it was given so far."""

    tools: list[Offered]
    results: list[Given]
    told: str
    """All the rest of it, as JSON."""


class Wire(Protocol):
    """One provider's HTTP API."""

    def wants_model(self, path: str) -> bool:
        """Whether a POST to a path is a request to the model."""
        ...

    def read(self, body: Any) -> Asked: ...

    def call(self, tool: Offered, arguments: dict[str, Any], call_id: str) -> list[tuple[str, Any]]:
        """The events of an answer that calls a tool."""
        ...

    def say(self, text: str) -> list[tuple[str, Any]]: ...

    def whole(self, events: list[tuple[str, Any]]) -> Any:
        """The same as one body, for a request that does not stream."""
        ...

    def streams(self, path: str, body: Any) -> bool: ...


@dataclass
class Endpoint:
    """What was asked so far. `url` is the address to give to an agent."""

    wire: Wire
    script: Sequence[Call]
    url: str = ""
    asked: list[Asked] = field(default_factory=list[Asked])
    """The requests with tools, in order."""
    bodies: list[Any] = field(default_factory=list[Any])
    looked_for: list[str] = field(default_factory=list[str])
    missing: list[str] = field(default_factory=list[str])
    """The script's tools that the agent did not offer to the model."""
    paths: list[str] = field(default_factory=list[str])
    """Everything that was asked for, of the model or not."""

    @property
    def results(self) -> list[Given]:
        """What the model was given in the end."""
        return max((one.results for one in self.asked), key=len, default=[])

    @property
    def tools(self) -> list[Offered]:
        return self.asked[0].tools if self.asked else []

    def offered(self, name: str) -> Offered | None:
        """A tool of Ferrule's under whatever name the agent gave it."""
        for tool in self.asked[-1].tools:
            is_ours = "ferrule" in (tool.group or tool.name)
            if is_ours and (tool.name == name or tool.name.endswith(f"_{name}")):
                return tool
        return None

    def answer(self, body: Any) -> list[tuple[str, Any]]:
        asked = self.wire.read(body)
        self.bodies.append(body)
        if not asked.tools:
            return self.wire.say("A title")
        self.asked.append(asked)
        done = len(asked.results)
        if done >= len(self.script):
            return self.wire.say(LAST_WORDS)
        step = self.script[done]
        tool = self.offered(step.tool)
        if tool is not None:
            return self.wire.call(tool, step.arguments, f"step_{done}")
        search = next((one for one in asked.tools if one.name == SEARCH), None)
        if search is not None and step.tool not in self.looked_for:
            self.looked_for.append(step.tool)
            query = {"query": f"select:mcp__ferrule__{step.tool}", "max_results": 1}
            return self.wire.call(search, query, f"{LOOKED}{done}")
        self.missing.append(step.tool)
        return self.wire.say(f"There is no {step.tool}.")


@contextmanager
def serving(wire: Wire, script: Sequence[Call]) -> Generator[Endpoint]:
    """The endpoint on a free port, until the block ends."""
    endpoint = Endpoint(wire, script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            endpoint.paths.append(self.path)
            if not wire.wants_model(self.path):
                self._send(404, "application/json", b'{"error": {"message": "not here"}}')
                return
            body = json.loads(data)
            events = endpoint.answer(body)
            if not wire.streams(self.path, body):
                self._send(200, "application/json", json.dumps(wire.whole(events)).encode())
                return
            lines = [
                (f"event: {name}\n" if name else "")
                + f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n"
                for name, data in events
            ]
            self._send(200, "text/event-stream", "".join(lines).encode())

        def do_GET(self) -> None:
            self._send(404, "application/json", b'{"error": {"message": "not here"}}')

        def do_HEAD(self) -> None:
            self._send(200, "application/json", b"")

        def _send(self, status: int, kind: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    endpoint.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
