"""The agents that people use, driven offline: they list our tools, call them, and give the results on (must-show 4).

`scripts/real-agents` installs them, which takes 1.2 GB, and runs this.
"""

from __future__ import annotations

import json
import re
import struct
import sys
import zlib
from base64 import b64encode
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.mcp_server.processes import environment, http_server
from tests.real_agents import tap
from tests.real_agents.agents import ALL, CLAUDE, CODEX, GEMINI, OPENCODE, Agent, Place
from tests.real_agents.endpoint import Call, Endpoint, Given, serving

each_agent = pytest.mark.parametrize("agent", ALL, ids=lambda agent: agent.program)
PREFIXED = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]{0,63}")
LONG_NAME = "a_tool_whose_name_has_sixty_four_letters_which_is_what_names_may"
MORE_TOOLS = f'''
from typing import Literal
from pydantic import BaseModel, Field
from ferrule import tool

class Part(BaseModel):
    size: float = Field(gt=0)
    parts: list["Part"] = []

@tool(kind="readonly")
def {LONG_NAME}(part: Part | None, kind: Literal["round"], pair: tuple[int, str], names: dict[str, int]) -> str:
    """Take whatever schemas are made of."""
    return "taken"
'''


@dataclass
class Ran:
    """An agent after its turn: what its model was asked, and what Ferrule heard and said on stdio."""

    endpoint: Endpoint
    workspace: Path
    said: list[tuple[str, Any]]
    words: str

    @property
    def sent(self) -> list[dict[str, Any]]:
        """Ferrule's results, in order."""
        calls = {one["id"] for who, one in self.said if who == "agent" and one.get("method") == "tools/call"}
        return [
            one["result"]
            for who, one in self.said
            if who == "ferrule" and one.get("id") in calls and "content" in one.get("result", {})
        ]

    @property
    def listed(self) -> list[dict[str, Any]]:
        return next(one["result"]["tools"] for _, one in self.said if "tools" in one.get("result", {}))


def picture() -> bytes:
    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = (b"\0" + b"\xc8\x1e\x1e" * 32) * 32
    head = struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@contextmanager
def place_in(folder: Path, model_url: str, transport: str = "stdio", mode: str = "accept-edits") -> Generator[Place]:
    home, workspace, ferrule = folder / "home", folder / "work", folder / "ferrule"
    for one in (home, workspace, ferrule):
        one.mkdir()
    (workspace / "notes.txt").write_text("one\ntwo\n")
    (workspace / "red.png").write_bytes(picture())
    (workspace / "long.txt").write_text("".join(f"line {at} {'x' * 80}\n" for at in range(5000)))
    ours = {key: value for key, value in environment(ferrule).items() if key.startswith("FERRULE_")}
    (ferrule / "tools" / "more.py").write_text(MORE_TOOLS)
    options = ["--mode", mode]
    if transport == "http":
        with http_server(ferrule, workspace, "--http", "127.0.0.1:0", *options) as (url, _):
            yield Place(home, workspace, model_url, url=url)
        return
    command = [sys.executable, tap.__file__, str(folder / "said"), sys.executable, "-m", "ferrule", "mcp", *options]
    yield Place(home, workspace, model_url, command, ours)


def run(agent: Agent, folder: Path, *script: Call, transport: str = "stdio", mode: str = "accept-edits") -> Ran:
    with serving(agent.wire(), script) as endpoint, place_in(folder, endpoint.url, transport, mode) as place:
        done = agent.run(place)
        words = done.stdout + done.stderr
        assert done.returncode == 0, words[-4000:]
        assert endpoint.missing == [], words[-4000:]
        assert len(endpoint.results) == len(script), words[-4000:]
    said = tap.conversation(folder / "said") if transport == "stdio" else []
    return Ran(endpoint, place.workspace, said, words)


def holds(given: Given, text: str) -> bool:
    """Whether a model was given a text; some agents put an error into JSON, and all may write something around it."""
    return text in given.text or json.dumps(text, ensure_ascii=False)[1:-1] in given.text


READ = Call("Read", {"file_path": "notes.txt"})
ASKS = Call("Write", {"file_path": "new.txt", "content": "new\n"})
WORK = (
    READ,
    Call("Glob", {"pattern": "*.txt"}),
    Call("Grep", {"pattern": "tw.", "output_mode": "content", "-n": True}),
    Call("Edit", {"file_path": "notes.txt", "old_string": "two", "new_string": "three"}),
    Call("Write", {"file_path": "new/file.txt", "content": "new\n"}),
    Call("Bash", {"command": "echo $((6 * 7)); cat notes.txt"}),
    Call("listFiles", {}),
)
TURN = (
    *WORK,
    Call("echo_text", {"text": "hi"}),
    Call("Read", {"file_path": "missing.txt"}),
    READ,
    Call("Read", {"file_path": "red.png"}),
    Call("Read", {"file_path": "long.txt"}),
)
MISSING, AFTER, PICTURE, LONG = range(len(WORK) + 1, len(TURN))


@pytest.fixture(scope="module")
def turn(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Agent], Ran]:
    """What came of a turn with every call of `TURN`, run once for each agent: starting it takes the most time."""

    @cache
    def ran(agent: Agent) -> Ran:
        return run(agent, tmp_path_factory.mktemp(agent.program), *TURN)

    return ran


@each_agent
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_an_agent_works_with_our_tools(
    agent: Agent, transport: str, tmp_path: Path, turn: Callable[[Agent], Ran]
) -> None:
    ran = turn(agent) if transport == "stdio" else run(agent, tmp_path, *WORK, transport=transport)
    read, found, matches, edited, written, ran_command, listed = ran.endpoint.results[: len(WORK)]
    assert holds(read, "     1\tone\n     2\ttwo")
    assert holds(found, "Found 2 files.")
    assert holds(matches, "notes.txt:2:two")
    assert holds(edited, "Edited `notes.txt` in 1 place")
    assert holds(written, "Created `new/file.txt`")
    assert holds(ran_command, "42\none\nthree")
    assert '"files"' in listed.text
    assert (ran.workspace / "notes.txt").read_text() == "one\nthree\n"
    assert (ran.workspace / "new/file.txt").read_text() == "new\n"
    for given, sent in zip(ran.endpoint.results[: len(WORK)], ran.sent, strict=False):
        assert holds(given, sent["content"][0]["text"])
    assert transport == "http" or len(ran.sent) == len(TURN)


def comparable(agent: Agent, schema: Any) -> Any:
    """A schema without what an agent adds or leaves out: Codex passes on the shape alone, no bounds of values, and
    nothing at all of what takes any value.
    """
    dropped = {"minimum", "maximum", "minItems", "maxItems", "title", "format"} if agent is CODEX else set[str]()
    if isinstance(schema, list):
        return [comparable(agent, one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    shape = {key: comparable(agent, one) for key, one in schema.items() if key not in dropped}
    if isinstance(shape.get("properties"), dict) and agent is GEMINI:
        shape["properties"].pop("wait_for_previous", None)
    if agent is CODEX and shape.keys() == {"description"}:
        return {}
    if agent is CODEX and shape.get("type") == "object":
        shape.setdefault("properties", {})
    return shape


@each_agent
def test_every_tool_reaches_the_model_as_we_listed_it(agent: Agent, turn: Callable[[Agent], Ran]) -> None:
    ran = turn(agent)
    names = [tool["name"] for tool in ran.listed]
    assert len(names) == len(set(names)) > 15
    assert LONG_NAME not in names  # no agent would have room for its own prefix
    held_back = agent is CLAUDE
    for tool in ran.listed:
        if held_back and tool["name"] not in {one.tool for one in TURN}:
            assert f"mcp__ferrule__{tool['name']}" in ran.endpoint.asked[-1].told
            continue
        offered = ran.endpoint.offered(tool["name"])
        assert offered is not None, tool["name"]
        assert PREFIXED.fullmatch(offered.name)
        assert comparable(agent, offered.schema) == comparable(agent, tool["inputSchema"])
    assert any("Read a file before you edit it." in json.dumps(one) for one in ran.endpoint.bodies)  # our instructions


@each_agent
def test_a_name_of_any_length_can_be_called(agent: Agent, tmp_path: Path, turn: Callable[[Agent], Ran]) -> None:
    shown = "a_tool_whose_name_has_sixty_four_lette"
    (name,) = [tool["name"] for tool in turn(agent).listed if tool["name"].startswith(shown)]
    arguments = {"part": None, "kind": "round", "pair": [1, "a"], "names": {"a": 1}}
    assert holds(run(agent, tmp_path, Call(name, arguments)).endpoint.results[0], "taken")


@each_agent
def test_a_failure_says_what_to_do_and_is_marked_where_the_api_has_a_mark(
    agent: Agent, turn: Callable[[Agent], Ran]
) -> None:
    ran = turn(agent)
    failed, after = ran.endpoint.results[MISSING], ran.endpoint.results[AFTER]
    assert ran.sent[MISSING]["isError"]
    assert holds(failed, ran.sent[MISSING]["content"][0]["text"])
    assert "There is no file at `missing.txt`" in failed.text
    assert failed.failed is (True if agent in (CLAUDE, GEMINI) else None)
    assert not after.failed


@each_agent
def test_a_long_result_arrives_as_we_cut_it(agent: Agent, turn: Callable[[Agent], Ran]) -> None:
    given = turn(agent).endpoint.results[LONG]
    assert "     1\tline 0 " in given.text
    assert "read on with offset=2000]" in given.text
    if agent is not CODEX:  # which cuts once more where it does not know the model, also in the middle
        assert "characters left out" in given.text
        assert len(given.text) > 38_000


@each_agent
def test_a_picture_arrives_whole(agent: Agent, turn: Callable[[Agent], Ran]) -> None:
    given = turn(agent).endpoint.results[PICTURE]
    assert given.pictures == [b64encode(picture()).decode()]
    assert "`red.png` is an image" in given.text


@each_agent
def test_a_call_that_asks_is_refused_with_what_would_allow_it_where_nobody_is_there(
    agent: Agent, tmp_path: Path
) -> None:
    ran = run(agent, tmp_path, ASKS, mode="default")
    (given,) = ran.endpoint.results
    assert not (ran.workspace / "new.txt").exists()
    assert "`Write` was not run" in given.text
    assert f"`ferrule mcp --allow 'Edit(/{ran.workspace}/new.txt)'`" in given.text
    expected = {
        CLAUDE.name: "the question was closed without an answer",
        CODEX.name: "from a client that runs without one",
        GEMINI.name: "this client cannot ask the user",
        OPENCODE.name: "this client cannot ask the user",
    }
    assert expected[agent.name] in given.text


def test_claude_code_puts_our_question_and_brings_the_answer(tmp_path: Path) -> None:
    answer = {"hookEventName": "Elicitation", "action": "accept", "content": {"answer": "once"}}
    hook = {
        "type": "command",
        "command": f"cat > {tmp_path}/asked; echo '{json.dumps({'hookSpecificOutput': answer})}'",
    }
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"hooks": {"Elicitation": [{"hooks": [hook]}]}}))
    answering = Agent(
        CLAUDE.name,
        CLAUDE.program,
        CLAUDE.wire,
        lambda place: _with(CLAUDE.prepare(place), "--settings", str(settings)),
    )
    ran = run(answering, tmp_path, ASKS, mode="default")
    assert holds(ran.endpoint.results[0], "Created `new.txt`")
    assert (ran.workspace / "new.txt").read_text() == "new\n"
    assert "new.txt" in (tmp_path / "asked").read_text()


def _with(prepared: tuple[list[str], dict[str, str]], *more: str) -> tuple[list[str], dict[str, str]]:
    return [*prepared[0], *more], prepared[1]


def test_gemini_clis_own_argument_is_none_of_the_tools(tmp_path: Path) -> None:
    (given,) = run(
        GEMINI, tmp_path, Call("Read", {"file_path": "notes.txt", "wait_for_previous": True})
    ).endpoint.results
    assert not given.failed
    assert holds(given, "     1\tone")
