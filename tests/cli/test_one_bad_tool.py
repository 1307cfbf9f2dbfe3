"""One bad tool among good ones, in every command that goes through them all (P1, R6)."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from tests.core import bad_tools
from tests.mcp_server.serving import text_of

from .terminal import CTRL_D, Terminal
from .test_mcp_serve import served

if TYPE_CHECKING:
    from .conftest import Command

BAD = [one.name for one in bad_tools.BAD]
USABLE = [bad_tools.greet_person.name, *(one.name for one in bad_tools.ODD)]


@pytest.fixture
def mixed(ferrule: Command) -> Command:
    """The command with a file of good and bad tools, beside its own."""
    tools = ferrule.folder / "tools" / "mixed.py"
    shutil.copy(Path(bad_tools.__file__), tools)
    with tools.open("a") as file:
        file.write("globals().update({one.name: one for one in [*BAD, *ODD]})\n")
    return ferrule


def test_the_list_says_what_cannot_be_used(mixed: Command) -> None:
    done = mixed("tools")
    assert (done.code, "Traceback" in done.err) == (0, False)
    assert {line.split()[0] for line in done.out.splitlines()} >= {"echo_text", *BAD, *USABLE}
    assert "Warning: `call_back`: `callback` is a Callable, which has no JSON form" in done.err
    assert done.err.count("Warning: ") == len(BAD)


def test_the_json_list_has_a_fault_for_it(mixed: Command) -> None:
    listed = {one["name"]: one for one in mixed("tools", "--json").json}
    assert {name for name, one in listed.items() if one["fault"] is not None} == set(BAD)
    assert (listed["call_back"]["input_schema"], listed["call_back"]["description"]) == (
        None,
        "Call something back. Use this to test.",
    )
    assert listed["greet_person"]["input_schema"]["required"] == ["name"]


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "gemini", "mcp"])
def test_definitions_are_printed_of_the_others(dialect: str, mixed: Command) -> None:
    done = mixed("tools", "--dialect", dialect)
    shown = {one.get("function", one)["name"] for one in done.json}
    assert shown >= {"echo_text", *USABLE}
    assert shown.isdisjoint(BAD)
    assert done.err.count("left out: ") == len(BAD)


def test_one_of_them_is_shown_with_what_is_wrong(mixed: Command) -> None:
    assert "`callback` is a Callable" in mixed("tools", "call_back").out
    assert mixed("tools", "LookUpWithoutWords").out.splitlines()[0] == "LookUpWithoutWords 1.0.0 (readonly)"


def test_lint_has_findings_for_it_and_goes_on(mixed: Command) -> None:
    done = mixed("lint", "--json")
    rules = {(one["tool"], one["rule"]) for one in done.json}
    assert done.code == 1
    assert {name for name, rule in rules if rule in ("F014", "F020")} == set(BAD)
    assert ("take_default", "F028") in rules


def test_doctor_names_it(mixed: Command) -> None:
    done = mixed("doctor", "--json")
    failed = [one["message"] for one in done.json if one["state"] == "fail" and one["name"] == "tools"]
    assert sorted(message.split("`")[1] for message in failed) == sorted(BAD)
    assert next(one["state"] for one in done.json if one["name"] == "call") == "ok"


def test_the_others_can_be_called(mixed: Command) -> None:
    assert mixed("call", "greet_person", '{"name": "Ada"}').out == "Hello, Ada!\n"
    wrong = mixed("call", "call_back", '{"callback": 1}')
    assert wrong.code == 1
    assert "The tool `call_back` is not defined correctly and cannot be called." in wrong.err


async def test_an_mcp_client_is_offered_the_others(mixed: Command) -> None:
    """O7."""
    async with Client(served(mixed)) as client:
        offered = {one.name for one in (await client.list_tools()).tools}
        assert offered >= {"echo_text", *USABLE}
        assert offered.isdisjoint(BAD)
        assert text_of(await client.call_tool("greet_person", {"name": "Ada"})) == "Hello, Ada!"


@contextmanager
def model_server() -> Generator[tuple[str, list[Any]]]:
    """A server that speaks as OpenAI's does and answers «Done.»; gives its address and the bodies it got."""
    bodies: list[Any] = []

    class Server(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            said = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            words = {**said, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Done."}}]}
            end = {**said, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
            answer = "".join(f"data: {json.dumps(one)}\n\n" for one in (words, end)) + "data: [DONE]\n\n"
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", bodies
    finally:
        server.shutdown()
        server.server_close()


def with_model(command: Command, address: str) -> None:
    """Have a model that is shown every tool, however many there are."""
    settings = command.settings.read_text().replace("[tools]\n", "[tools]\nsearch_above = 0\n")
    command.settings.write_text(f'model = "house/m"\n{settings}\n[providers.house]\nbase_url = "{address}"\n')


def test_a_run_shows_its_model_the_others(mixed: Command) -> None:
    """M1."""
    with model_server() as (address, bodies):
        with_model(mixed, address)
        done = mixed("run", "say something")
    assert (done.code, done.out) == (0, "Done.\n")
    shown = {one["function"]["name"] for one in bodies[0]["tools"]}
    assert shown >= {"echo_text", *USABLE}
    assert shown.isdisjoint(BAD)
    assert "The tool call_back is not shown to models: `call_back`: `callback` is a Callable" in done.err


def test_a_chat_goes_on_with_the_others(mixed: Command) -> None:
    """M2."""
    with model_server() as (address, bodies):
        with_model(mixed, address)
        variables = {**mixed.environment, "TERM": "linux"}
        with Terminal(mixed.arguments("chat"), mixed.workspace, variables) as terminal:
            terminal.prompt()
            terminal.type("/tools")
            terminal.wait("LookUpWithoutWords")
            terminal.wait("greet_person")
            terminal.type("say something")
            terminal.wait("Done.")
            terminal.prompt()
            terminal.press(CTRL_D)
            assert terminal.ended() == 0
    assert {one["function"]["name"] for one in bodies[0]["tools"]} >= {"echo_text", *USABLE}
