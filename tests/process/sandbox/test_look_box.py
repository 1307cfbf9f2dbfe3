"""The look box: a command that nobody approved changes nothing, whatever it does, and shows no hidden file (S1, S4).

With bubblewrap its writes land in a layer; with Landlock alone the workspace is read-only.
"""

# ruff: noqa: E501 - scripts stand on one line
from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot
from tests.needs import needs
from tests.process.sandbox.box import Box, as_user, bubblewrap, landlock, python_for_all, run, run_in_box
from tests.process.sandbox.conftest import USERS, marks

from ferrule.process.landlock import kernel_version
from ferrule.process.profile import Bounds, LayerMount, Profile

SANDBOXES = {"bubblewrap": bubblewrap, "landlock": landlock}
SECRET = "the-hidden-words"


@pytest.fixture(
    params=[
        pytest.param((name, user), id=f"{name} as {user}", marks=marks(user)) for name in SANDBOXES for user in USERS
    ]
)
def either(request: pytest.FixtureRequest, room: Path) -> Box:
    name, user = request.param
    needs(kernel_version() >= 3, "a kernel with Landlock")
    sandbox = SANDBOXES[name]()
    needs(sandbox, "bubblewrap (`bwrap` on PATH)")
    assert sandbox is not None
    return Box(room / "box", USERS[user], sandbox)


def tree(folder: Path) -> dict[str, tuple[int, int, float, bytes | str]]:
    """Everything that a person could see of it: names, kinds, modes, times and contents."""
    found: dict[str, tuple[int, int, float, bytes | str]] = {}
    for path in (folder, *sorted(folder.rglob("*"))):
        state = path.lstat()
        content = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(folder))] = (state.st_mode, state.st_uid, state.st_mtime, content)
    return found


def planted(box: Box) -> None:
    box.repository()
    for path in ("a.txt", "sub/b.txt", "sub/deep/c.sh", "odd, name: \\x/d"):
        box.write(path, f"content of {path}\n")
    box.write(".env", SECRET)
    box.write("keys/id", SECRET)
    (box.workspace / "link").symlink_to(".env")
    (box.workspace / "hard").hardlink_to(box.workspace / ".env")
    (box.workspace / "sub/hard too").hardlink_to(box.workspace / "keys/id")
    box.own()


def hidden(box: Box) -> tuple[Path, ...]:
    return (box.workspace / ".env", box.workspace / "keys")


CHANGES = [
    "echo x >a.txt", "echo x >>a.txt", ": >new", "rm -rf sub", "rm a.txt .env; rm -rf keys", "mv a.txt b.txt",
    "mv sub sub2", "chmod 777 a.txt sub", "chmod -R a+x .", "touch a.txt", "touch -d 2001-01-01 sub a.txt", "ln a.txt l",
    "ln -s / l", "mkdir -p n/m", "truncate -s 0 a.txt", "dd if=/dev/zero of=a.txt bs=1 count=1 conv=notrunc",
    "sed -i s/c/d/ a.txt", "cp a.txt sub/a.txt", "git init -q x; git add -A; git status; git stash", "git checkout -b x",
    "chown 1:1 a.txt", "mkfifo p", "setfattr -n user.x -v y a.txt", "rename() { :; }; install -m 755 a.txt b",
    "find . -type f -delete", "find . -name '*.txt' -exec sh -c 'echo x >\"$1\"' _ {} \\;", "tar cf t.tar . && tar xf t.tar",
    "(sleep 0.05; echo late >late) &", "setsid sh -c 'while :; do echo x >>a.txt; done' & sleep 0.05",
    "mv .git x", "echo evil >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit", "git config core.fsmonitor evil",
    "echo x >.mcp.json", "rm -rf . 2>/dev/null", "rm -rf \"$PWD\"", "exec 9<>a.txt; echo x >&9", "kill -9 $PPID; echo x >a.txt",
    "echo x >/proc/self/cwd/a.txt", "cd sub && echo x >../a.txt && echo y >deep/../../new",
    "python3 -c \"import os; f = os.open('a.txt', os.O_RDONLY | os.O_TRUNC); os.close(f)\"",
    "python3 -c \"import os; os.truncate('a.txt', 0)\"", "python3 -c \"import os; os.utime('a.txt', (1, 1)); os.chmod('a.txt', 0)\"",
]  # fmt: skip
READS = [
    "cat .env", "cat link hard", "cat 'sub/hard too' keys/id", "cat keys/*", "grep -r words .", "cp .env x && cat x", "ln .env x && cat x",
    "mv .env x && cat x", "mv keys k2 && cat k2/id", "cp -r . /tmp/all && cat /tmp/all/.env /tmp/all/hard /tmp/all/keys/id",
    "tar c . | strings", "cat /proc/self/cwd/.env /proc/self/root$PWD/.env", "cat /proc/*/root$PWD/.env",
    "python3 -c \"print(open('.env').read())\"", "exec 3<.env; cat <&3", "cd keys && cat id", "find . -type f -exec cat {} +",
    "ls -A | xargs cat", "sort .env", "git init -q /tmp/r; cp .env /tmp/r; cat /tmp/r/.env", "rm .env; cat hard", "umount .env; cat .env",
    "mount --bind / /mnt; cat .env", "unshare -rm cat .env", "ln -s \"$PWD\" /tmp/w; cat /tmp/w/.env", "git diff --no-index /dev/null .env",
    "mv sub s2; cat 's2/hard too'", "dd if=.env", "cat <.env", "while read -r line; do echo $line; done <.env", "source ./.env",
]  # fmt: skip


def test_it_changes_nothing(either: Box) -> None:
    planted(either)
    before = tree(either.workspace)
    for script in CHANGES:
        done = either.look(script, hidden=hidden(either))
        assert tree(either.workspace) == before, script
        assert done.layered == (either.sandbox.name == "bubblewrap"), script
        assert SECRET not in done.out + done.err, script


def test_what_is_hidden_is_not_shown(either: Box) -> None:
    planted(either)
    before = tree(either.workspace)
    for script in READS:
        done = either.look(script, hidden=hidden(either))
        assert SECRET not in done.out + done.err, script
        assert tree(either.workspace) == before, script
        if either.upper.exists():
            kept = [path for path in either.upper.rglob("*") if path.is_file() and SECRET in path.read_text("latin-1")]
            assert kept == [], script


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from([*CHANGES, *READS]), min_size=2, max_size=5))
def test_no_row_of_commands_changes_or_shows_anything(either: Box, scripts: list[str]) -> None:
    shutil.rmtree(either.workspace, ignore_errors=True)
    either.workspace.mkdir()
    planted(either)
    before = tree(either.workspace)
    done = either.look("\n".join(scripts), hidden=hidden(either))
    assert tree(either.workspace) == before
    assert SECRET not in done.out + done.err


def test_what_it_wrote_is_in_the_layer(box: Box) -> None:
    planted(box)
    done = box.look("echo new >made; echo more >>a.txt; rm sub/b.txt; chmod 755 sub/deep/c.sh; cat made; ls sub")
    assert (done.code, done.out) == (0, "new\ndeep\nhard too\n")
    upper = box.upper
    assert (upper / "made").read_text() == "new\n"
    assert (upper / "a.txt").read_text() == "content of a.txt\nmore\n"
    gone = (upper / "sub/b.txt").lstat()
    assert stat.S_ISCHR(gone.st_mode)
    assert gone.st_rdev == 0
    assert stat.S_IMODE((upper / "sub/deep/c.sh").stat().st_mode) == 0o755
    assert sorted(str(path.relative_to(upper)) for path in upper.rglob("*")) == [
        "a.txt", "made", "sub", "sub/b.txt", "sub/deep", "sub/deep/c.sh",
    ]  # fmt: skip


def test_a_command_that_only_reads_leaves_an_empty_layer(box: Box) -> None:
    planted(box)
    done = box.look("cat a.txt sub/b.txt; ls -laR >/dev/null; find . -type f; wc -l */*", hidden=hidden(box))
    assert "content of a.txt" in done.out
    assert list(box.upper.iterdir()) == []


def test_the_layer_looks_like_the_folder_that_it_covers(box: Box) -> None:
    box.workspace.chmod(0o750)
    os.utime(box.workspace, (1_000_000_000, 1_000_000_000))
    assert box.look("stat -c '%a %Y' .").out == "750 1000000000\n"


def test_what_the_kernel_needed_for_a_layer_can_be_removed(box: Box) -> None:
    """It leaves folders that their owner may not enter."""
    planted(box)
    box.look("rm -rf sub; echo x >a.txt")
    assert list((box.folder / "work").iterdir()) != []
    box.do(lambda: shutil.rmtree(box.folder / "work"))
    assert not (box.folder / "work").exists()


def test_earlier_layers_are_seen_above_the_workspace(box: Box) -> None:
    planted(box)
    first, second = box.folder / "first", box.folder / "second"
    for layer in (first, second):
        (layer / "build").mkdir(parents=True)
        (layer / "build/out").write_text(layer.name)
    (second / "build/old").write_text("old")
    box.own()
    done = box.look("cat build/out build/old a.txt; echo new >build/out", below=(first, second))
    assert done.out == "firstoldcontent of a.txt\n"
    assert (first / "build/out").read_text() == "first"
    assert (box.upper / "build/out").read_text() == "new\n"


def test_roots_that_lie_in_one_another_have_their_own_layers(box: Box) -> None:
    planted(box)
    outer, inner, work, more = (box.folder / name for name in ("outer", "inner", "work", "work2"))
    for one in (outer, inner, work, more):
        one.mkdir()
        os.chown(one, box.uid, box.uid)
    sub = box.workspace / "sub"
    layers = (LayerMount(box.workspace, outer, work), LayerMount(sub, inner, more))
    done = box.run(
        "cat sub/b.txt a.txt; echo 1 >made; echo 2 >sub/made", look=True, layers=layers, writable=(sub, box.workspace)
    )
    assert done.out == "content of sub/b.txt\ncontent of a.txt\n"
    assert [path.name for path in outer.iterdir()] == ["made"]
    assert [path.name for path in inner.iterdir()] == ["made"]


def test_a_folder_without_a_layer_is_read_only(either: Box) -> None:
    planted(either)
    more = either.folder / "more"
    more.mkdir()
    either.own()
    done = either.look(f"echo x >{more}/made", writable=(either.workspace, more))
    assert done.code != 0
    assert list(more.iterdir()) == []


def test_where_a_layer_cannot_be_mounted_the_workspace_is_read_only(box: Box) -> None:
    planted(box)
    far = Path(tempfile.mkdtemp(dir="/dev/shm"))
    os.chown(far, box.uid, box.uid)
    layer = LayerMount(box.workspace, box.outside, far)  # of two file systems
    done = box.run("cat a.txt; echo x >a.txt", look=True, layers=(layer,))
    far.rmdir()
    assert (done.out, done.layered) == ("content of a.txt\n", False)
    assert done.explained is not None
    assert (done.explained.kind, done.explained.message) == snapshot(
        (
            "write",
            "The sandbox kept the command from changing `a.txt`: unapproved commands see the workspace read-only.",
        )
    )


def test_a_failed_write_is_told_with_landlock_alone(either: Box) -> None:
    planted(either)
    done = either.look("chmod +x a.txt", layers=())
    assert done.explained is not None
    assert (done.explained.kind, done.explained.subject) == ("write", f"{either.workspace}/a.txt")


def test_a_layer_may_lie_in_the_folder_that_it_covers(box: Box) -> None:
    """As it does for a workspace that is the home, with Ferrule's own folder in it."""
    planted(box)
    upper, work = box.workspace / "own/upper", box.workspace / "own/work"
    for folder in (upper, work):
        folder.mkdir(parents=True)
    box.own()
    script = "echo x >made; cat a.txt; ls own/upper; cat own/upper/made; echo y >own/upper/z; rm -rf own"
    done = box.run(script, look=True, layers=(LayerMount(box.workspace, upper, work),))
    assert (done.out, done.layered) == ("content of a.txt\n", True)
    assert sorted(path.name for path in upper.iterdir()) == ["made"]


def test_its_own_layers_are_not_to_be_seen(box: Box) -> None:
    planted(box)
    old = box.folder / "old"
    old.mkdir()
    (old / "x").write_text("planted")
    box.own()
    done = box.look(f"echo x >made; ls {box.upper} {old} {box.folder}/work; cat {box.upper}/made {old}/x", below=(old,))
    assert done.out == ""


def test_a_layer_that_grows_too_large_ends_the_box(box: Box) -> None:
    planted(box)
    done = box.look(
        "i=0; while :; do i=$((i+1)); head -c 500000 /dev/zero >f$i; sleep 0.01; done", bounds=Bounds(layer=5 << 20)
    )
    assert done.code in (-9, 137)
    assert [(one.kind, one.message) for one in done.denials] == snapshot(
        [
            (
                "layer size",
                "The command was ended: it wrote more than 5,242,880 bytes to the workspace without approval.",
            )
        ]
    )


def test_one_file_cannot_be_larger_than_a_layer(box: Box) -> None:
    planted(box)
    box.look("head -c 20000000 /dev/zero >large", bounds=Bounds(layer=5 << 20))
    assert (box.upper / "large").stat().st_size == 5 << 20


def test_it_has_no_network(either: Box) -> None:
    needs(python := python_for_all(), "a Python that every user can run")
    code = "import socket; s = socket.socket(); s.settimeout(3); s.connect(('127.0.0.1', 22)); print('reached')"
    assert "reached" not in either.run_program([str(python), "-c", code], look=True).out


@pytest.mark.parametrize("name", ["a,b", "a:b", "a\\b", "a b", "a\nb", "é", "a'b\"c", "-x", "upperdir=x"])
def test_any_name_of_a_folder_will_do(box: Box, name: str) -> None:
    root, upper, work = (box.folder / kind / name for kind in ("roots", "uppers", "works"))
    for folder in (root, upper, work):
        folder.mkdir(parents=True)
    (root / "file").write_text("content")
    box.own()
    done = box.run(
        "cat file; echo x >made", writable=(root,), folder=root, look=True, layers=(LayerMount(root, upper, work),)
    )
    assert (done.out, done.layered) == ("content", True)
    assert [path.name for path in upper.iterdir()] == ["made"]


def test_what_others_own_can_be_changed_by_root(room: Path) -> None:
    """As root the layer is mounted without a user namespace, which has no numbers for other owners."""
    if os.geteuid() != 0:
        return
    needs(sandbox := bubblewrap(), "bubblewrap (`bwrap` on PATH)")
    assert sandbox is not None
    box = Box(room / "box", 0, sandbox)
    box.write("theirs", "x")
    os.chown(box.workspace / "theirs", 1234, 1234)
    (box.workspace / "theirs").chmod(0o666)
    assert box.look("echo more >>theirs && cat theirs").out == "xmore\n"
    assert (box.upper / "theirs").stat().st_uid == 1234


def test_other_file_systems_in_the_workspace_are_seen_and_read_only(room: Path) -> None:
    """An overlay shows one file system alone."""
    if os.geteuid() != 0:
        return
    needs(sandbox := bubblewrap(), "bubblewrap (`bwrap` on PATH)")
    assert sandbox is not None
    box = Box(room / "box", 0, sandbox)
    for name in ("odd name", "plain"):
        (box.workspace / name).mkdir()

    def work() -> str:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.unshare(0x20000) == 0  # the mount is nobody else's
        assert libc.mount(None, b"/", None, ctypes.c_ulong(1 << 14 | 1 << 18), None) == 0
        assert libc.mount(b"x", os.fsencode(box.workspace / "odd name"), b"tmpfs", ctypes.c_ulong(0), None) == 0
        (box.workspace / "odd name" / "file").write_text("content")
        for folder in (box.upper, box.folder / "work"):
            folder.mkdir()
        layers = (LayerMount(box.workspace, box.upper, box.folder / "work"),)
        profile = Profile((box.workspace,), box.workspace, look=True, layers=layers)
        script = "cat 'odd name/file'; echo x >'odd name/file'; echo y >plain/made; cat 'odd name/file'"
        done = run(sandbox, profile, ["sh", "-c", script])
        return f"{done.out} {done.layered} {(box.workspace / 'odd name/file').read_text()}"

    assert as_user(0, box.environment, work) == "contentcontent True content"
    assert [str(path.relative_to(box.upper)) for path in box.upper.rglob("*")] == ["plain", "plain/made"]


@pytest.mark.parametrize("kind", ["look", "work"])
def test_as_root_nothing_of_the_kernel_can_be_written(room: Path, kind: str) -> None:
    """A file that root owns needs no capability to be written: mounts keep it from being opened."""
    if os.geteuid() != 0:
        return
    needs(sandbox := bubblewrap(), "bubblewrap (`bwrap` on PATH)")
    assert sandbox is not None
    box = Box(room / "box", 0, sandbox)
    script = (
        "find /proc/sys /proc/irq /proc/fs /proc/bus /sys /proc/sysrq-trigger -type f -writable 2>/dev/null | head -3; "
        "for f in /proc/[a-z]*; do [ -f $f ] && [ -w $f ] && (: >>$f) 2>/dev/null && echo $f; done; "
        "grep CapEff /proc/self/status"
    )
    done = box.look(script) if kind == "look" else box.run(script)
    assert done.out.split() == ["CapEff:", "0000000000000000"]


def test_temporary_files_can_be_kept_from_command_to_command(box: Box) -> None:
    kept = box.folder / "kept"
    kept.mkdir()
    box.own()
    assert box.run("echo one >/tmp/x", temporary=kept).code == 0
    assert box.look("cat /tmp/x", temporary=kept).out == "one\n"
    assert box.run("cat /tmp/x").out == ""


def test_many_at_once(box: Box) -> None:
    planted(box)

    def work() -> list[int]:
        async def all_of_them() -> list[int]:
            profiles: list[Profile] = []
            for number in range(12):
                upper, work = box.folder / f"u{number}", box.folder / f"w{number}"
                upper.mkdir()
                work.mkdir()
                layers = (LayerMount(box.workspace, upper, work),)
                profiles.append(Profile((box.workspace,), box.workspace, look=True, layers=layers))
            script = ["sh", "-c", "echo $$ >made; sleep 0.1; cat made"]
            done = await asyncio.gather(*(run_in_box(box.sandbox, one, script) for one in profiles))
            return [one.code for one in done]

        return asyncio.run(all_of_them())

    assert as_user(box.uid, box.environment, work) == [0] * 12
