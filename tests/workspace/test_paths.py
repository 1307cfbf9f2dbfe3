"""What a path means, and that none leads out (S1): by the kernel's own confinement and by the walk without it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from tests.workspace.desk import Desk, refused
from tests.workspace.swapping import folder_swaps, for_a_while, relink, swapping

from ferrule import Environment, ErrorKind, ToolResult
from ferrule.core import files
from ferrule.workspace import atomic, confined, paths
from ferrule.workspace.paths import Paths
from ferrule.workspace.problems import PathError

SECRET = "the secret of the neighbour\n"


@pytest.fixture(params=["kernel", "walk"], autouse=True)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every fact below holds with `openat2` and with the walk that stands in for it."""
    if request.param == "walk":
        monkeypatch.setattr(confined, "_confines", False)
    elif not confined.kernel_confines():
        pytest.skip("this kernel has no openat2")
    return request.param


@pytest.fixture
def outside(desk: Desk) -> Path:
    """A folder beside the workspace whose name begins like it."""
    folder = desk.workspace.parent / "ws-evil"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


def look(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def denied(desk: Desk, path: str, code: str = "outside") -> None:
    """No tool reads or writes this path."""
    before = desk.names()
    for result in (
        desk.read(path),
        desk.call("readFile", path),
        desk.write(path, "mine"),
        desk.edit(path, "secret", "public"),
        desk.multi_edit(path, ("secret", "public")),
    ):
        refused(result, code)
        assert "secret of" not in result.llm_content
    assert desk.names() == before


# Out, and its harmless neighbour


@pytest.mark.parametrize(
    "path",
    [
        "../ws-evil/secret.txt",
        "sub/../../ws-evil/secret.txt",
        "no-such-folder/../../ws-evil/secret.txt",
        "./../ws/../ws-evil/secret.txt",
        "..//ws-evil//secret.txt",
        "../ws-evil/new.txt",
        "../new.txt",
        "..",
        "../..",
        "/etc/passwd",
        "//etc/passwd",
        "/",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/../../../../../../etc/passwd",
        "/proc/self/environ",
        "/dev/null",
        "~/.ssh/id_rsa",
        "~root/.profile/../../etc/passwd",
    ],
)
def test_no_spelling_leads_out(desk: Desk, outside: Path, path: str) -> None:
    (desk.workspace / "sub").mkdir()
    if path.startswith("~root"):
        refused(desk.read(path), "missing")  # only `~` and `~/` mean a home; this is a name like any other
        return
    denied(desk, path)
    assert look(outside) == {"secret.txt": SECRET}


def test_a_twin_of_the_workspace_name_is_outside(desk: Desk, outside: Path) -> None:
    denied(desk, str(outside / "secret.txt"))
    denied(desk, str(outside / "new.txt"))
    denied(desk, str(desk.workspace) + "-evil/../ws-evil/secret.txt")
    desk.put("ws-evil/secret.txt", "my own\n")
    assert desk.read("ws-evil/secret.txt").llm_content == "     1\tmy own"


@pytest.mark.parametrize(
    "name",
    [
        "a..b",
        "..a",
        "a..",
        "...",
        "..a/b..c/d",
        "a/.../b",
        "-rf",
        " lead",
        "sp ace",
        "名前.txt",
        "é.txt",
        "~",
        "~$x.doc",
    ],
)
def test_a_name_that_only_looks_like_an_attack_is_a_name(desk: Desk, name: str) -> None:
    desk.put(name, "mine\n")
    given = "./~" if name == "~" else name
    assert desk.read(given).llm_content == "     1\tmine"
    assert desk.read(str(desk.workspace / name)).success
    assert desk.edit(given, "mine", "ours").success
    assert desk.bytes_of(name) == b"ours\n"


@pytest.mark.parametrize("path", ["sub/../f.txt", "./f.txt", "sub//..//f.txt", "../ws/f.txt", "sub/inner/../../f.txt"])
def test_dots_that_stay_inside_are_followed(desk: Desk, path: str) -> None:
    desk.put("f.txt", "mine\n")
    (desk.workspace / "sub/inner").mkdir(parents=True)
    assert desk.read(path).data["content"] == "mine"


# Links


@pytest.mark.parametrize(
    "target",
    ["../ws-evil/secret.txt", "/ABS/ws-evil/secret.txt", "/proc/self/root/ABS/ws-evil/secret.txt", "../ws-evil/none"],
)
def test_a_link_that_leads_out_is_refused(desk: Desk, outside: Path, target: str) -> None:
    (desk.workspace / "link").symlink_to(target.replace("/ABS", str(outside.parent)))
    denied(desk, "link")
    assert look(outside) == {"secret.txt": SECRET}


@pytest.mark.parametrize("absolute", [True, False])
def test_a_folder_link_that_leads_out_is_refused(desk: Desk, outside: Path, absolute: bool) -> None:
    (desk.workspace / "folder").symlink_to(outside if absolute else "../ws-evil")
    for name in ("secret.txt", "new.txt", "new/folder/file.txt", "../ws-evil/secret.txt", "."):
        denied(desk, f"folder/{name}")
    assert look(outside) == {"secret.txt": SECRET}


def test_a_chain_of_links_that_ends_outside_is_refused(desk: Desk, outside: Path) -> None:
    (desk.workspace / "a").symlink_to("b")
    (desk.workspace / "b").symlink_to(desk.workspace / "c")
    (desk.workspace / "c").symlink_to(outside)
    denied(desk, "a/secret.txt")


def test_links_in_a_ring_are_refused(desk: Desk) -> None:
    (desk.workspace / "a").symlink_to("b")
    (desk.workspace / "b").symlink_to("a")
    denied(desk, "a", "circle")
    denied(desk, "a/f.txt", "circle")
    assert desk.read("a").llm_content == snapshot("""\
Error (execution_error): `a` cannot be followed: its links lead in a circle.

Suggestion: Use the path of the file itself; nothing can be reached through these links.\
""")


@pytest.mark.parametrize("absolute", [True, False])
def test_a_link_that_stays_inside_is_followed_to_the_real_file(desk: Desk, absolute: bool) -> None:
    desk.put("real/f.txt", "mine\n")
    root = desk.workspace if absolute else Path()
    (desk.workspace / "link.txt").symlink_to(root / "real/f.txt")
    (desk.workspace / "folder").symlink_to(root / "real")
    for path in ("link.txt", "folder/f.txt"):
        assert desk.read(path).data["content"] == "mine"
    assert desk.edit("link.txt", "mine", "ours").success
    assert desk.write("folder/new.txt", "new").success
    assert (desk.workspace / "link.txt").is_symlink()
    assert (desk.bytes_of("real/f.txt"), desk.bytes_of("real/new.txt")) == (b"ours\n", b"new")


def test_a_link_to_nothing_inside_is_written_through(desk: Desk) -> None:
    (desk.workspace / "link").symlink_to("later.txt")
    assert desk.write("link", "new").success
    assert (desk.workspace / "link").is_symlink()


def test_the_parent_of_a_linked_folder_is_that_of_its_target(desk: Desk) -> None:
    """As in every shell and kernel; a lexical `..` would name another file."""
    desk.put("deep/real/f.txt", "f\n")
    desk.put("deep/next.txt", "the one\n")
    desk.put("next.txt", "not this\n")
    (desk.workspace / "link").symlink_to("deep/real")
    assert desk.read("link/../next.txt").llm_content == "     1\tthe one"


def test_a_workspace_reached_by_a_link_is_the_workspace(desk: Desk) -> None:
    desk.put("f.txt", "mine\n")
    alias = desk.workspace.parent / "alias"
    alias.symlink_to(desk.workspace)
    assert desk.read(str(alias / "f.txt")).data["content"] == "mine"
    other = Desk(alias)
    assert other.read("f.txt").success
    assert other.read(str(desk.workspace / "f.txt")).success


def test_the_workspace_by_way_of_proc_is_seen_for_what_it_is(desk: Desk) -> None:
    desk.put("f.txt", "mine\n")
    assert desk.read(f"/proc/self/root{desk.workspace}/f.txt").data["content"] == "mine"


# Swapped while the tool runs


def test_a_link_swapped_in_for_a_file_while_it_is_read_leads_nowhere(desk: Desk, outside: Path) -> None:
    desk.put("mine.txt", "mine\n")
    path = desk.workspace / "f.txt"
    path.symlink_to("mine.txt")
    with swapping(relink(path, "../ws-evil/secret.txt"), relink(path, "mine.txt")):
        for_a_while(lambda _: desk.read("f.txt"))
    assert desk.read("f.txt").llm_content == "     1\tmine"  # the last swap was to the inner one


def test_a_folder_swapped_for_a_link_while_files_in_it_are_read_leads_nowhere(desk: Desk, outside: Path) -> None:
    desk.put("folder/secret.txt", "mine\n")
    with swapping(*folder_swaps(desk.workspace / "folder", outside)):
        for_a_while(lambda _: desk.read("folder/secret.txt"))
    assert desk.read("folder/secret.txt").llm_content == "     1\tmine"  # the folder is back


def test_a_folder_swapped_for_a_link_while_files_are_written_stays_untouched(desk: Desk, outside: Path) -> None:
    """The folder may be missing at the moment, and is then made: the swapper clears it away."""
    folder, away = desk.workspace / "folder", desk.workspace / "away"
    folder.mkdir()

    def back() -> None:
        while True:
            try:
                return folder.unlink()
            except (FileNotFoundError, IsADirectoryError, PermissionError):
                if not folder.is_symlink():
                    return None

    def swap() -> None:
        try:
            folder.rename(away)
            folder.symlink_to(outside)
        except OSError:
            pass
        back()
        try:
            away.rename(folder)
        except OSError:
            for path in away.iterdir() if away.exists() else ():
                path.unlink(missing_ok=True)
            if away.exists():
                away.rmdir()

    with swapping(swap):
        for_a_while(lambda number: desk.write(f"folder/{number}.txt", "mine"))
    assert look(outside) == {"secret.txt": SECRET}


class Moments:
    """Does something at one chosen moment of a call: as the so manyth step on the way to a file begins or has ended."""

    STEPS = (
        (Paths, "locate"),
        (Paths, "stat"),
        (Paths, "open"),
        (Paths, "open_file"),
        (paths, "open_beneath"),
        (atomic, "_open_folder"),
        (atomic, "_attributes"),
        (atomic, "write_new"),
        (files, "_fill"),
        (atomic, "open_beneath"),
    )

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.passed, self.chosen, self.act = 0, -1, lambda: None
        for owner, name in self.STEPS:
            patch.setattr(owner, name, self._around(getattr(owner, name)))

    def _around(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            self._tick()
            try:
                return step(*arguments, **named)
            finally:
                self._tick()

        return run

    def _tick(self) -> None:
        self.passed += 1
        if self.passed == self.chosen:
            self.act()

    def choose(self, moment: int, act: Callable[[], None]) -> None:
        self.passed, self.chosen, self.act = 0, moment, act


@pytest.mark.parametrize("what", ["folder", "file"])
@pytest.mark.parametrize("tool", ["Read", "readFile", "Write", "Edit"])
def test_a_link_swapped_in_at_any_moment_of_a_call_leads_nowhere(
    desk: Desk, outside: Path, monkeypatch: pytest.MonkeyPatch, tool: str, what: str
) -> None:
    """Not left to luck: once for every step on the way, at its beginning and at its end."""
    moments = Moments(monkeypatch)
    arguments = {"Write": {"content": "mine"}, "Edit": {"old_string": "mine", "new_string": "ours"}}.get(tool, {})

    def run(moment: int) -> ToolResult:
        folder = desk.workspace / f"folder{moment}"
        file = folder / "secret.txt"

        def swap() -> None:
            if what == "folder":
                folder.rename(folder.with_name(f"{folder.name}-away"))
                folder.symlink_to(outside)
            else:
                file.unlink(missing_ok=True)
                file.symlink_to("../../ws-evil/secret.txt")

        moments.choose(0, swap)
        if tool == "Write":
            folder.mkdir()
        else:
            desk.seen(f"{folder.name}/secret.txt", "mine\n")
        moments.choose(moment, swap)
        return desk.call(tool, f"{folder.name}/secret.txt", **arguments)

    assert run(0).success  # with no swap at all
    for moment in range(1, moments.passed + 1):
        result = run(moment)
        assert "secret of" not in result.llm_content
        assert result.error is None or result.error.kind is not ErrorKind.UNKNOWN, result.llm_content
        assert look(outside) == {"secret.txt": SECRET}, moment


def test_a_file_swapped_for_a_link_while_it_is_written_never_reaches_the_target(desk: Desk, outside: Path) -> None:
    path = desk.seen("f.txt", "mine\n")
    with swapping(relink(path, "../ws-evil/secret.txt"), lambda: path.unlink(missing_ok=True)):
        for_a_while(lambda number: desk.write("f.txt", f"mine {number}"))
    assert look(outside) == {"secret.txt": SECRET}


def test_a_file_that_is_replaced_all_the_time_is_always_there(desk: Desk) -> None:
    """Editors save by renaming; the old file's way is then gone, not its name."""
    path = desk.put("f.txt", "mine\n")

    def save() -> None:
        beside = desk.workspace / "beside"
        beside.write_text("mine\n")
        beside.replace(path)

    with swapping(save):
        results = for_a_while(lambda _: desk.read("f.txt"))
    assert {result.llm_content for result in results} == {"     1\tmine"}


def test_a_file_may_be_called_deleted(desk: Desk) -> None:
    desk.put("f.txt (deleted)", "mine\n")
    assert desk.read("f.txt (deleted)").success
    assert not desk.write("new (deleted)", "x").data["is_overwrite"]


def test_renaming_the_workspace_does_not_lead_elsewhere(desk: Desk) -> None:
    desk.put("f.txt", "mine\n")
    assert desk.read("f.txt").success
    desk.workspace.rename(desk.workspace.with_name("moved"))
    desk.workspace.mkdir()
    desk.put("f.txt", "an impostor\n")
    assert desk.read("f.txt").llm_content == "     1\tmine"


def test_a_workspace_that_was_removed_is_said_to_be_gone(desk: Desk) -> None:
    desk.seen("f.txt", "mine\n").unlink()
    desk.workspace.rmdir()
    assert desk.read("f.txt").llm_content == snapshot(
        """\
Error (execution_error): The folder of the workspace cannot be used: it was removed.

Suggestion: No path will work until the user has restored it and started a new session; tell them.\
"""
    )
    assert desk.write("f.txt", "mine").llm_content == snapshot(
        """\
Error (execution_error): The folder of the workspace cannot be used: it was removed.

Suggestion: No path will work until the user has restored it and started a new session; tell them.\
"""
    )
    assert not desk.workspace.exists()


# Hard links, and what is no file


def test_a_file_with_two_names_is_read_but_not_written(desk: Desk, outside: Path) -> None:
    """A hard link cannot be told from the file by its path."""
    os.link(outside / "secret.txt", desk.workspace / "hard.txt")
    assert desk.read("hard.txt").success
    for result in (desk.write("hard.txt", "mine"), desk.edit("hard.txt", "secret", "public")):
        assert refused(result, "hard_link").llm_content == snapshot("""\
Error (permission_error): `hard.txt` has 2 names (hard links), and the others may lie outside the workspace.

Suggestion: Change a copy of it, or ask the user to allow it (setting `files.hard_links`).\
""")
    assert look(outside) == {"secret.txt": SECRET}
    assert (desk.workspace / "hard.txt").samefile(outside / "secret.txt")
    (outside / "secret.txt").unlink()
    assert desk.write("hard.txt", "mine").success


def test_pipes_sockets_and_devices_are_never_opened(desk: Desk) -> None:
    os.mkfifo(desk.workspace / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        here = os.open(desk.workspace, os.O_RDONLY)
        try:
            server.bind(f"/proc/self/fd/{here}/socket")
        finally:
            os.close(here)
        started = time.monotonic()
        denied(desk, "pipe", "special")
        denied(desk, "socket", "special")
    assert time.monotonic() - started < 60
    assert desk.read("pipe").llm_content == snapshot("""\
Error (validation_error): `pipe` is a pipe, and is not opened.

Suggestion: Give a regular file.\
""")
    assert desk.read("socket").llm_content == snapshot(
        """\
Error (validation_error): `socket` is a socket, and is not opened.

Suggestion: Give a regular file.\
"""
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_is_never_opened(desk: Desk) -> None:
    try:
        os.mknod(desk.workspace / "zero", 0o20666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("no devices here")
    denied(desk, "zero", "special")
    assert desk.read("zero").llm_content == snapshot("""\
Error (validation_error): `zero` is a device, and is not opened.

Suggestion: Give a regular file.\
""")


# Names


def test_nul_and_over_long_names_are_refused_in_words(desk: Desk) -> None:
    for path in ("f\0.txt", "\0", "f.txt\0/../../x", "x" * 256, "é" * 128, "/".join(["d" * 200] * 21), ""):
        denied(desk, path, "name")
    assert desk.read("f\0.txt").llm_content == snapshot("""\
Error (validation_error): The path contains a NUL byte.

Suggestion: Remove it.\
""")
    assert desk.read("x" * 256).llm_content == snapshot("""\
Error (validation_error): The path is too long: 256 bytes, its longest name 256.

Suggestion: A path has at most 4,096 bytes and a name at most 255.\
""")
    assert desk.read("").llm_content == snapshot("""\
Error (validation_error): The path is empty.

Suggestion: Give a path, or `.` for the working directory.\
""")


def test_the_longest_names_work(desk: Desk) -> None:
    for name in ("x" * 255, "é" * 127, "/".join(["d" * 200] * 15)):
        assert not desk.write(name, "mine").data["is_overwrite"]
        assert desk.read(name).success


@pytest.mark.parametrize(
    ("given", "there"),
    [
        ("f.txt.", "f.txt"),
        ("f.txt ", "f.txt"),
        ("F.TXT", "f.txt"),
        ("src\u2215f.txt", "src"),
        ("f\uff0etxt", "f.txt"),
    ],
)
def test_another_spelling_is_another_file_and_the_right_one_is_named(desk: Desk, given: str, there: str) -> None:
    desk.put(there, "mine\n")
    result = refused(desk.read(given), "missing")
    if there != "src":
        assert result.error is not None
        assert result.error.suggestion is not None
        assert f"Did you mean `{there}`?" in result.error.suggestion


@pytest.mark.parametrize("dots", ["\u2025/", "\uff0e\uff0e/", "..\u2215", "..\uff0f", "\u2024\u2024/", "..\\"])
def test_characters_that_look_like_a_way_out_are_none(desk: Desk, outside: Path, dots: str) -> None:
    result = desk.read(f"{dots}ws-evil/secret.txt")
    refused(result, "missing")
    assert not desk.write(f"{dots}new.txt", "x").success
    assert look(outside) == {"secret.txt": SECRET}
    assert not (outside.parent / "new.txt").exists()


def test_a_look_alike_is_named(desk: Desk) -> None:
    desk.put("src/f.txt", "mine\n")
    desk.put("a.b", "mine\n")
    assert desk.read("src\u2215f.txt").llm_content == snapshot("""\
Error (not_found_error): There is no file at `src∕f.txt`.

Suggestion: The path contains U+2215 DIVISION SLASH, which only looks like a slash or a dot. Did you mean `src`?\
""")
    assert desk.read("a\uff0eb").llm_content == snapshot("""\
Error (not_found_error): There is no file at `a．b`.

Suggestion: The path contains U+FF0E FULLWIDTH FULL STOP, which only looks like a slash or a dot. Did you mean `a.b`?\
""")


# Missing


def test_a_missing_file_is_answered_with_the_nearest_names(desk: Desk) -> None:
    desk.put("src/main.py", "")
    desk.put("src/mail.py", "")
    assert desk.read("src/mian.py").llm_content == snapshot("""\
Error (not_found_error): There is no file at `src/mian.py`.

Suggestion: Did you mean `src/main.py` or `src/mail.py`?\
""")
    assert desk.read("scr/main.py").llm_content == snapshot("""\
Error (not_found_error): There is no file at `scr/main.py`, and no folder `scr`.

Suggestion: The nearest folder that exists is `.`.\
""")
    assert desk.read("src/main.py/x").llm_content == snapshot("""\
Error (not_found_error): There is no file at `src/main.py/x`, because `src/main.py` is a file, not a folder.

Suggestion: The nearest folder that exists is `src`.\
""")
    assert desk.read("src/qqq").llm_content == snapshot("""\
Error (not_found_error): There is no file at `src/qqq`.

Suggestion: No name in `src` is similar; list the folder to see what is there.\
""")


def test_a_suggestion_works_as_it_stands_in_a_sub_directory(desk: Desk) -> None:
    desk.put("sub/main.py", "mine\n")
    desk.put("lib/util.py", "mine\n")
    below = Desk(desk.workspace, working_directory=desk.workspace / "sub")
    for wrong in ("mian.py", "../lib/utli.py"):
        error = refused(below.read(wrong), "missing").error
        assert error is not None
        assert error.details is not None
        [name] = error.details["nearest"]
        assert below.read(name).success, name


def test_an_outside_path_is_refused_in_words(desk: Desk) -> None:
    assert refused(desk.read("../x"), "outside").llm_content == snapshot("""\
Error (permission_error): `../x` is outside the workspace.

Suggestion: Use a path inside the workspace; relative paths start at its top.\
""")
    with pytest.raises(PathError) as problem:
        Paths([desk.workspace]).find("/etc/passwd")
    assert (problem.value.kind, problem.value.code) == (ErrorKind.PERMISSION, "outside")


# Roots


def test_relative_paths_start_in_the_working_directory(desk: Desk) -> None:
    desk.put("f.txt", "top\n")
    desk.put("sub/f.txt", "below\n")
    below = Desk(desk.workspace, working_directory=desk.workspace / "sub")
    assert below.read("f.txt").llm_content == "     1\tbelow"
    assert below.read("../f.txt").llm_content == "     1\ttop"
    refused(below.read("../../f.txt"), "outside")


def test_an_added_folder_is_inside_and_its_neighbours_are_not(desk: Desk, outside: Path) -> None:
    (outside.parent / "ws-evil-2").mkdir()
    wide = Desk(desk.workspace, environment=Environment(roots=(outside,)))
    assert wide.read(str(outside / "secret.txt")).success
    assert wide.read("../ws-evil/secret.txt").success
    assert wide.write(str(outside / "new.txt"), "new").success
    refused(wide.write(str(outside.parent / "ws-evil-2/new.txt"), "new"), "outside")
    refused(wide.write(str(outside.parent / "new.txt"), "new"), "outside")
    (desk.workspace / "link").symlink_to(outside)
    assert wide.read("link/secret.txt").success  # from one root into another
    denied(desk, "link/secret.txt")  # who has not been given that root has not
