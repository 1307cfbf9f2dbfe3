"""The shells of a session: which sandbox they get, what is said where a layer is missing, and that they end with it."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import os
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from inline_snapshot import snapshot
from tests.builtin.shell_desk import shell_desk
from tests.needs import needs
from tests.process.shell.shell_room import alive, becomes, new_mark

from ferrule import Session
from ferrule.app.build import App
from ferrule.app.settings import AuditSettings, SandboxSettings, Settings
from ferrule.builtin.session_shells import close_shell, layered_box, look_profile, outputs_of, sandbox_of, work_profile
from ferrule.cli.ask import say_yes
from ferrule.core.context import SandboxChoice
from ferrule.policy.decide import RulePolicy
from ferrule.policy.restrictions import RuleRestrictions
from ferrule.process.profile import LayerMount, Profile
from ferrule.process.sandbox import choose
from ferrule.process.sandbox.choose import best_sandbox
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from ferrule.process.sandbox.sandbox import NoSandbox, Prepared
from ferrule.workspace.files import files_of
from ferrule.workspace.layers.session_layer import layers_folder


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))


@pytest.fixture
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without bubblewrap and without Landlock."""
    found = NoSandbox(reasons=("bubblewrap: there is no `bwrap` program.",))
    monkeypatch.setattr(choose, "_best", lambda *_: (found, ()))


@pytest.fixture
def only_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    needs(LandlockSandbox().missing() is None, "a kernel with Landlock")
    monkeypatch.setattr(choose, "_best", lambda *_: (LandlockSandbox(), ()))


@pytest.mark.usefixtures("no_sandbox")
async def test_the_person_can_turn_the_sandbox_off(tmp_path: Path) -> None:
    async with shell_desk(tmp_path, sandbox=SandboxChoice(enabled=False)) as desk:
        assert sandbox_of(desk.session).name == "none"
        assert await desk.bash("touch made; ls") == "made"


@pytest.mark.usefixtures("only_landlock")
async def test_without_bubblewrap_landlock_holds(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        assert await desk.bash("echo 1 >made; cat made") == "1"
        assert "Permission denied" in await desk.bash(f"touch {tmp_path}/outside")
        assert await desk.bash("curl -s http://192.0.2.1") == snapshot("""\
Error (execution_error): The command ended with exit code 7, and wrote nothing.

[The sandbox kept the command from reaching `192.0.2.1`: it has no network. Do without the network, or ask the user to allow `192.0.2.1` in `hosts` of `[sandbox]` in their settings.]\
""")
        assert not (tmp_path / "outside").exists()


@pytest.mark.usefixtures("only_landlock")
async def test_what_landlock_cannot_hide_is_refused_whole(tmp_path: Path) -> None:
    policy = RulePolicy(mode="bypass", deny=["Read(.env)"])
    async with shell_desk(tmp_path, policy=policy) as desk:
        (desk.workspace / ".env").write_text("secret")
        assert await desk.bash("touch made") == snapshot("""\
Error (permission_error): Without bubblewrap the sandbox cannot hide `.env` from a command that may change files, and reading it needs approval or is denied by a rule.

Suggestion: Ask the user to install bubblewrap, or, if no rule denies it, to let commands read the file with the rule `Read(.env)`.\
""")
        assert not (desk.workspace / "made").exists()


async def test_what_a_rule_denies_is_hidden_also_when_it_is_not_there_yet(tmp_path: Path) -> None:
    policy = RulePolicy(mode="bypass", deny=["Read(.env)", "Read(./secrets/**)"])
    (tmp_path / "ws" / "secrets").mkdir(parents=True)
    (tmp_path / "ws" / "secrets" / "key").touch()
    session = Session(workspace=tmp_path / "ws", restrictions=RuleRestrictions(policy))
    assert [str(path.relative_to(tmp_path)) for path in work_profile(session).hidden] == snapshot(
        ["ws/.env", "ws/secrets"]
    )


async def test_a_rule_that_comes_in_the_middle_of_a_session_holds_for_the_next_command(tmp_path: Path) -> None:
    needs(best_sandbox().name == "bubblewrap", "bubblewrap")
    policy = RulePolicy(mode="bypass")
    async with shell_desk(tmp_path, policy=policy) as desk:
        (desk.workspace / "plan").write_text("secret")
        program = "python3 -c 'print(open(chr(112) + \"lan\").read())'"
        assert await desk.bash(f"x=1; {program}") == "secret"
        policy.restrict(deny=["Read(plan)"])
        assert await desk.bash(f"echo $x; {program} 2>&1 | tail -1") == snapshot("""\
1
PermissionError: [Errno 13] Permission denied: 'plan'
[The sandbox hides `plan`: reading it needs approval, or a rule denies it. Do without it, or ask the user to allow reading it.]\
""")
        assert "denies `cat *`" in await desk.bash("cat *")
        assert "denies `read plan`" in await desk.words("Read", file_path="plan")


@pytest.mark.parametrize("arguments", [{}, {"run_in_background": True}, {"terminal": True}])
async def test_the_sandbox_is_tried_and_made_ready_beside_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, bool]
) -> None:
    threads: list[int] = []

    class Watched(NoSandbox):
        def prepare(self, profile: Profile, arguments: Sequence[str], *, terminal: bool = False) -> Prepared:
            threads.append(threading.get_ident())
            return super().prepare(profile, arguments, terminal=terminal)

    def try_all(*_: object) -> tuple[Watched, tuple[()]]:
        threads.append(threading.get_ident())
        return Watched(off=True), ()

    monkeypatch.setattr(choose, "_found", {})
    monkeypatch.setattr(choose, "_try_all", try_all)
    async with shell_desk(tmp_path) as desk:
        await desk.bash("touch x", **arguments)
    assert len(threads) == 2
    assert threading.get_ident() not in threads


async def test_the_file_that_long_output_names_can_be_read_and_searched_by_its_session_alone(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        ended = await desk.runtime.run("Bash", {"command": "seq 20000; echo the end"})
        file = ended.data["output_file"]
        assert "19999\t19999" in await desk.words("Read", file_path=file, offset=19990)
        assert await desk.words("Grep", pattern="the end", path=file, output_mode="content") == snapshot("""\
Found 1 matching line in 1 file.
/outputs/x.txt:20001:the end\
""")
        folder = str(Path(file).parent)
        assert (await desk.words("Grep", pattern="the end", path=folder)).endswith("/outputs/x.txt")
        for tool, arguments in (
            ("Write", {"file_path": file, "content": "x"}),
            ("Write", {"file_path": f"{folder}/new", "content": "x"}),
            ("Edit", {"file_path": file, "old_string": "the end", "new_string": "x"}),
            (
                "FileSearch",
                {"pattern": "the end", "path": file, "replace_with": "x", "preview_only": False},
            ),
        ):
            assert "can be read but not changed" in await desk.words(tool, **arguments), tool
        assert (await desk.bash(f"echo x >>{file} || echo refused")).startswith("[stderr]\nbash: line 1:")
        assert Path(file).read_text().endswith("the end\n")
        assert "outside" in await desk.words("Read", file_path=f"{folder}/../x")
        async with shell_desk(tmp_path) as other:
            await other.bash("true")
            assert "outside" in await other.words("Read", file_path=file)


async def test_outputs_of_a_session_are_its_own_and_old_ones_go(tmp_path: Path) -> None:
    ended, fresh = Session(workspace=tmp_path), Session(workspace=tmp_path)
    old = outputs_of(ended)
    (old / "output-x.txt").touch()
    await close_shell(ended)
    assert outputs_of(fresh) != old
    assert outputs_of(fresh) == outputs_of(fresh)
    assert old.stat().st_mode & 0o777 == 0o700
    assert (old / "output-x.txt").exists()
    long_ago = time.time() - 8 * 24 * 3600
    os.utime(old, (long_ago, long_ago))
    other = Session(workspace=tmp_path)
    outputs_of(other)
    assert not old.exists()
    assert outputs_of(fresh).exists()
    empty = outputs_of(fresh)
    for session in (fresh, other):
        await close_shell(session)
    assert not empty.exists()


async def test_the_settings_decide_and_the_end_of_the_app_leaves_nothing(tmp_path: Path) -> None:
    mark = new_mark()
    (tmp_path / "ws").mkdir()
    (tmp_path / "more").mkdir()
    chosen = SandboxSettings(hosts=["one.example"], writable=[tmp_path / "more"])
    settings = Settings(sandbox=chosen, audit=AuditSettings(enabled=False))
    async with App(settings, tmp_path / "ws", ask=say_yes) as app:
        kept = app.runtime.session.environment.sandbox
        assert (kept.enabled, kept.hosts, kept.writable) == (True, ("one.example",), (tmp_path / "more",))
        if sandbox_of(app.runtime.session).name == "bubblewrap":
            made = await app.runtime.run("Bash", {"command": f"sleep {mark} & touch {tmp_path}/more/made"})
            assert made.success, made.llm_content
            assert (tmp_path / "more" / "made").exists()
            started = {"command": f"touch late; setsid sleep {mark}", "run_in_background": True}
            assert (await app.runtime.run("Bash", started)).success
            assert becomes(lambda: alive(mark))
    assert not alive(mark)


async def test_a_session_whose_data_folder_is_removed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands had their /tmp and their long outputs in there."""
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    async with shell_desk(tmp_path) as desk:
        await desk.bash("echo 1 > a")
        shutil.rmtree(tmp_path / "data")
        assert "The history of changes was removed" in await desk.bash("echo 2 > a; echo kept > /tmp/b")
        assert await desk.bash("cat a /tmp/b") == "2\nkept"
        shutil.rmtree(tmp_path / "data")
        assert "99999" in await desk.bash("seq 100000 | cat")
    assert (tmp_path / "ws" / "a").read_text() == "2\n"
    assert list((tmp_path / "data").glob("temporary/*")) == []


async def test_a_call_that_is_cancelled_while_its_layers_are_made_leaves_none(tmp_path: Path) -> None:
    async with shell_desk(tmp_path) as desk:
        needs(sandbox_of(desk.session).has_layers, "overlays")
        begun, go_on = threading.Event(), threading.Event()

        def show(mounts: Sequence[LayerMount]) -> Profile:
            begun.set()
            go_on.wait(60)
            return look_profile(desk.session, mounts)

        async def call() -> None:
            async with layered_box(desk.session, show, []):
                raise AssertionError("it was cancelled before")

        calling = asyncio.ensure_future(call())
        await asyncio.to_thread(begun.wait, 60)
        calling.cancel()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await calling
        folder = layers_folder(files_of(desk.session).paths)
        assert folder is not None
        assert [path.name for own in folder.iterdir() if own.is_dir() for path in own.iterdir() if path.is_dir()] == []
