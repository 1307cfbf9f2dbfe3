"""A real plugin in its box, with a folder that it may write: nothing that it leaves there runs outside (R7, M4)."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.result import ToolResult
from ferrule.plugins.isolated import server_of
from ferrule.plugins.lock import PluginGrants
from tests.mcp_client.peers import Used
from tests.needs import needs

from .test_hostile_text import bundle, installed

SERVER = r"""
import io, json, os, sys, threading
from contextlib import redirect_stdout

for line in sys.stdin:
    asked = json.loads(line)
    method, answer = asked.get("method"), {}
    if method == "initialize":
        answer = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "odd", "version": "1"}}
    elif method == "tools/list":
        code = {"type": "object", "properties": {"code": {"type": "string"}}}
        answer = {"tools": [{"name": "run", "description": "Run code.", "inputSchema": code}]}
    elif method == "tools/call":
        said = io.StringIO()
        with redirect_stdout(said):
            try:
                exec(asked["params"]["arguments"]["code"], {"os": os, "threading": threading})
            except Exception as error:
                print(type(error).__name__, error)
        answer = {"content": [{"type": "text", "text": said.getvalue()}]}
    elif "id" in asked and method != "ping":
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""
MAKE = """
path, text = {path!r}, {text!r}
os.makedirs(os.path.dirname(path), exist_ok=True)
with open(path, "w") as file:
    file.write(text)
"""


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    needs(shutil.which("bwrap"), "bubblewrap")
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = tmp_path / "workspace"
    subprocess.run(["git", "init", "-q", str(made)], check=True)
    (made / "sub").mkdir()
    (made / "sub/a.txt").write_text("a")
    return made


@asynccontextmanager
async def plugin(workspace: Path, *folders: str) -> AsyncGenerator[Callable[[str], Any]]:
    manifest = bundle({"command": "python3", "args": ["-c", SERVER]}, {})
    config = server_of(installed(manifest, grants=PluginGrants(folders=folders)), workspace)
    used = Used([config], workspace.parent)
    try:
        await used.servers.start()

        async def run(code: str) -> ToolResult:
            return await used.call("run", "odd", code=code)

        yield run
    finally:
        await used.servers.close()


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


EVIL = "[core]\n\tfsmonitor = touch /tmp/evil\n"
IN_GIT = (
    (".git/commondir", "/tmp"), (".git/hooks/pre-commit", "evil"), (".git/info/attributes", "* filter=x"),
    (".git/config.worktree", EVIL), (".git/modules/x/config", EVIL), (".git/config", EVIL), (".git/x", ""),
)  # fmt: skip
ELSEWHERE = (
    ("ferrule.toml", "x"), (".mcp.json", "{}"), (".vscode/tasks.json", "{}"), (".envrc", "x"), ("sub/.envrc", "x"),
    (".gitattributes", "* filter=x"), (".husky/pre-commit", "evil"), ("sub/.git/config", EVIL),
    ("sub/.git/hooks/post-checkout", "evil"), (".github/hooks/evil.json", "x"),
)  # fmt: skip


async def test_git_directories_cannot_be_written(workspace: Path) -> None:
    before, config = everything(workspace), (workspace / ".git/config").read_text()
    async with plugin(workspace, ".:write") as run:
        for path, text in IN_GIT:
            result = await run(MAKE.format(path=str(workspace / path), text=text))
            assert "Read-only file system" in result.llm_content, path
        moved = await run(f"os.rename({str(workspace / '.git')!r}, {str(workspace / 'git')!r})")
        assert "busy" in moved.llm_content
        subprocess.run(["git", "-C", str(workspace), "config", "user.name", "Ada"], check=True)  # the user still can
        (workspace / ".git/config.worktree").write_text("[user]\n")
        result = await run(MAKE.format(path=str(workspace / "b.txt"), text="b"))
        assert result.error is None
    assert everything(workspace) - before == {"b.txt", ".git/config.worktree"}
    assert (workspace / ".git/config").read_text().startswith(config)


@pytest.mark.parametrize(("path", "text"), ELSEWHERE)
async def test_what_other_programs_obey_does_not_stay_after_a_call(workspace: Path, path: str, text: str) -> None:
    async with plugin(workspace, ".:write") as run:
        result = await run(MAKE.format(path=str(workspace / path), text=text) + "print('made')")
        assert result.error is not None
        assert "The plugin made or changed" in result.error.message
        assert "It was moved to" in result.error.message
        assert not (workspace / path).exists()
        again = await run(f"print(os.path.exists({str(workspace / path)!r}))")
        assert (again.error, again.llm_content) == (None, "False\n")


async def test_nor_does_what_is_made_beside_calls_or_put_back_again_and_again(workspace: Path) -> None:
    loop = f"""
def again():
    while True:
        try:
            with open({str(workspace / ".envrc")!r}, "w") as file:
                file.write("evil")
        except OSError:
            pass
threading.Thread(target=again, daemon=True).start()
"""
    async with plugin(workspace, ".:write") as run:
        await run(loop)
    assert not (workspace / ".envrc").exists()
    async with plugin(workspace, ".:write") as run:
        await run(f"threading.Timer(0.2, lambda: open({str(workspace / '.mcp.json')!r}, 'w')).start()")
        result = await run("import time; time.sleep(0.5)")
        assert result.error is not None
        assert ".mcp.json" in result.error.message
    assert not (workspace / ".mcp.json").exists()


async def test_nor_of_a_plugin_that_ends_itself(workspace: Path) -> None:
    async with plugin(workspace, ".:write") as run:
        made = MAKE.format(path=str(workspace / ".envrc"), text="evil")
        result = await run(f"{made}\nos._exit(3)")
        assert result.error is not None
        assert "The plugin made or changed `.envrc`" in result.error.message
    assert not (workspace / ".envrc").exists()


async def test_its_own_home_is_its_own(workspace: Path) -> None:
    """No program of the user's runs there."""
    async with plugin(workspace, ".:write") as run:
        for _ in range(2):
            result = await run(
                "open(os.path.expanduser('~/.npmrc'), 'a').close(); print(os.listdir(os.environ['HOME']))"
            )
            assert (result.error, ".npmrc" in result.llm_content) == (None, True)


async def test_a_socket_in_a_granted_folder_cannot_be_reached(workspace: Path) -> None:
    path = str(workspace / "s")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        for folder in (".:write", "."):
            async with plugin(workspace, folder) as run:
                result = await run(f"import socket; socket.socket(socket.AF_UNIX).connect({path!r}); print('reached')")
                assert "reached" not in result.llm_content
                assert "Error" in result.llm_content


@pytest.mark.parametrize("above", ["/opt", "/usr/src"])
async def test_the_workspace_is_not_seen_without_a_grant(workspace: Path, above: str) -> None:
    """Also beside programs, of which a box sees everything else."""
    needs(os.geteuid() == 0 and Path(above).is_dir(), f"root, and {above}")
    elsewhere = Path(above) / f"ferrule-test-{os.getpid()}"
    (elsewhere / "app").mkdir(parents=True)
    (elsewhere / "app/secret.txt").write_text("tiger")
    look = f"print(os.listdir({str(elsewhere / 'app')!r}))"
    try:
        async with plugin(elsewhere / "app") as run:
            assert "secret" not in (await run(look)).llm_content
        async with plugin(elsewhere / "app", ".") as run:
            assert (await run(look)).llm_content == "['secret.txt']\n"
    finally:
        shutil.rmtree(elsewhere)
