"""The official client libraries drive `ferrule acp` as an editor would (issue 21, must-show 3; M1, P4, P9, P11)."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process, text_block
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AllowedOutcome,
    DeniedOutcome,
    EnvVariable,
    McpServerStdio,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from tests.needs import needs

BUSY = 120.0
ROOT = Path(__file__).parents[2]
PEERS = Path(os.environ.get("MCP_NODE_TOOLS") or ROOT / ".venv" / "node-tools") / "servers"


class Editor:
    """What an editor keeps of a session: the updates, and the questions with the answers that were prepared."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.updates: list[Any] = []
        self.asked: list[tuple[ToolCallUpdate, list[PermissionOption]]] = []
        self.news = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        self.updates.append(update)
        self.news.set()

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption], **_more: Any
    ) -> RequestPermissionResponse:
        self.asked.append((tool_call, options))
        answer = self.answers.pop(0)
        if answer == "cancel":
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=answer))

    def of(self, kind: str) -> list[Any]:
        return [one for one in self.updates if one.session_update == kind]

    def text(self) -> str:
        return "".join(one.content.text for one in self.of("agent_message_chunk"))

    async def until(self, kind: str, count: int = 1) -> None:
        async with asyncio.timeout(BUSY):
            while len(self.of(kind)) < count:
                self.news.clear()
                await self.news.wait()


class Place:
    """A workspace with settings and records of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "work"
        self.workspace.mkdir()
        (folder / "ferrule.toml").write_text("")
        self.environment = {
            "FERRULE_DATA": str(folder / "data"),
            "FERRULE_CONFIG": str(folder / "ferrule.toml"),
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        }

    @asynccontextmanager
    async def opened(self, editor: Editor, *replies: Any, **more: str) -> AsyncGenerator[ClientSideConnection]:
        script = self.folder / "script.json"
        script.write_text(json.dumps(replies))
        arguments = ("-m", "ferrule", "acp", "--model", f"scripted:{script}")
        async with spawn_agent_process(
            lambda _agent: editor,  # type: ignore[arg-type,return-value]
            sys.executable,
            *arguments,
            env={**self.environment, **more},
            cwd=self.folder,
            transport_kwargs={"shutdown_timeout": BUSY, "stderr": None},
            use_unstable_protocol=True,
        ) as (connection, process):
            await connection.initialize(protocol_version=PROTOCOL_VERSION)
            yield connection
        assert process.returncode == 0


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def calls(text: str, *wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"text": text, "calls": [{"name": name, "arguments": arguments} for name, arguments in wanted]}


EDIT = ("Edit", {"file_path": "a.txt", "old_string": "world", "new_string": "moon"})
READ = ("Read", {"file_path": "a.txt"})


async def test_an_edit_a_refused_command_and_an_undo(place: Place) -> None:
    """P4, P9, P11: the diff is shown before it is made, a refusal stays one, and undo brings the file back."""
    file = place.workspace / "a.txt"
    file.write_text("hello\nworld\n")
    (place.workspace / "build").mkdir()
    (place.workspace / "build" / "kept").write_text("x")
    editor = Editor("once", "no")
    replies = [
        calls("I read.", READ),
        calls("I edit.", EDIT),
        calls("I clean.", ("Bash", {"command": "rm -rf build"})),
        "Done.",
    ]
    async with place.opened(editor, *replies) as agent:
        session = (await agent.new_session(cwd=str(place.workspace))).session_id
        ended = await agent.prompt(session_id=session, prompt=[text_block("change it")])
        assert ended.stop_reason == "end_turn"
        assert file.read_text() == "hello\nmoon\n"
        assert (place.workspace / "build" / "kept").exists()

        (edit, choices), (command, no_always) = editor.asked
        assert edit.kind == "edit"
        diff = next(one for one in edit.content or () if one.type == "diff")
        assert (diff.path, diff.old_text, diff.new_text) == (str(file), "hello\nworld\n", "hello\nmoon\n")
        assert [one.kind for one in choices] == ["allow_once", "allow_always", "reject_once"]
        assert command.kind == "execute"
        assert "rm -rf build" in command.content[0].content.text  # type: ignore[index,union-attr]
        assert "allow_always" not in [one.kind for one in no_always]  # it is dangerous

        started = {one.tool_call_id: one.title for one in editor.of("tool_call")}
        last = {one.tool_call_id: one for one in editor.of("tool_call_update") if one.status in ("completed", "failed")}
        assert [last[one].status for one in started] == ["completed", "completed", "failed"]
        assert "you denied it" in last[command.tool_call_id].content[0].content.text
        assert editor.text() == "I read.I edit.I clean.Done."

        await agent.prompt(session_id=session, prompt=[text_block("/undo")])
        assert file.read_text() == "hello\nworld\n"
        assert "1 change undone." in editor.text()
        await agent.prompt(session_id=session, prompt=[text_block("/redo")])
        assert file.read_text() == "hello\nmoon\n"


SDK = PEERS / "node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js"


@pytest.mark.slow
def test_the_same_from_the_typescript_library(place: Place) -> None:
    """P4, P9, P11: an editor that isn't ours, in another language."""
    node = PEERS / "node" if (PEERS / "node").exists() else shutil.which("node")
    needs(SDK.exists() and node, "the official TypeScript library (scripts/mcp-peers)")
    file = place.workspace / "a.txt"
    file.write_text("hello\nworld\n")
    (place.workspace / "build").mkdir()
    replies = [calls("I read.", READ), calls("", EDIT), calls("", ("Bash", {"command": "rm -rf build"})), "Done."]
    script = place.folder / "script.json"
    script.write_text(json.dumps(replies))

    def session(*prompts: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "ferrule", "acp", "--model", f"scripted:{script}"]
        plan = {
            "sdk": str(SDK), "command": command, "cwd": str(place.workspace), "answers": ["once", "no"],
            "prompts": prompts,
        }  # fmt: skip
        done = subprocess.run(
            [str(node), str(Path(__file__).with_name("editor.mjs")), json.dumps(plan)], cwd=place.folder,
            env={**os.environ, **place.environment}, capture_output=True, text=True, timeout=BUSY, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen

    seen = session("change it")
    assert (seen["ended"], seen["code"]) == (["end_turn"], 0)
    assert file.read_text() == "hello\nmoon\n"
    assert (place.workspace / "build").is_dir()
    [edit, command] = seen["asked"]
    [diff] = [one for one in edit["toolCall"]["content"] if one["type"] == "diff"]
    assert (diff["oldText"], diff["newText"]) == ("hello\nworld\n", "hello\nmoon\n")
    assert command["toolCall"]["kind"] == "execute"
    states = [one["status"] for one in seen["updates"] if one.get("status") in ("completed", "failed")]
    assert states == ["completed", "completed", "failed"]

    file.write_text("hello\nworld\n")
    seen = session("change it", "/undo")
    assert seen["ended"] == ["end_turn", "end_turn"]
    assert file.read_text() == "hello\nworld\n"
    said = "".join(one["content"]["text"] for one in seen["updates"] if one["sessionUpdate"] == "agent_message_chunk")
    assert "1 change undone." in said


async def test_a_session_is_listed_loaded_with_all_that_was_said_and_forked(place: Place) -> None:
    """M1: also by another process, after the first has ended."""
    (place.workspace / "a.txt").write_text("hello\nworld\n")
    async with place.opened(Editor("once"), calls("I read.", READ), calls("I edit.", EDIT), "Done.") as agent:
        session = (await agent.new_session(cwd=str(place.workspace))).session_id
        await agent.prompt(session_id=session, prompt=[text_block("change it")])
    editor = Editor()
    async with place.opened(editor, "Again.", "In the fork.") as agent:
        found = (await agent.list_sessions(cwd=str(place.workspace))).sessions
        assert [(one.session_id, one.title) for one in found] == [(session, "change it")]
        await agent.load_session(cwd=str(place.workspace), session_id=session)
        await editor.until("available_commands_update")
        assert [one.content.text for one in editor.of("user_message_chunk")] == ["change it"]
        assert editor.text() == "I read.I edit.Done."
        assert [one.title for one in editor.of("tool_call")] == ["Read a.txt", "Edit a.txt"]
        await agent.prompt(session_id=session, prompt=[text_block("/undo")])
        assert (place.workspace / "a.txt").read_text() == "hello\nworld\n"
        copy = await agent.fork_session(cwd=str(place.workspace), session_id=session)
        assert copy.session_id != session
        await agent.prompt(session_id=copy.session_id, prompt=[text_block("go on")])
        assert len((await agent.list_sessions(cwd=str(place.workspace))).sessions) == 2
        with pytest.raises(RequestError, match="No session `none` is saved"):
            await agent.load_session(cwd=str(place.workspace), session_id="none")


async def test_modes_commands_and_the_list_of_steps(place: Place) -> None:
    """Plan mode refuses an edit, a project's command reaches the model, and its steps become the editor's plan."""
    (place.workspace / "a.txt").write_text("hello\nworld\n")
    commands = place.workspace / ".claude" / "commands"
    commands.mkdir(parents=True)
    (commands / "review.md").write_text("---\ndescription: Review a file\nargument-hint: [file]\n---\nReview $1 now.\n")
    steps = [{"content": "read", "status": "completed"}, {"content": "review", "status": "in_progress"}]
    editor = Editor()
    async with place.opened(editor, calls("", EDIT, ("TodoWrite", {"todos": steps})), "No.") as agent:
        made = await agent.new_session(cwd=str(place.workspace))
        assert made.modes is not None
        assert made.modes.current_mode_id == "default"
        await editor.until("available_commands_update")
        offered = {one.name: one.description for one in editor.of("available_commands_update")[0].available_commands}
        assert offered["review"] == "Review a file"
        assert {"undo", "redo", "compact"} <= offered.keys()
        await agent.set_session_mode(session_id=made.session_id, mode_id="plan")
        await agent.prompt(session_id=made.session_id, prompt=[text_block("/review a.txt")])
        assert [(one.content, one.status) for one in editor.of("plan")[0].entries] == [
            ("read", "completed"), ("review", "in_progress")
        ]  # fmt: skip
        assert (place.workspace / "a.txt").read_text() == "hello\nworld\n"
        with pytest.raises(RequestError, match="There is no mode `free`"):
            await agent.set_session_mode(session_id=made.session_id, mode_id="free")
    saved = next((place.folder / "data" / "sessions").glob("*.jsonl")).read_text()
    assert "Review a.txt now." in saved


async def test_a_turn_is_stopped_by_the_editor_and_by_a_question_that_is_cancelled(place: Place) -> None:
    """M1: nothing goes on after a stop, and the session can be used again."""
    editor = Editor("cancel")
    replies = [calls("", ("Bash", {"command": "sleep 600"})), calls("", ("Bash", {"command": "rm -rf build"})), "Here."]
    async with place.opened(editor, *replies) as agent:
        session = (await agent.new_session(cwd=str(place.workspace))).session_id
        turn = asyncio.ensure_future(agent.prompt(session_id=session, prompt=[text_block("wait")]))
        await editor.until("tool_call")
        with pytest.raises(RequestError, match="A turn is running"):
            await agent.prompt(session_id=session, prompt=[text_block("again")])
        await agent.cancel(session_id=session)
        assert (await turn).stop_reason == "cancelled"
        assert (await agent.prompt(session_id=session, prompt=[text_block("clean")])).stop_reason == "cancelled"
        assert (await agent.prompt(session_id=session, prompt=[text_block("still there?")])).stop_reason == "end_turn"
        assert editor.text() == "Here."


async def test_what_is_wrong_is_said_and_ends_nothing(place: Place) -> None:
    """P11: folders, sessions, contents, models, lines that are no messages; in the user's language."""
    editor = Editor()
    error = {"error": {"fault": "key", "message": "The key was refused.", "suggestion": "Check the key."}}
    server = McpServerStdio(name="no such", command="/nowhere/program", args=[], env=[EnvVariable(name="A", value="b")])
    async with place.opened(editor, error, "Fine.", FERRULE_LANG="zh") as agent:
        for cwd in ("work", str(place.workspace / "gone")):
            with pytest.raises(RequestError, match="cwd"):
                await agent.new_session(cwd=cwd)
        session = (await agent.new_session(cwd=str(place.workspace), mcp_servers=[server])).session_id
        with pytest.raises(RequestError, match="没有打开的会话"):
            await agent.prompt(session_id="none", prompt=[text_block("hi")])
        with pytest.raises(RequestError, match="消息为空"):
            await agent.prompt(session_id=session, prompt=[text_block(" ")])
        with pytest.raises(RequestError, match="The key was refused"):
            await agent.prompt(session_id=session, prompt=[text_block("hi")])
        assert (await agent.prompt(session_id=session, prompt=[text_block("hi")])).stop_reason == "end_turn"


async def test_lines_that_are_no_messages(place: Place) -> None:
    """P11: each is answered with an error, and what comes after them is heard."""
    hello = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": 99}}
    lines = b"\n".join([b"{", b"5", b"", b'{"id": 3}', json.dumps(hello).encode(), b'{"half'])
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ferrule", "acp", env={**os.environ, **place.environment},
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=place.workspace,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(lines)
    answers = [json.loads(await asyncio.wait_for(process.stdout.readline(), BUSY)) for _ in range(3)]
    process.stdin.close()
    assert await asyncio.wait_for(process.wait(), BUSY) == 0
    assert [one.get("error", {}).get("code") for one in answers] == [-32700, -32600, None]
    assert answers[-1]["result"]["protocolVersion"] == PROTOCOL_VERSION
