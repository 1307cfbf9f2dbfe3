"""The official servers through Ferrule: every tool listed, called, denied by a rule, killed in mid-call and back.

`scripts/mcp-peers` installs them.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.call import RawCall
from ferrule.core.elicitation import Elicited
from ferrule.core.errors import ErrorKind
from ferrule.mcp_client.connection import Connection
from ferrule.mcp_client.server_config import Ports, ServerConfig
from ferrule.pipeline.run import Runtime
from ferrule.policy.decide import RulePolicy
from tests.mcp_client.peers import Used, alive, using
from tests.needs import needs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
PEERS = Path(os.environ.get("MCP_NODE_TOOLS") or ROOT / ".venv" / "node-tools") / "servers"
PACKAGES = PEERS / "node_modules" / "@modelcontextprotocol"
Calls = dict[str, dict[str, Any]]


def node(package: str, *arguments: str) -> tuple[str, ...]:
    return (str(PEERS / "node"), str(PACKAGES / package / "dist" / "index.js"), *arguments)


def filesystem(workspace: Path) -> tuple[tuple[str, ...], Calls]:
    file = workspace / "a.txt"
    file.write_text("hello\n")
    (workspace / "picture.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    path, folder = str(file), str(workspace)
    return node("server-filesystem", folder), {
        "read_file": {"path": path},
        "read_text_file": {"path": path},
        "read_media_file": {"path": str(workspace / "picture.png")},
        "read_multiple_files": {"paths": [path]},
        "write_file": {"path": str(workspace / "b.txt"), "content": "new"},
        "edit_file": {"path": path, "edits": [{"oldText": "hello", "newText": "goodbye"}]},
        "create_directory": {"path": str(workspace / "sub")},
        "list_directory": {"path": folder},
        "list_directory_with_sizes": {"path": folder},
        "directory_tree": {"path": folder},
        "move_file": {"source": str(workspace / "b.txt"), "destination": str(workspace / "c.txt")},
        "search_files": {"path": folder, "pattern": "*.txt"},
        "get_file_info": {"path": path},
        "list_allowed_directories": {},
    }


def everything(workspace: Path) -> tuple[tuple[str, ...], Calls]:
    return node("server-everything"), {
        "echo": {"message": "hello"},
        "get-annotated-message": {"messageType": "success", "includeImage": True},
        "get-env": {},
        "get-resource-links": {"count": 2},
        "get-resource-reference": {"resourceType": "Text", "resourceId": 1},
        "get-structured-content": {"location": "New York"},
        "get-sum": {"a": 1, "b": 2},
        "get-tiny-image": {},
        "gzip-file-as-resource": {"name": "a.gz", "data": "data:text/plain,hello", "outputType": "resourceLink"},
        "toggle-simulated-logging": {},
        "toggle-subscriber-updates": {},
        "trigger-long-running-operation": {"duration": 0.2, "steps": 2},
        "get-roots-list": {},
        "trigger-elicitation-request": {},
        "trigger-url-elicitation": {"url": "https://example.org/", "sessionId": "x"},
        "simulate-research-query": {"topic": "rings"},
    }


def memory(workspace: Path) -> tuple[tuple[str, ...], Calls]:
    ada = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
    ring = {"name": "ring", "entityType": "thing", "observations": []}
    owns = {"from": "Ada", "to": "ring", "relationType": "owns"}
    return node("server-memory"), {
        "create_entities": {"entities": [ada, ring]},
        "create_relations": {"relations": [owns]},
        "add_observations": {"observations": [{"entityName": "Ada", "contents": ["writes"]}]},
        "read_graph": {},
        "search_nodes": {"query": "Ada"},
        "open_nodes": {"names": ["Ada"]},
        "delete_observations": {"deletions": [{"entityName": "Ada", "observations": ["writes"]}]},
        "delete_relations": {"relations": [owns]},
        "delete_entities": {"entityNames": ["ring"]},
    }


def git(workspace: Path) -> tuple[tuple[str, ...], Calls]:
    def run(*words: str) -> None:
        author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *author, *words], cwd=workspace, check=True, capture_output=True)

    run("init", "-b", "main")
    run("config", "user.name", "A")
    run("config", "user.email", "a@example.org")
    (workspace / "a.txt").write_text("one\n")
    run("add", ".")
    run("commit", "-m", "first")
    (workspace / "a.txt").write_text("two\n")
    here = {"repo_path": str(workspace)}
    return (str(PEERS / "python" / "bin" / "mcp-server-git"),), {
        "git_status": here,
        "git_diff_unstaged": here,
        "git_add": {**here, "files": ["a.txt"]},
        "git_diff_staged": here,
        "git_commit": {**here, "message": "second"},
        "git_diff": {**here, "target": "HEAD~1"},
        "git_log": here,
        "git_show": {**here, "revision": "HEAD"},
        "git_create_branch": {**here, "branch_name": "other"},
        "git_checkout": {**here, "branch_name": "other"},
        "git_branch": {**here, "branch_type": "local"},
        "git_reset": here,
    }


def clock(workspace: Path) -> tuple[tuple[str, ...], Calls]:
    return (str(PEERS / "python" / "bin" / "mcp-server-time"),), {
        "get_current_time": {"timezone": "UTC"},
        "convert_time": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Europe/Paris"},
    }


class Accepts:
    async def elicit(self, message: str, schema: Any, *, server: str = "", url: str = "") -> Elicited:
        required = dict.fromkeys(schema.get("required", ()), "x")
        return Elicited("accept", required)


def prepared(tmp_path: Path, server: Any) -> tuple[ServerConfig, Calls]:
    needs((PEERS / "python" / ".installed").exists(), "the official MCP servers: scripts/mcp-peers")
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    command, calls = server(workspace)
    memory_file = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    return ServerConfig("official", command, env=memory_file, start_timeout=120), calls


async def settled(used: Used) -> None:
    """The list of tools once the server has said all it has to say after its start."""
    before: list[str] = []
    while before != (now := used.registry.names()):
        before = now
        await asyncio.sleep(0.5)


@pytest.mark.parametrize("server", [filesystem, everything, memory, git, clock], ids=lambda one: one.__name__)
async def test_every_tool_is_listed_called_and_denied(tmp_path: Path, server: Any) -> None:
    config, calls = prepared(tmp_path, server)
    async with using(tmp_path, config, ports=Ports(elicitor=Accepts())) as used:
        assert used.problem("official") == ""
        await settled(used)
        tools = used.servers.joined["official"].tools
        assert used.servers.joined["official"].problems == []
        assert set(tools) <= set(calls), "a tool that is not tried"
        for name, arguments in calls.items():
            if name in tools:
                result = await used.call(name, "official", **arguments)
                assert result.success, f"{name}: {result.llm_content}"
                assert result.llm_content
        denying = Runtime(used.registry, policy=RulePolicy(allow=["mcp__*"], deny=["mcp__official__*"]))
        for name, arguments in calls.items():
            if name in tools:
                denied = await denying.run(RawCall(tools[name].name, arguments))
                assert denied.error is not None
                assert denied.error.kind is ErrorKind.PERMISSION


@pytest.mark.parametrize("server", [filesystem, everything, memory, git, clock], ids=lambda one: one.__name__)
async def test_one_that_is_killed_in_a_call_is_back_for_the_next(
    tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, calls = prepared(tmp_path, server)
    pidfile = tmp_path / "pid"
    # The shell becomes the server, so that its number is known.
    script = f'echo $$ > {pidfile}; exec "$@"'
    command = ("sh", "-c", script, "sh", *config.command)
    name, arguments = next(iter(calls.items()))
    killed = ServerConfig("official", command, env=config.env, start_timeout=120)
    calling = Connection.call

    async def call_and_kill(self: Connection, *given: Any, **more: Any) -> Any:
        os.kill(pid, signal.SIGSTOP)  # so that it is surely in the middle of the call
        running = asyncio.ensure_future(calling(self, *given, **more))
        await asyncio.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        return await running

    async with using(tmp_path, killed) as used:
        pid = int(pidfile.read_text())
        with monkeypatch.context() as patched:
            patched.setattr(Connection, "call", call_and_kill)
            result = await used.call(name, "official", **arguments)
        assert result.error is not None
        assert re.search("ended while the call ran: it was ended by signal 9", result.llm_content), result.llm_content
        assert not alive(pid)
        again = await used.call(name, "official", **arguments)
        assert again.success, json.dumps(again.to_dict())


async def test_one_that_is_not_told_the_workspace_keeps_to_the_folder_it_was_given(tmp_path: Path) -> None:
    config, _ = prepared(tmp_path, filesystem)
    inner = tmp_path / "workspace" / "inner"
    inner.mkdir()
    for told, allowed in ((False, str(inner)), (True, str(inner.parent))):
        narrow = replace(config, command=node("server-filesystem", str(inner)), roots=told)
        async with using(tmp_path, narrow) as used:
            await settled(used)
            result = await used.call("list_allowed_directories", "official")
            assert result.llm_content.splitlines()[-1].rpartition(" ")[2] == allowed
