"""Where nothing says which model to ask, the person hears what to do, and is offered what is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from ferrule.cli.models import offers
from ferrule.models.providers import Availability, FoundProvider

if TYPE_CHECKING:
    from tests.cli.chatting.conftest import Desk

KEYS = ("_API_KEY", "_KEY", "FERRULE_MODEL")


def without_keys(desk: Desk) -> dict[str, str]:
    return {key: value for key, value in desk.environment.items() if not key.endswith(KEYS)}


def test_only_what_is_ready_is_offered_a_few_of_each() -> None:
    found = [
        FoundProvider("local", "Local", Availability.READY, ("small",)),
        FoundProvider("openai", "OpenAI", Availability.NO_KEY, ("x",)),
        FoundProvider("anthropic", "Anthropic", Availability.READY, tuple("abcde"), "ANTHROPIC_API_KEY"),
        FoundProvider("ollama", "Ollama", Availability.READY, ("llama",)),
    ]
    assert offers(found) == [
        ("local/small", "(on this machine, small, no key)"),
        ("anthropic/a", "(key from ANTHROPIC_API_KEY)"),
        ("anthropic/b", "(key from ANTHROPIC_API_KEY)"),
        ("anthropic/c", "(key from ANTHROPIC_API_KEY)"),
        ("ollama/llama", "(on this machine)"),
    ]


def test_without_a_terminal_it_says_what_to_do_and_ends_with_2(desk: Desk) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ferrule", "chat"],
        cwd=desk.workspace, env=without_keys(desk), input="hello\n", capture_output=True, text=True, timeout=60,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    for words in ("No model is chosen", "--model ollama/NAME", "--model local ", "ANTHROPIC_API_KEY"):
        assert words in done.stderr


class Server(BaseHTTPRequestHandler):
    """As much of an OpenAI-compatible server as a conversation of one sentence needs."""

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"object": "list", "data": [{"id": "tiny", "object": "model"}]}))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        piece = {"choices": [{"index": 0, "delta": {"content": "Hello from here."}, "finish_reason": None}]}
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        events = "".join(f"data: {json.dumps(one)}\n\n" for one in (piece, end))
        self._send("text/event-stream", f"{events}data: [DONE]\n\n")

    def _send(self, kind: str, text: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    served = HTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{served.server_port}/v1"
    served.shutdown()
    thread.join()
    served.server_close()


def test_at_a_terminal_what_is_there_is_offered_and_the_conversation_begins(desk: Desk, server: str) -> None:
    desk.settings.write_text(f'[providers.mine]\nbase_url = "{server}"\n')
    environment = without_keys(desk)
    desk.environment = {**environment, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    chat = desk.start([sys.executable, "-m", "ferrule", "chat"], columns=80, rows=24, rewraps=False, environment=None)
    chat.wait("Which one?")
    number = next(row.split()[0] for row in chat.text.split("\n") if "mine/tiny" in row)
    chat.type(number)
    chat.wait("To keep it: export FERRULE_MODEL=mine/tiny")
    chat.prompt(1)
    chat.type("hello")
    chat.wait("Hello from here.")
    assert os.environ.get("FERRULE_MODEL") is None


def test_who_picks_nothing_leaves(desk: Desk, server: str) -> None:
    desk.settings.write_text(f'[providers.mine]\nbase_url = "{server}"\n')
    desk.environment = {**without_keys(desk), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    chat = desk.start([sys.executable, "-m", "ferrule", "chat"], columns=80, rows=24, rewraps=False, environment=None)
    chat.wait("Which one?")
    chat.type("")
    assert chat.ended() == 2


def test_a_model_that_cannot_be_had_is_said_in_words(desk: Desk) -> None:
    chat = desk.start(
        [sys.executable, "-m", "ferrule", "chat", "--model", "nowhere/none"],
        columns=80, rows=24, rewraps=False, environment=None,
    )  # fmt: skip
    assert chat.ended() == 2
    assert "There is no provider `nowhere`" in chat.text
