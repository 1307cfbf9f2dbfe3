"""What a command sees of the machine: an allow-list, with bubblewrap and with Landlock alone, through the pipeline."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from ferrule import Environment
from ferrule.process.sandbox import choose
from ferrule.process.sandbox.hiding import MOST_COVERED
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from ferrule.tools import SandboxChoice
from tests.boxes.test_trial import Desk, desk
from tests.needs import needs


@pytest.fixture(params=["bubblewrap", "landlock"])
def sandboxed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "landlock":
        needs(LandlockSandbox().missing() is None, "a kernel with Landlock")
        monkeypatch.setattr(choose, "_best", lambda *_: (LandlockSandbox(), ()))
    else:
        needs(shutil.which("bwrap"), "bubblewrap (`bwrap` on PATH)")
    return str(request.param)


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a workspace, a neighbour, a home and a folder that the user may add."""
    for name in ("ws", "p2/.git", "home/.ssh", "home/.cargo/bin", "shared/deep"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("p2/.env", "p2/notes.txt", "home/.ssh/id_rsa", "home/.cargo/credentials.toml", "home/.npmrc", "x.txt"):
        (tmp_path / name).write_text("TOKEN=s3cret\n")
    (tmp_path / "shared/data.txt").write_text("shared\n")
    (tmp_path / "shared/deep/.env").write_text("TOKEN=s3cret\n")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.mark.usefixtures("sandboxed")
async def test_only_the_workspace_and_the_system_are_there(around: Path) -> None:
    """S1: neither the neighbour, nor a home, nor another disk, by any way of reading."""
    commands = [
        "cat ../p2/.env ../p2/notes.txt ../x.txt",
        "grep -rn TOKEN .. 2>/dev/null",
        f"find {around} -type f -exec cat {{}} + 2>/dev/null",
        f"cat {around}/home/.ssh/id_rsa {around}/home/.cargo/credentials.toml ~/.npmrc",
        f"ln -s {around}/p2 there; cat there/.env",
        f"python3 -c \"print(open('{around}/p2/notes.txt').read())\"",
        f"cd {around}/p2 && cat .env",
        f"cat /proc/self/root{around}/p2/.env /proc/1/root{around}/p2/.env",
        "ls -A /srv /mnt /media /home 2>/dev/null",
    ]
    async with desk(around / "ws") as at:
        for command in commands:
            seen = await at.bash(command)
            assert "s3cret" not in str(seen.data) + seen.llm_content, command
        assert (await at.bash("ls -A /srv /mnt /media /home 2>/dev/null")).data["stdout"] == ""


async def test_a_workspace_in_any_place_shows_no_neighbour(sandboxed: str) -> None:
    """S1"""
    for parent in ("/srv", "/var/tmp", "/usr/src", "/opt", "/usr/local/src", "/mnt"):
        if not os.access(parent, os.W_OK):
            continue
        with tempfile.TemporaryDirectory(dir=parent) as made:
            workspace, other = Path(made, "ws"), Path(made, "other")
            workspace.mkdir()
            other.write_text("s3cret")
            async with desk(workspace) as at:
                seen = await at.bash("pwd; cat ../other; ls ..")
            assert seen.data["stdout"].startswith(f"{workspace}\n"), (parent, seen)
            assert "s3cret" not in str(seen.data), parent


async def test_the_user_adds_a_folder_and_its_secrets_stay_hidden(around: Path, sandboxed: str) -> None:
    """S1"""
    at = Desk(around / "ws")
    at.session.environment = Environment(sandbox=SandboxChoice(see=(around / "shared", around / "missing")))
    try:
        seen = await at.bash("cat ../shared/data.txt; cat ../shared/deep/.e*; echo x > ../shared/data.txt")
    finally:
        await at.session.close()
    assert seen.data["stdout"] == "shared\n"
    assert (around / "shared/data.txt").read_text() == "shared\n"
    assert "s3cret" not in str(seen.data)


RULES = (
    "Read(./)",
    "Read(.)",
    "Read(**/private.txt)",
    "Read(src/**/private.txt)",
    "Read(./src/*/private.*)",
    "Read(private.txt)",
)


@pytest.mark.parametrize("rule", [*RULES, "Read({root}/**/private.txt)", "Read({shared}/**/private.txt)"])
async def test_a_denied_read_binds_a_script_in_any_form(around: Path, sandboxed: str, rule: str) -> None:
    """S1"""
    workspace, shared = around / "ws", around / "shared"
    deep = (shared if "shared" in rule else workspace / "src") / "a"
    deep.mkdir(parents=True)
    (deep / "private.txt").write_text("s3cret")
    (workspace / "read.py").write_text(f"print(open({str(deep / 'private.txt')!r}).read())")
    at = Desk(workspace, deny=[rule.format(root=f"/{workspace}", shared=f"/{shared}")])
    at.session.environment = Environment(sandbox=SandboxChoice(see=(shared,)))
    try:
        seen = await at.bash("python3 read.py; cat $(find . ../shared -name 'priv*')")
    finally:
        await at.session.close()
    assert "s3cret" not in str(seen.data) + seen.llm_content


@pytest.mark.parametrize(
    "rule", ["Read(//etc/alternatives/**)", "Read(//etc/**/README)", "Read(//usr/share/dpkg/*able)"]
)
async def test_a_denied_read_binds_in_the_system_where_it_names_a_place(around: Path, rule: str) -> None:
    """S1"""
    places = {
        "alternatives": "/etc/alternatives/awk",
        "README": "/etc/alternatives/README",
        "dpkg": "/usr/share/dpkg/cputable",
    }
    place = next(path for name, path in places.items() if name in rule)
    needs(Path(place).exists(), place)
    (around / "ws/read.py").write_text(f"print(len(open('/etc/hostname').read()) > 0)\nprint(open({place!r}).read())")
    async with desk(around / "ws", deny=[rule]) as at:
        seen = await at.bash("python3 read.py")
    assert seen.data["stdout"] == "True\n"
    assert "Permission denied" in seen.data["stderr"]


async def test_what_makes_a_file_in_the_workspace_can_be_approved(around: Path, sandboxed: str) -> None:
    """S1: with Landlock alone the look box is read-only, and what it refuses is asked about all the same."""
    commands = (
        "touch m0", "echo x > m1", "python3 -c \"open('m2', 'w')\"", "mkdir m3",
        "echo x > m4; ls", "touch m5 2>&1 | tail -1",
    )  # fmt: skip
    for number, command in enumerate(commands):
        async with desk(around / "ws", "y") as at:
            assert (await at.bash(command)).success, command
            assert len(at.asked) == 1, command
        assert (around / f"ws/m{number}").exists()


async def test_what_is_written_outside_is_named(around: Path, sandboxed: str) -> None:
    """S1: in a look box and in a work box."""
    async with desk(around / "ws", allow=["Bash(touch *)"]) as at:
        tried = await at.bash("echo hi > ~/notes.txt && echo saved")
        worked = await at.bash("touch ~/made")
        quiet = await at.bash("mkdir -p ~/.cache/x && touch ~/.cache/x/y /tmp/z; git config user.name; echo done")
    assert tried.success
    assert "Written outside the workspace and not kept: `~/notes.txt`." in tried.llm_content
    assert "not kept: `~/made`" in worked.llm_content
    assert "not kept" not in quiet.llm_content
    assert not at.asked
    assert not (around / "home/notes.txt").exists()


def many(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"p{number}").mkdir()
        (folder / f"p{number}/.env").write_text("TOKEN=s3cret\n")
        (folder / f"p{number}/a.txt").write_text("a\n")


@pytest.mark.parametrize("count", [MOST_COVERED + 1, pytest.param(3_000, marks=pytest.mark.slow)])
async def test_with_many_hidden_files_commands_work_and_show_none(around: Path, count: int) -> None:
    """S1: each is hidden by itself, in a look box and in a work box."""
    workspace = around / "ws"
    many(workspace, count)
    script = "from pathlib import Path\nfor one in (Path('made'), Path('p1/made')): one.touch()\n"
    (workspace / "work.py").write_text(f"{script}print(Path('p2/.env').read_text())")
    async with desk(workspace, "y", allow=["Bash(python3 *)"]) as at:
        seen = await at.bash("cat p*/a.txt | wc -l; cat $(find p7 p1 -type f -size +3c); grep -rs TOKEN . | wc -l")
        worked = await at.bash("python3 work.py")
        changed = await at.bash("echo more >> p1/a.txt")
    assert seen.data["stdout"] == f"{count}\n0\n"
    assert "Permission denied: 'p2/.env'" in worked.data["stderr"]
    assert "s3cret" not in str(seen.data) + seen.llm_content + str(worked.data)
    assert (workspace / "made").exists()
    assert (workspace / "p1/made").exists()
    assert changed.success
    assert (workspace / "p1/a.txt").read_text() == "a\nmore\n"


@pytest.mark.parametrize(
    "command",
    ["chmod 666 p1/.env; echo x > p1/.env", "rm -rf p1", "mv p1 gone", "rm p1/.env", "mv p1/.env b"],
)
async def test_what_many_hidden_files_look_like_never_takes_their_place(around: Path, command: str) -> None:
    """S1"""
    workspace = around / "ws"
    many(workspace, MOST_COVERED + 1)
    async with desk(workspace, "yyy") as at:
        await at.bash(command)
    assert (workspace / "p1/.env").read_text() == "TOKEN=s3cret\n"


async def test_secrets_in_toolchains_of_the_home_are_hidden(around: Path, sandboxed: str) -> None:
    """S1: in a look box and in a work box, and what lies beside them is shown."""
    home = around / "home"
    for name in (".local/share/uv/credentials/one.toml", ".pub-cache/credentials.json", ".julia/servers/x/auth.toml"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("s3cret\n")
    (home / ".local/share/uv/tools").write_text("shown\n")
    secret = f"{home}/.local/share/uv/credentials/* {home}/.pub-cache/* {home}/.julia/servers/x/auth.toml"
    async with desk(around / "ws", allow=["Bash(cat *)"]) as at:
        for program in ("sort", "cat"):
            seen = await at.bash(f"{program} {secret} {home}/.local/share/uv/credentials/one.toml")
            assert "s3cret" not in str(seen.data), program
        beside = await at.bash(f"cat {home}/.local/share/uv/tools")
    assert beside.data["stdout"] == "shown\n", beside.llm_content


@pytest.mark.parametrize("count", [1, MOST_COVERED + 1])
async def test_in_a_home_that_is_the_workspace_secrets_lie_in_secret_places(around: Path, count: int) -> None:
    """S1: a place that is hidden in one that is hidden, or guarded in one, or in a toolchain, however many they are."""
    needs(shutil.which("bwrap"), "bubblewrap (`bwrap` on PATH)")
    home = around / "home"
    many(home, count)
    for name in (
        ".docker/config.json",
        ".aws/credentials",
        ".config/ferrule/ferrule.toml",
        ".nvm/.npmrc",
        ".nvm/x/.env",
        ".gemini/oauth_creds.json",
        ".config/rclone/rclone.conf",
        ".authinfo",
        ".psql_history",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("# _authToken=s3cret\n")
    async with desk(home, allow=["Bash(python3 *)"]) as at:
        seen = await at.bash("echo begun; grep -rh s3cret . 2>/dev/null")
        worked = await at.bash("python3 -c \"import os; os.system('touch p0/made; grep -rh s3cret . 2>/dev/null')\"")
    assert (seen.data["stdout"], worked.data["stdout"]) == ("begun\n", "")
    assert (home / "p0/made").exists()


async def test_a_background_command_hides_many_files_by_their_folders(around: Path) -> None:
    """S1"""
    workspace = around / "ws"
    (workspace / "keys").mkdir()
    for number in range(3_000):
        (workspace / f"keys/.env.{number}").touch()
    (workspace / "keys/.env.7").write_text("TOKEN=s3cret\n")
    at = Desk(workspace, "y")
    try:
        started = await at.bash("cat keys/.env.7; ls keys; echo over > out.txt; echo written", run_in_background=True)
        read = await at.runtime.run("BashOutput", {"shell_id": started.data["shell_id"], "wait_for": "written"})
    finally:
        await at.session.close()
    assert "s3cret" not in str(read.data) + read.llm_content
    assert (workspace / "out.txt").exists()


async def test_a_workspace_that_is_named_through_a_link_is_there_by_that_name(around: Path, sandboxed: str) -> None:
    (around / "ws/a.txt").write_text("a\n")
    (around / "named").symlink_to("ws")
    async with desk(around / "named") as at:
        seen = await at.bash(f"cat {around}/named/a.txt; ls -A ..; cat {around}/p2/notes.txt")
    assert seen.data["stdout"].startswith("a\n")
    assert "s3cret" not in str(seen.data)


async def test_a_home_in_the_workspace_and_a_workspace_that_is_the_home(
    around: Path, sandboxed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S1: what is known to be secret in it stays hidden."""
    for workspace in (around, around / "home"):
        async with desk(workspace) as at:
            seen = await at.bash(
                f"cat {around}/home/.ssh/id_rsa {around}/home/.cargo/credentials.toml ~/.npmrc; echo on"
            )
        assert seen.data["stdout"] == "on\n"
    monkeypatch.setenv("PATH", f"{around}/p2:{os.environ['PATH']}:/:{around}/home:{around}:")
    async with desk(around / "ws") as at:
        seen = await at.bash(f"cat {around}/p2/notes.txt {around}/x.txt ~/.npmrc; echo on")
    assert seen.data["stdout"] == "on\n"


def test_explain_lists_what_the_box_would_show(around: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S1"""
    monkeypatch.chdir(around / "ws")
    (around / "ws/.env").write_text("TOKEN=s3cret\n")
    (around / "ws/ferrule.toml").write_text('[shell]\nsee = ["/srv"]\n')
    call = (sys.executable, "-m", "ferrule", "explain", "Bash", '{"command": "ls"}', "--json", "--add-dir", "../shared")
    done = subprocess.run(call, capture_output=True, check=True, env={**os.environ, "PYTHONWARNINGS": ""})
    shows = json.loads(done.stdout)["shows"]
    assert shows["workspace"] == [str(around / "ws")]
    assert shows["added"] == [str(around / "shared")]
    assert "/usr" in shows["system"]
    assert {str(around / "ws/.env"), str(around / "shared/deep/.env")} <= {*shows["hidden"]}
