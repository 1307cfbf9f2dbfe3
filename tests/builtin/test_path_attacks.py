"""Every class of path attack against every file tool, each with its harmless neighbour (S1, must-show 3)."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.needs import slow
from tests.workspace.desk import Desk, refused
from tests.workspace.nobody import as_nobody
from tests.workspace.swapping import folder_swaps, for_a_while, swapping

from ferrule import Environment, ToolResult
from ferrule.process.landlock import kernel_version
from ferrule.workspace import confined
from ferrule.workspace.searching import ripgrep

SECRET = "the secret of the neighbour\n"
MINE = "mine\n"


@pytest.fixture(params=["kernel", slow("walk") if confined.kernel_confines() else "walk"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Everything holds with `openat2` and with the walk that stands in for it."""
    if request.param == "walk":
        monkeypatch.setattr(confined, "_confines", False)
    elif not confined.kernel_confines():
        pytest.skip("this kernel has no openat2")
    return request.param


FILE_TOOLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "Read": lambda path: {"file_path": path},
    "readFile": lambda path: {"filePath": path},
    "Write": lambda path: {"file_path": path, "content": MINE},
    "Edit": lambda path: {"file_path": path, "old_string": "mine", "new_string": "mine "},
    "MultiEdit": lambda path: {"file_path": path, "edits": [{"old_string": "mine", "new_string": "mine!"}]},
}
FOLDER_TOOLS: dict[str, Callable[[str], dict[str, Any]]] = {
    "Glob": lambda path: {"pattern": "*", "path": path},
    "Grep": lambda path: {"pattern": "mine|secret", "path": path, "output_mode": "content"},
    "LS": lambda path: {"path": path, "depth": 3},
    "listFiles": lambda path: {"directoryPath": path, "recursive": True},
    "searchFiles": lambda path: {"pattern": "*", "baseDir": path},
}
TOOLS = {**FILE_TOOLS, **FOLDER_TOOLS}


@dataclass
class Attack:
    """A path that must not work, for tools of files and of folders, and one beside it that must."""

    name: str
    file: str
    folder: str
    code: str
    good_file: str = "f.txt"
    good_folder: str = "sub"
    written: str | None = None
    """The code where Write is the tool, if that is another: it may make what is missing, and others may not."""


# `TOP` is the folder that holds the workspace `ws`, its neighbour `ws-evil`, and `alias`, a link to the workspace.
ATTACKS = [
    Attack("traversal", "../ws-evil/secret.txt", "../ws-evil", "outside", "sub/../f.txt", "sub/../sub"),
    Attack("traversal below", "sub/../../ws-evil/secret.txt", "sub/../..", "outside", "../ws/f.txt", "../ws/sub"),
    Attack("traversal of nothing", "no/../../ws-evil/secret.txt", "no/../..", "outside", "no/../f.txt", "no/../sub"),
    Attack("prefix twin", "TOP/ws-evil/secret.txt", "TOP/ws-evil", "outside", "TOP/ws/f.txt", "TOP/ws/sub"),
    Attack("prefix twin, dotted", "TOP/ws/../ws-evil/secret.txt", "TOP/ws/../ws-evil", "outside", "./f.txt", "./sub"),
    Attack("absolute", "/etc/passwd", "/etc", "outside", "TOP/ws/sub/g.txt", "TOP/ws"),
    Attack("link to a file", "out-file", "out", "outside", "in-file", "in"),
    Attack("link, absolute", "out-abs/secret.txt", "out-abs", "outside", "in-abs/g.txt", "in-abs"),
    Attack("chain of links", "out-chain/secret.txt", "out-chain", "outside", "in-chain/g.txt", "in-chain"),
    Attack("dangling link", "out-nothing", "out-nothing", "outside", "in-nothing-made", "in"),
    Attack("ring of links", "ring", "ring/x", "circle"),
    Attack("proc root", "/proc/self/root/etc/passwd", "/proc/self/root/etc", "outside", "/proc/self/rootTOP/ws/f.txt",
           "/proc/self/rootTOP/ws/sub"),
    Attack("link to proc root", "proc-root/etc/passwd", "proc-root", "outside"),
    Attack("proc fd", "/proc/self/fd/0", "/proc/self/fd", "outside"),
    Attack("link to proc fd", "proc-fd", "proc-fd", "outside"),
    Attack("dev fd", "/dev/fd/0", "/dev/fd", "outside"),
    Attack("dev null", "/dev/null", "/dev", "outside"),
    Attack("home", "~/.ssh/id_rsa", "~", "outside", "./~/f.txt", "./~"),
    Attack("pipe", "pipe", "pipe", "special"),
    Attack("socket", "socket", "socket", "special"),
    Attack("NUL", "f.txt\0", "sub\0", "name"),
    Attack("NUL, to cut a path", "f.txt\0/../../ws-evil", "sub\0/../..", "name"),
    Attack("over-long name", "x" * 256, "x" * 256, "name", "y" * 255, "z" * 255),
    Attack("over-long path", "/".join(["d" * 200] * 21), "/".join(["d" * 200] * 21), "name"),
    Attack("empty", "", "", "name"),
    Attack("URL", "file:///etc/passwd", "file:///etc", "name", "file:/f.txt", "file:"),
    Attack("URL of the inside", "file://TOP/ws/f.txt", "file://TOP/ws", "name"),
    Attack("trailing dot", "f.txt.", "sub.", "missing", "dot./f.txt", "dot.", written="name"),
    Attack("trailing space", "f.txt ", "sub ", "missing", "space /f.txt", "space ", written="name"),
    Attack("full-width dots", "\uff0e\uff0e/ws-evil/secret.txt", "\uff0e\uff0e/ws-evil", "missing",
           "\uff26/f.txt", "\uff26", written="name"),
    Attack("two-dot leader", "\u2025/ws-evil/secret.txt", "\u2025", "missing", written="name"),
    Attack("look-alike slash", "..\u2215ws-evil\u2215secret.txt", "..\u2215ws-evil", "missing", written="name"),
    Attack("full-width slash", "..\uff0fws-evil", "..\uff0fws-evil", "missing", written="name"),
    Attack("zero-width space", "f\u200b.txt", "su\u200bb", "missing", "z\u200b/f.txt", "z\u200b", written="name"),
    Attack("right-to-left override", "f\u202etxt.", "s\u202ebu", "missing", "r\u202e/f.txt", "r\u202e", written="name"),
    Attack("newline", "f.txt\n", "sub\n", "missing", "new\nline/f.txt", "new\nline", written="name"),
    Attack("backslashes", "..\\ws-evil\\secret.txt", "..\\ws-evil", "missing", "back\\slash/f.txt", "back\\slash",
           written="name"),
    Attack("drive", "C:\\Windows\\win.ini", "C:\\Windows", "missing", written="name"),
    Attack("per cent", "%2e%2e/ws-evil/secret.txt", "%2e%2e/ws-evil", "missing", "%2e/f.txt", "%2e", written=""),
    Attack("variable", "$HOME/.profile", "$HOME", "missing", "$x/f.txt", "$x", written=""),
    Attack("case", "F.TXT", "SUB", "missing", "Case/f.txt", "Case", written=""),
    Attack("an option", "--pre=sh", "--files", "missing", "-rf/f.txt", "-rf", written=""),
    Attack("dots in a name", "..a/none", "a..c", "missing", "a..b/f.txt", "a..b", written=""),
    Attack("joined emoji", "none \U0001f469", "none", "missing", "\U0001f469\u200d\U0001f4bb/f.txt",
           "\U0001f469\u200d\U0001f4bb", written=""),
    Attack("under a file", "f.txt/x", "f.txt/x", "missing", written="missing"),
]  # fmt: skip


@pytest.fixture
def yard(desk: Desk) -> Generator[Desk]:
    """A workspace with something behind every door, and a neighbour whose name begins like its own."""
    top = desk.workspace.parent
    (top / "ws-evil").mkdir()
    (top / "ws-evil/secret.txt").write_text(SECRET)
    (top / "alias").symlink_to(desk.workspace)
    desk.put("f.txt", MINE)
    desk.put("sub/g.txt", MINE)
    desk.put("in-nothing-made", MINE)
    for attack in ATTACKS:
        if attack.good_file.endswith("/f.txt") and not attack.good_file.startswith(("/", ".", "TOP", "no/")):
            desk.put(attack.good_file, MINE)
    desk.put("~/f.txt", MINE)
    desk.put("y" * 255, MINE)
    desk.put("z" * 255 + "/f.txt", MINE)
    for link, target in {
        "out-file": "../ws-evil/secret.txt", "out": "../ws-evil", "out-abs": str(top / "ws-evil"),
        "out-chain": "chain1",
        "chain1": str(desk.workspace / "chain2"), "chain2": "out", "out-nothing": "../nothing", "ring": "ring2",
        "ring2": "ring", "proc-root": "/proc/self/root", "proc-fd": "/proc/self/fd/0", "in-file": "f.txt", "in": "sub",
        "in-abs": str(desk.workspace / "sub"), "in-chain": "chain3", "chain3": str(desk.workspace / "in"),
    }.items():  # fmt: skip
        (desk.workspace / link).symlink_to(target)
    os.mkfifo(desk.workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(desk.workspace, os.O_RDONLY)
        server.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
        yield desk


def run(desk: Desk, tool: str, arguments: dict[str, Any]) -> ToolResult:
    return asyncio.run(desk.runtime.run(tool, arguments))


def spelled(desk: Desk, path: str) -> str:
    return path.replace("TOP", str(desk.workspace.parent))


def tree(folder: Path | str, above: str = "") -> dict[str, bytes | str]:
    """Every name below a folder, with what it holds or leads to."""
    found: dict[str, bytes | str] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            name = above + entry.name
            if entry.is_symlink():
                found[name] = os.readlink(entry.path)  # noqa: PTH115 - a thousand tests look at two hundred names each
            elif entry.is_file():
                found[name] = Path(entry.path).read_bytes()
            else:
                found[name] = "other"
                if entry.is_dir():
                    found |= tree(entry.path, f"{name}/")
    return found


@pytest.mark.parametrize("tool", TOOLS)
def test_an_attack_is_refused_and_its_neighbour_works(yard: Desk, tool: str) -> None:
    """All of them in one yard: each leaves it as it was, but for names that are like any other and are made inside."""
    wrong: dict[str, str] = {}
    for attack in ATTACKS:
        try:
            attacked(yard, attack, tool)
        except AssertionError as error:
            wrong[attack.name] = str(error)
    assert wrong == {}


def attacked(yard: Desk, attack: Attack, tool: str) -> None:
    top = yard.workspace.parent
    before = tree(top)
    given = spelled(yard, attack.file if tool in FILE_TOOLS else attack.folder)
    result = run(yard, tool, TOOLS[tool](given))
    assert "secret of" not in result.llm_content
    assert "root:x:0" not in result.llm_content
    if tool == "Write" and attack.written == "":
        assert result.success, result.llm_content  # a name like any other, and made inside
        assert set(tree(yard.workspace)) > {name.removeprefix("ws/") for name in before if name.startswith("ws/")}
    else:
        code = attack.written if tool == "Write" and attack.written is not None else attack.code
        error = refused(result, code).error
        assert error is not None
        assert error.suggestion, "what to do next"
        assert tree(top) == before
    assert tree(top / "ws-evil") == {"secret.txt": SECRET.encode()}

    good = spelled(yard, attack.good_file if tool in FILE_TOOLS else attack.good_folder)
    if tool in ("Write", "Edit", "MultiEdit"):
        assert run(yard, "Read", {"file_path": good}).success, good
    result = run(yard, tool, TOOLS[tool](good))
    assert result.success, result.llm_content
    if tool not in ("Write", "Edit", "MultiEdit"):
        assert "mine" in result.llm_content or "txt" in result.llm_content, result.llm_content


@pytest.mark.parametrize("glob", ["../*", "sub/../../*", "/etc/*", "TOP/ws-evil/*", "~/*", "x\0y", "!../*"])
def test_a_glob_leads_nowhere_either(yard: Desk, glob: str) -> None:
    glob = spelled(yard, glob)
    for tool, arguments in {
        "Glob": {"pattern": glob},
        "Grep": {"pattern": "secret", "glob": glob},
        "LS": {"ignore": [glob]},
        "searchFiles": {"pattern": glob},
    }.items():
        result = run(yard, tool, arguments)
        assert not result.success, result.llm_content
        assert result.error is not None
        assert result.error.kind == "validation_error"
        assert "secret" not in result.llm_content.replace("`secret`", "")


@pytest.mark.parametrize("glob", ["out*/**", "out-file", "out/secret.txt", "proc-root/etc/*", "chain1/*"])
def test_a_glob_follows_no_link(yard: Desk, glob: str) -> None:
    for tool, arguments in {
        "Glob": {"pattern": glob},
        "Grep": {"pattern": "secret|root", "glob": glob},
        "searchFiles": {"pattern": glob},
    }.items():
        result = run(yard, tool, arguments)
        assert result.success
        assert (result.data.get("total") or result.data.get("total_files") or result.data.get("count") or 0) == 0


@pytest.mark.parametrize("glob", ["a..b/*", "f.txt", "a:b", "x" * 300, "é*"])
def test_a_harmless_glob_works(yard: Desk, glob: str) -> None:
    yard.put("a:b", MINE)
    for tool, arguments in {"Glob": {"pattern": glob}, "searchFiles": {"pattern": glob}}.items():
        result = run(yard, tool, arguments)
        assert result.success, result.llm_content
        assert bool(result.data.get("files") or result.data.get("matches")) is (glob[0] not in "xé")


def test_a_pattern_that_names_a_link_is_told_so(yard: Desk) -> None:
    words = run(yard, "Glob", {"pattern": "in/*"}).llm_content
    assert "`in` is a link, and searches follow none. Give it as `path`." in words


# Swapped while the tool runs


@pytest.mark.skipif(not kernel_version(), reason="without Landlock ripgrep itself may be led out; doctor says so")
@pytest.mark.parametrize("tool", FOLDER_TOOLS)
def test_a_folder_swapped_for_a_link_while_it_is_searched_leads_nowhere(desk: Desk, tool: str) -> None:
    outside = desk.workspace.parent / "ws-evil"
    outside.mkdir()
    (outside / "neighbour.txt").write_text(SECRET)
    desk.put("folder/deep/mine.txt", MINE)
    for path in ("folder", "."):
        with swapping(*folder_swaps(desk.workspace / "folder", outside)):
            results = for_a_while(lambda _, path=path: run(desk, tool, FOLDER_TOOLS[tool](path)), 0.3)
        assert results
        assert not [one.llm_content for one in results if "neighbour" in one.llm_content]
    assert run(desk, tool, FOLDER_TOOLS[tool]("folder")).success


def test_names_near_a_missing_one_are_never_the_neighbours(desk: Desk) -> None:
    """«Did you mean» looks into a folder too, and that may have been swapped by then."""
    outside = desk.workspace.parent / "ws-evil"
    outside.mkdir()
    (outside / "neighbour.txt").write_text(SECRET)
    desk.put("folder/mine.txt", MINE)
    with swapping(*folder_swaps(desk.workspace / "folder", outside)):
        results = for_a_while(lambda _: desk.read("folder/neighbor.txt"))
    assert not [one.llm_content for one in results if "neighbour" in one.llm_content]


# Hard links


def test_a_hard_link_is_read_and_not_written_unless_allowed(yard: Desk) -> None:
    outside = yard.workspace.parent / "ws-evil/secret.txt"
    outside.write_text(MINE)
    os.link(outside, yard.workspace / "hard.txt")
    assert run(yard, "Read", FILE_TOOLS["Read"]("hard.txt")).success  # a path cannot tell: the docs say so
    for tool in ("Write", "Edit", "MultiEdit"):
        result = run(yard, tool, {**FILE_TOOLS[tool]("hard.txt"), **({"content": "x"} if tool == "Write" else {})})
        refused(result, "hard_link")
    assert outside.read_text() == MINE
    allowed = Desk(yard.workspace, environment=Environment(hard_links=True))
    assert allowed.read("hard.txt").success
    assert allowed.edit("hard.txt", "mine", "ours").success
    assert (yard.bytes_of("hard.txt"), outside.read_bytes()) == (b"ours\n", MINE.encode())  # the other keeps its own


# The workspace itself


def test_a_workspace_that_is_a_link_is_the_folder_it_leads_to(yard: Desk) -> None:
    by_link = Desk(yard.workspace.parent / "alias")
    for tool, arguments in TOOLS.items():
        good = "f.txt" if tool in FILE_TOOLS else "sub"
        if tool in FILE_TOOLS:
            assert by_link.read(good).success
        assert run(by_link, tool, arguments(good)).success
        refused(run(by_link, tool, arguments("../ws-evil")), "outside")


@pytest.mark.parametrize("tool", TOOLS)
def test_a_workspace_that_is_missing_is_said_to_be(desk: Desk, tool: str) -> None:
    desk.workspace.rmdir()
    result = refused(run(desk, tool, TOOLS[tool]("f.txt")), "workspace")
    assert result.llm_content.startswith(
        "Error (execution_error): The folder of the workspace cannot be used: no such file or directory."
    )
    assert not desk.workspace.exists()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_workspace_that_is_removed_meanwhile_is_said_to_be(desk: Desk, tool: str) -> None:
    desk.seen("f.txt", MINE).unlink()
    desk.workspace.rmdir()
    refused(run(desk, tool, TOOLS[tool]("f.txt")), "workspace")
    assert not desk.workspace.exists()


@pytest.mark.parametrize("tool", TOOLS)
def test_a_working_directory_that_is_gone_hides_nothing_else(desk: Desk, tool: str) -> None:
    desk.put("f.txt", MINE)
    desk.put("sub/g.txt", MINE)
    below = Desk(desk.workspace, working_directory=desk.workspace / "gone")
    if tool != "Write":
        refused(run(below, tool, TOOLS[tool]("x")), "missing")
    refused(run(below, tool, TOOLS[tool]("../../ws-evil")), "outside")
    good = "../f.txt" if tool in FILE_TOOLS else str(desk.workspace / "sub")
    assert tool not in FILE_TOOLS or below.read(good).success
    assert run(below, tool, TOOLS[tool](good)).success


def test_a_process_whose_own_folder_is_gone_still_works(desk: Desk) -> None:
    """What the kernel can do is tried once, and must not depend on where the program was started."""
    desk.put("f.txt", MINE)
    program = (
        "import asyncio, os, sys, tempfile\n"
        "from pathlib import Path\n"
        "from ferrule import Runtime, Session\n"
        "from ferrule.builtin.read import read\n"
        "here = tempfile.mkdtemp(); os.chdir(here); os.rmdir(here)\n"
        "session = Session(workspace=Path(sys.argv[1]))\n"
        "print(asyncio.run(Runtime([read], session=session).run('Read', {'file_path': 'f.txt'})).llm_content)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(desk.workspace)], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.stdout.strip(), done.stderr) == ("1\tmine", "")


@pytest.mark.parametrize("tool", TOOLS)
def test_an_added_folder_is_inside_and_one_that_is_missing_is_named(yard: Desk, tool: str) -> None:
    top = yard.workspace.parent
    added, missing = top / "ws-evil", top / "not there"
    wide = Desk(yard.workspace, environment=Environment(roots=(added, missing)))
    good = str(added / "secret.txt") if tool in FILE_TOOLS else str(added)
    assert tool not in FILE_TOOLS or wide.read(good).success
    changes = {"Edit": {"old_string": "secret"}, "MultiEdit": {"edits": [{"old_string": "secret", "new_string": "x"}]}}
    assert run(wide, tool, {**TOOLS[tool](good), **changes.get(tool, {})}).success
    words = refused(run(wide, tool, TOOLS[tool](str(missing / "x"))), "outside").llm_content
    assert f"or inside `{added}`" in words
    assert f"The added folder `{missing}` does not exist." in words
    refused(run(wide, tool, TOOLS[tool](str(top / "ws-evil-2"))), "outside")


# Mounts, and what may not be read


@pytest.mark.parametrize("tool", TOOLS)
def test_a_mount_inside_the_workspace_is_named_as_one(desk: Desk, tool: str) -> None:
    """`/proc` is mounted in `/`, on every Linux."""
    whole = Desk(Path("/"))
    result = refused(run(whole, tool, TOOLS[tool]("/proc/version" if tool in FILE_TOOLS else "/proc/sys")), "mount")
    assert "another file system, mounted at `proc`" in result.llm_content
    assert "add the folder `proc` (setting `files.folders`)" in result.llm_content
    if tool in ("Read", "readFile"):
        added = Desk(Path("/"), environment=Environment(roots=(Path("/proc"),)))
        assert run(added, tool, TOOLS[tool]("/proc/version")).success


@pytest.mark.parametrize("tool", [*FILE_TOOLS, "LS"])
def test_what_may_not_be_read_is_said_to_be(desk: Desk, tool: str) -> None:
    desk.workspace.chmod(0o755)
    desk.put("closed/f.txt", MINE)
    desk.put("open/f.txt", MINE)
    (desk.workspace / "closed").chmod(0)
    assert desk.files
    try:
        with as_nobody():
            given = "closed/f.txt" if tool in FILE_TOOLS else "closed"
            result = run(desk, tool, TOOLS[tool](given))
            neighbour = run(desk, "Read" if tool in FILE_TOOLS else "LS", TOOLS["Read"]("open/f.txt")
                            if tool in FILE_TOOLS else TOOLS["LS"]("open"))  # fmt: skip
    finally:
        (desk.workspace / "closed").chmod(0o755)
    assert not result.success
    assert result.error is not None
    assert result.error.kind == "permission_error", result.llm_content
    assert "permission denied" in result.llm_content
    assert neighbour.success, neighbour.llm_content


# Letters written in two ways


@pytest.mark.parametrize(("given", "there"), [("\xe9.txt", "e\u0301.txt"), ("e\u0301.txt", "\xe9.txt")])
def test_the_only_twin_of_a_name_is_meant_and_said_so(desk: Desk, given: str, there: str) -> None:
    desk.put(f"{there}.d/{there}", MINE)
    desk.put(there, MINE)
    for path in (given, f"{given}.d/{given}"):
        words = desk.read(path).llm_content
        assert words.startswith("     1\tmine\n[The name on the disk is written in another Unicode form (NF")
        assert "[The name on the disk" in desk.edit(path, "mine", "ours").llm_content
        assert "[The name on the disk" in desk.write(path, MINE).llm_content
    assert sorted(os.listdir(desk.workspace)) == sorted([there, f"{there}.d"])  # noqa: PTH208 - no second one was made
    for tool in ("Glob", "Grep", "LS"):
        assert "[The name on the disk" in run(desk, tool, FOLDER_TOOLS[tool](f"{given}.d")).llm_content


def test_the_exact_name_comes_before_its_twin(desk: Desk) -> None:
    desk.put("\xe9.txt", "composed\n")
    desk.put("e\u0301.txt", "decomposed\n")
    assert desk.read("\xe9.txt").llm_content == "     1\tcomposed"
    assert desk.read("e\u0301.txt").llm_content == "     1\tdecomposed"


def test_of_several_twins_none_is_guessed(desk: Desk) -> None:
    desk.put("\xe9e\u0301", MINE)
    desk.put("e\u0301\xe9", MINE)
    words = refused(desk.read("\xe9\xe9"), "missing").llm_content
    assert "several names are made of the same letters: `e\\u0301\\xe9` and `\\xe9e\\u0301`" in words


# git


def test_a_repository_full_of_pipes_is_refused_at_once(yard: Desk) -> None:
    (yard.workspace / ".git").mkdir()
    os.mkfifo(yard.workspace / ".git/HEAD")
    result = run(yard, "getGitInfo", {})
    assert not result.success
    assert "`.git/HEAD` is not a regular file" in result.llm_content


@pytest.mark.parametrize("inner", ["gitdir", "config"])
def test_a_git_folder_elsewhere_is_never_waited_for(yard: Desk, inner: str) -> None:
    elsewhere = yard.workspace.parent / "ws-evil/git"
    elsewhere.mkdir()
    os.mkfifo(elsewhere / inner)
    (yard.workspace / ".git").write_text(f"gitdir: {elsewhere}\n")
    result = run(yard, "getGitInfo", {})
    assert not result.success
    assert "leads to a repository outside the workspace" in result.llm_content


def test_its_neighbour_a_plain_repository_works(yard: Desk) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main", str(yard.workspace)], check=True, capture_output=True)
    assert run(yard, "getGitInfo", {}).data["branch"] == "main"
    assert ripgrep.NEVER == (".git", "node_modules")  # and no search goes into it
