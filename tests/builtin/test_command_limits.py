"""What one command may use: memory, processes and file sizes, in every box and however it is started."""
# ruff: noqa: E501 - a program stands on one line

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.builtin.shell_case import USERS, Ferrule
from tests.builtin.shell_desk import shell_desk
from tests.needs import needs
from tests.process.shell.test_ownership import python_for

from ferrule.builtin.session_shells import command_bounds, work_profile
from ferrule.core.context import SandboxChoice
from ferrule.policy.decide import RulePolicy
from ferrule.process.sandbox import choose, limits
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from ferrule.process.sandbox.limits import default_bounds

MB = 10**6
TAKES = "import time; x = b'x' * 400_000_000; time.sleep(0.2); print(len(x))"
TAKES_MEMORY = f'/usr/bin/python3 -c "{TAKES}"'
FORKS = "sh -c 'for i in $(seq 100); do sleep 9 & done; wait'; false"  # bash itself would try again for seconds
WAYS: dict[str, dict[str, Any]] = {"look": {}, "work": {"policy": RulePolicy(mode="bypass")}}


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(Path("/usr/bin/python3").exists(), "/usr/bin/python3, which every box sees")
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))


@pytest.fixture(params=["best", "landlock"])
def sandbox(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "landlock":
        needs(LandlockSandbox().missing() is None, "a kernel with Landlock")
        monkeypatch.setattr(choose, "_best", lambda *_: (LandlockSandbox(), ()))


@pytest.fixture(params=["groups", "resource limits"])
def means(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Control groups where they can be had, and as on a machine where they cannot."""
    if request.param == "groups":
        needs("memory" in limits.can_group(), "control groups with memory")
    else:
        monkeypatch.setattr(limits, "_tried", lambda _user: {})
    yield request.param
    limits._remove_idle()


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("way", WAYS)
async def test_a_command_that_takes_too_much_memory_is_ended_and_says_so(tmp_path: Path, way: str, means: str) -> None:
    """S1."""
    async with shell_desk(
        tmp_path, sandbox=SandboxChoice(memory=200 * MB), **WAYS[way] or {"policy": RulePolicy()}
    ) as desk:
        said = await desk.bash(TAKES_MEMORY)
        assert "400000000" not in said
        assert "200 MB of memory" in said or "may use at most 200 MB" in said
        assert ("was ended: it used more than" in said) == (means == "groups")
        assert "`shell.memory` in the user's settings sets the limit" in said
        assert "approval" not in said, "a limit is no barrier that approval opens"
        assert await desk.bash("echo after") == "after"


@pytest.mark.usefixtures("means")
async def test_memory_in_the_background_too(tmp_path: Path) -> None:
    """S1."""
    chosen = SandboxChoice(memory=200 * MB)
    async with shell_desk(tmp_path, sandbox=chosen, policy=RulePolicy(mode="bypass")) as desk:
        await desk.bash(f"{TAKES_MEMORY}; echo over", run_in_background=True)
        said = await desk.words("BashOutput", shell_id="bash_1", wait_for="over")
        assert "400000000" not in said
        said += await desk.words("BashOutput", shell_id="bash_1", wait_for="never")
        assert "has ended" in said
        if "MemoryError" not in said:
            assert "was ended: it used more than 200 MB of memory" in said


async def test_memory_of_all_processes_together(tmp_path: Path) -> None:
    """S1: where a control group can count it."""
    needs("memory" in limits.can_group(), "control groups with memory")
    async with shell_desk(tmp_path, sandbox=SandboxChoice(memory=600 * MB), policy=RulePolicy(mode="bypass")) as desk:
        assert (await desk.bash(TAKES_MEMORY)) == "400000000"
        said = await desk.bash(f"{TAKES_MEMORY} & {TAKES_MEMORY} & {TAKES_MEMORY} & wait")
        assert "it used more than 600 MB of memory" in said


@pytest.mark.usefixtures("sandbox")
@pytest.mark.parametrize("way", WAYS)
async def test_the_number_of_processes(tmp_path: Path, way: str) -> None:
    """S1."""
    needs("pids" in limits.can_group() or os.geteuid() != 0, "a way to count processes")
    async with shell_desk(
        tmp_path, sandbox=SandboxChoice(processes=40), **WAYS[way] or {"policy": RulePolicy()}
    ) as desk:
        said = await desk.bash(FORKS, timeout=60_000)
        assert "at most 40 processes and threads" in said
        assert "`shell.processes`" in said


async def test_the_size_of_files(tmp_path: Path) -> None:
    """S1."""
    async with shell_desk(tmp_path, sandbox=SandboxChoice(file_size=MB), policy=RulePolicy(mode="bypass")) as desk:
        said = await desk.bash("head -c 2000000 /dev/zero >large")
        assert (desk.workspace / "large").stat().st_size <= MB
        assert "kept from writing a file of more than 1.0 MB" in said
        assert "`shell.file_size`" in said
    async with shell_desk(tmp_path, sandbox=SandboxChoice(file_size="off"), policy=RulePolicy(mode="bypass")) as desk:
        made = "f = open('a', 'wb'); f.seek(6 * 10**9); f.write(b'x')"
        assert "6000000001" in await desk.bash(f'/usr/bin/python3 -c "{made}" && stat -c %s a')


async def test_each_can_be_lifted_and_is_there_otherwise(tmp_path: Path) -> None:
    """S1."""
    async with shell_desk(tmp_path) as desk:
        usual = work_profile(desk.session).bounds
    assert (usual.total_memory, usual.processes) == (default_bounds().total_memory, default_bounds().processes)
    lifted = command_bounds(SandboxChoice(memory="off", processes="off", file_size="off"))
    assert (lifted.memory, lifted.total_memory, lifted.processes, lifted.file_size) == (None,) * 4


async def test_a_sandbox_that_is_off_leaves_the_control_group(tmp_path: Path) -> None:
    needs("memory" in limits.can_group(), "control groups with memory")
    chosen = SandboxChoice(enabled=False, memory=200 * MB)
    async with shell_desk(tmp_path, sandbox=chosen) as desk:
        assert "it used more than 200 MB of memory" in await desk.bash(TAKES_MEMORY)


@pytest.mark.parametrize("user", USERS)
def test_for_every_user(user: str) -> None:
    """S1: an ordinary user, who may often make no control groups, has limits of processes."""
    needs(python_for(USERS[user]), "a Python that this user can run")
    ferrule = Ferrule(USERS[user])
    try:
        workspace = ferrule.workspace()
        limited = {"memory": 200 * MB, "processes": 60}
        (told,) = ferrule.ask(workspace, ["Bash", {"command": TAKES_MEMORY}], sandbox=limited)
        assert "400000000" not in told.out
        assert "200 MB" in told.words
        (told,) = ferrule.ask(workspace, ["Bash", {"command": FORKS}], sandbox=limited)
        assert "at most 60 processes" in told.words
    finally:
        ferrule.close()


@pytest.mark.slow
@pytest.mark.usefixtures("means")
@pytest.mark.parametrize(
    ("program", "files", "command", "expected"),
    [
        ("node", {"a.js": "const w = require('worker_threads'); console.log([1].concat([2]).length)"}, "node a.js", "2"),
        ("java", {"A.java": "class A { public static void main(String[] a) { System.out.println(41 + 1); } }"}, "java A.java", "42"),
        ("go", {"a.go": "package main\nimport \"fmt\"\nfunc main() { fmt.Println(41 + 1) }\n", "go.mod": "module a\n"}, "go run .", "42"),
        ("cargo", {"Cargo.toml": "[package]\nname = 'a'\nversion = '0.1.0'\n", "src/main.rs": "fn main() { println!(\"42\") }"}, "cargo run -q", "42"),
        (sys.executable, {"test_a.py": "def test_a(): assert [0] * 1000\n"}, f"{sys.executable} -m pytest -q -n 2 -p no:cacheprovider", "1 passed"),
    ],
    ids=["node", "java", "go", "cargo", "pytest"],
)  # fmt: skip
async def test_what_builds_need_is_left(
    tmp_path: Path, program: str, files: dict[str, str], command: str, expected: str
) -> None:
    """S1: limits of addresses would break most of these, limits of memory do not."""
    needs(shutil.which(program), program)
    async with shell_desk(tmp_path, policy=RulePolicy(mode="bypass")) as desk:
        for name, text in files.items():
            (desk.workspace / name).parent.mkdir(exist_ok=True)
            (desk.workspace / name).write_text(text)
        assert expected in await desk.bash(command, timeout=300_000)
