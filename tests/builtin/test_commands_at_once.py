"""Several programs with commands and writes in one workspace: each change is on record as its own (P11)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.builtin.shell_desk import shell_desk
from tests.needs import needs

from ferrule.builtin.session_shells import sandbox_of, session_layer
from ferrule.core.context import SandboxChoice
from ferrule.workspace.files import files_of
from ferrule.workspace.layers.reading import LayerChanges, read_layers

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, json, sys
from pathlib import Path
from tests.builtin.shell_desk import shell_desk

async def main(folder, calls):
    async with shell_desk(Path(folder)) as desk:
        for tool, arguments in json.loads(calls):
            print(await desk.words(tool, **arguments), flush=True)

asyncio.run(main(*sys.argv[1:]))
"""
UNTIL = "for i in $(seq 1200); do {test} && break; sleep 0.05; done"


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))


class Place:
    """A workspace in which real programs work."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.ws = folder, folder / "ws"
        self.ws.mkdir()
        for name in "fgh":
            (self.ws / name).write_text(f"{name}\n")

    def start(self, *calls: tuple[str, dict[str, Any]]) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
        command = [sys.executable, "-c", PROGRAM, str(self.folder), json.dumps(calls)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)

    def bash(self, command: str) -> subprocess.Popen[str]:
        return self.start(("Bash", {"command": command}))

    def run(self, *calls: tuple[str, dict[str, Any]]) -> str:
        output, _ = self.start(*calls).communicate(timeout=120)
        return output

    def ferrule(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "ferrule", *arguments, "--workspace", str(self.ws)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment).stdout

    def owners(self) -> dict[str, list[str]]:
        """Which call changed what; oldest first."""
        found: dict[str, list[str]] = {}
        for group in reversed(json.loads(self.ferrule("history", "--json"))):
            if group["state"] == "done":
                assert group["may_be_of"] == []
                found.setdefault(group["call_id"], []).extend(sorted(one["path"] for one in group["changes"]))
        return found

    def texts(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in sorted(self.ws.iterdir())}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


FIRST = {"f": "f\n", "g": "g\n", "h": "h\n"}


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_two_processes_with_a_command_each_have_each_their_own_changes(place: Place):
    """A runs while B begins and ends: both are on record, and undo takes back both."""
    a = place.bash("echo A > f; rm h; " + UNTIL.format(test="grep -q B g"))
    wait_until(lambda: not (place.ws / "h").exists())
    assert place.run(("Bash", {"command": "echo B > g"})) == "[Done, with no output.]\n"
    assert a.communicate(timeout=120)[0] == "[Done, with no output.]\n"
    assert list(place.owners().values()) == [["g"], ["f", "h"]]
    assert place.ferrule("undo", "--to", "0") == snapshot("""\
2 changes undone:
  h — restored
  f — as before
  g — as before
""")
    assert place.texts() == FIRST


def test_undoing_one_command_leaves_what_the_other_did(place: Place):
    a = place.bash("echo A > f; rm h; " + UNTIL.format(test="grep -q B g"))
    wait_until(lambda: not (place.ws / "h").exists())
    place.run(("Bash", {"command": "echo B > g"}))
    a.communicate(timeout=120)
    of_b, of_a = place.owners()
    place.ferrule("undo", "--call", of_a)
    assert place.texts() == {**FIRST, "g": "B\n"}
    place.ferrule("redo", "--call", of_a)
    place.ferrule("undo", "--call", of_b)
    assert place.texts() == {"f": "A\n", "g": "g\n"}


@pytest.mark.slow
@pytest.mark.parametrize("reaped", [True, False])
def test_a_command_whose_program_is_killed_after_another_ended_is_taken_up(place: Place, reaped: bool):
    """Also while it is a zombie, because its parent has not seen yet that it is dead."""
    b = place.bash("echo B > g; echo new > made; sleep 600")
    wait_until(lambda: (place.ws / "made").exists())
    place.run(("Bash", {"command": "echo A > f"}))
    assert list(place.owners().values()) == [["f"]]
    b.send_signal(signal.SIGKILL)
    if reaped:
        b.wait()
    else:
        wait_until(lambda: Path(f"/proc/{b.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    assert list(place.owners().values()) == [["f"], ["g", "made"]]
    place.ferrule("undo", "--to", "0")
    assert place.texts() == FIRST
    b.communicate(timeout=60)


@pytest.mark.slow
def test_a_write_while_a_command_of_another_process_runs_is_not_the_commands(place: Place):
    a = place.bash("echo A > f; " + UNTIL.format(test="[ -e made ]") + "; echo A >> h")
    wait_until(lambda: (place.ws / "f").read_text() == "A\n")
    place.run(("Write", {"file_path": "made/by/write", "content": "W\n"}))
    a.communicate(timeout=120)
    write, command = place.owners()
    assert place.owners() == {write: ["made/by/write"], command: ["f", "h"]}
    place.ferrule("undo", "--call", command)
    assert (place.ws / "made" / "by" / "write").read_text() == "W\n"
    assert (place.ws / "f").read_text() == "f\n"
    place.ferrule("undo", "--call", write)
    assert place.texts() == FIRST


def test_where_a_command_and_a_write_changed_one_file_undo_says_so_and_shows_both(place: Place):
    a = place.bash("echo A > f; " + UNTIL.format(test="grep -q W f") + "; echo A >> h")
    wait_until(lambda: (place.ws / "f").read_text() == "A\n")
    place.run(("Read", {"file_path": "f"}), ("Write", {"file_path": "f", "content": "W\n"}))
    a.communicate(timeout=120)
    command, write = place.owners()
    assert place.owners() == {command: ["f", "h"], write: ["f"]}
    before = place.texts()
    assert place.ferrule("undo", "--call", command) == snapshot("""\
Nothing was undone.
Change 1 could not be undone, and nothing of it was touched:
- `f` was changed later by change 2 (Write); undo that first.

Change 1 (Bash):
--- a/f
+++ b/f
@@ -1 +1 @@
-f
+A
Change 2 (Write):
--- a/f
+++ b/f
@@ -1 +1 @@
-A
+W
""")
    assert place.texts() == before
    place.ferrule("undo", "--call", write)
    place.ferrule("undo", "--call", command)
    assert place.texts() == FIRST


async def test_a_write_beside_a_background_command_of_the_same_session_is_its_own(tmp_path: Path):
    async with shell_desk(tmp_path) as desk:
        (desk.workspace / "f").write_text("f\n")
        waits = UNTIL.format(test="[ -e made ]")
        await desk.bash(f"echo A > f; {waits}; echo A > other; echo over", run_in_background=True)
        wait_until(lambda: (desk.workspace / "f").read_text() == "A\n")
        await desk.words("Write", file_path="made", content="W\n")
        await desk.words("BashOutput", shell_id="bash_1", wait_for="over")
    history = files_of(desk.session).history
    groups = {group.origin.tool: group for group in history.recent()}
    assert sorted(path.name for path in groups["Bash"].paths) == ["f", "other"]
    history.undo(call=groups["Bash"].origin.call)
    assert (desk.workspace / "made").read_text() == "W\n"
    assert (desk.workspace / "f").read_text() == "f\n"
    history.undo(call=groups["Write"].origin.call)
    assert not (desk.workspace / "made").exists()


async def test_a_command_beside_another_that_changed_its_files_keeps_nothing_and_says_which(tmp_path: Path):
    """What it wrote is still the answer, and the shell is where it was."""
    async with shell_desk(tmp_path) as desk:
        needs(sandbox_of(desk.session).has_layers, "overlays")
        (desk.workspace / "f").write_text("f\n")
        (desk.workspace / "sub").mkdir()
        begun, changed = (UNTIL.format(test=f"[ -e /tmp/{name} ]") for name in ("begun", "changed"))
        await desk.bash(f"{begun}; echo A > f; echo A > g; touch /tmp/changed; sleep 600", run_in_background=True)
        told = await desk.bash(f"echo B > f; echo B > g; echo B > own; cd sub; touch /tmp/begun; {changed}; echo end")
        assert told == snapshot("""\
Error (validation_error): `f`, `g` have changed since the command began, so nothing of it was kept.

Suggestion: Run the command again.

end\
""")
        assert {path.name: path.read_text() for path in desk.workspace.glob("*") if path.is_file()} == {
            "f": "A\n",
            "g": "A\n",
        }
        assert await desk.bash("pwd") == "/ws"


async def test_a_command_beside_another_makes_its_changes_also_when_it_fails_or_its_time_is_up(tmp_path: Path):
    async with shell_desk(tmp_path) as desk:
        needs(sandbox_of(desk.session).has_layers, "overlays")
        await desk.bash("sleep 600", run_in_background=True)
        assert "ended with exit code 3, and wrote nothing" in await desk.bash("echo 1 > failed; (exit 3)")
        assert "did not finish within 1 s" in await desk.bash("echo 1 > late; sleep 600", timeout=1000)
        assert await desk.bash("cat failed late; mkdir sub; cd sub") == "1\n1"
        assert await desk.bash("pwd") == "/ws/sub"
    groups = files_of(desk.session).history.recent()
    assert [[path.name for path in group.paths] for group in groups] == [["sub"], ["late"], ["failed"]]


async def test_a_command_beside_another_does_not_change_what_is_guarded(tmp_path: Path):
    """S1: what a work box would have kept it from, and with it all the rest."""
    async with shell_desk(tmp_path) as desk:
        needs(sandbox_of(desk.session).has_layers, "overlays")
        (desk.workspace / ".git").mkdir()
        (desk.workspace / ".git" / "config").write_text("[core]\n")
        await desk.bash("sleep 600", run_in_background=True)
        told = await desk.bash("echo 1 > a; echo '[alias] x = !sh' >> .git/config")
        assert told == snapshot("""\
Error (permission_error): The command changed `.git/config`, which is guarded: it can make other programs run commands. None of its changes were kept.

Suggestion: Do without it, or ask the user to make this change.

[Done, with no output.]\
""")
        for guarded in (".git/hooks/pre-commit", ".envrc", "sub/.vscode/tasks.json", ".git/modules/x/config"):
            told = await desk.bash(f"mkdir -p $(dirname {guarded}); echo 1 > {guarded}")
            assert f"changed `{guarded}`" in told or f"changed `{Path(guarded).parent}`" in told
        assert [path.name for path in desk.workspace.iterdir()] == [".git"]
        assert (desk.workspace / ".git" / "config").read_text() == "[core]\n"
        await desk.bash("mkdir -p .git/refs/heads; echo 1 > .git/refs/heads/hooks")
        assert (desk.workspace / ".git" / "refs" / "heads" / "hooks").exists()


async def test_what_unapproved_commands_left_aside_is_not_there_for_an_approved_one(tmp_path: Path):
    async with shell_desk(tmp_path) as desk:
        needs(sandbox_of(desk.session).has_layers, "overlays")
        layer = session_layer(desk.session)
        assert layer is not None
        (begun,) = layer.begin()
        (begun.upper / "planted").write_text("x")
        layer.end([begun], LayerChanges((begun,), ignored=read_layers(files_of(desk.session).paths, [begun]).changes))
        (later,) = layer.begin()
        assert later.below
        layer.end([later])
        await desk.bash("sleep 600", run_in_background=True)
        assert await desk.bash("ls") == "[Done, with no output.]"


async def test_without_layers_what_several_may_have_changed_is_on_record_once_with_their_names(tmp_path: Path):
    async with shell_desk(tmp_path, sandbox=SandboxChoice(enabled=False)) as desk:
        await desk.bash("echo A > f; sleep 600", run_in_background=True)
        wait_until(lambda: (desk.workspace / "f").exists())
        told = await desk.bash("echo B > g")
        history = files_of(desk.session).history
        mine, of_background = history.recent()
        assert [path.name for path in of_background.paths] == ["f"]  # nobody else was there
        assert of_background.others == ()
        assert [path.name for path in mine.paths] == ["g"]
        assert mine.others == (of_background.origin,)
        assert told.replace(of_background.origin.call, "CALL") == snapshot(
            "[Another command ran at the same time (`CALL`) and may have made some of its changes; undo reverts all of them.]"
        )


async def test_commands_that_talk_through_a_pipe_of_the_workspace_still_do(tmp_path: Path):
    """A layer has pipes of its own, so where there are any a command runs directly."""
    async with shell_desk(tmp_path) as desk:
        await desk.bash("mkfifo pipe")
        await desk.bash("read x < pipe; echo heard $x", run_in_background=True)
        await desk.bash("echo hello > pipe", timeout=60_000)
        assert "heard hello" in await desk.words("BashOutput", shell_id="bash_1", wait_for="heard")
