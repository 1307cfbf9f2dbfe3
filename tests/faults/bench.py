"""A workspace with its data, the programs that work in it, and what must hold after whatever befell them.

Everything runs in forks of one process with all imports done (`rounds.py`), so that hundreds of kills take minutes.
"""

from __future__ import annotations

import ctypes
import io
import os
import re
import resource
import shutil
import signal
import sqlite3
import stat
import sys
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, TypeVar

import docx

from ferrule.workspace.files import history_folder
from tests.faults.programs import (
    PATIENCE,
    Body,
    Call,
    Output,
    Program,
    Report,
    Reporter,
    command_line,
    session,
    take_streams,
)
from tests.faults.tracing import Fate, Followed, NotHere, follow

Tree: TypeAlias = dict[str, tuple[str, int, bytes]]
"""What stands at each path: its kind, its mode, and its content or where it leads."""

BALLAST = "node_modules/ballast"
"""In a workspace: where neither a look at its files nor `tree` sees it."""
_UNFINISHED = re.compile(r"\.ferrule-[0-9a-f]{16}")
_SUBREAPER, _WITH_PARENT = 36, 1
_NEW_USER, _NEW_MOUNTS, _PRIVATE, _DETACH = 0x10000000, 0x00020000, 0x44000, 2
_libc = ctypes.CDLL(None, use_errno=True)

COUNTS: Counter[str] = Counter()
"""What was done to programs in this process: "kills", "full disks" and so on."""


_Test = TypeVar("_Test", bound=Callable[..., None])


def rounds(count: int) -> Callable[[_Test], _Test]:
    """How often a test is run, each time with other chances."""

    def mark(test: _Test) -> _Test:
        test.rounds = count  # type: ignore[attr-defined]
        return test

    return mark


def is_pythons_probe(path: Path) -> bool:
    """Whether it is the file that Python's `tempfile` makes and removes to find out if a folder can be written."""
    named = re.fullmatch("[a-z0-9_]{8}", path.name) is not None
    return named and path.is_file() and path.read_bytes() in (b"", b"blat")


@dataclass
class Bench:
    """One workspace and its data, in a folder of their own."""

    folder: Path
    _programs: list[Program] = field(default_factory=list[Program])
    _mounts: list[Path] = field(default_factory=list[Path])

    def __post_init__(self) -> None:
        self.workspace, self.data, self.temporary = (self.folder / one for one in ("work", "data", "temporary"))
        self._outputs = self.folder / "outputs"
        for one in (self.workspace, self.temporary, self._outputs):
            one.mkdir(parents=True)
        self.temporary.chmod(0o1777)
        self._set('[audit]\nacknowledge = "committed"\n')
        _libc.prctl(_SUBREAPER, 1, 0, 0, 0)
        fill(self.workspace)

    @property
    def history(self) -> Path:
        """Where the history of the workspace lies."""
        return self.data / "history" / history_folder(self.workspace.resolve()).name

    def keep_audit_in(self, folder: Path) -> None:
        """Have the audit log apart from all other data."""
        self._set(f'[audit]\nacknowledge = "committed"\npath = "{folder / "audit.db"}"\n')

    def _set(self, settings: str) -> None:
        (self.folder / "ferrule.toml").write_text(settings)

    # Programs

    def start(self, body: Body, **limits: int) -> Program:
        """A program of its own; `limits` are names of resources with what it may have of them."""
        (hears, tells), (waits, lets_go) = os.pipe(), os.pipe()
        output = self._outputs / str(len(self._programs))
        sys.stdout.flush()
        process = os.fork()
        if not process:
            os.close(hears)
            os.close(lets_go)
            self._run(body, Reporter(tells, waits), output, limits)
        os.close(tells)
        os.close(waits)
        self._programs.append(Program(process, hears, lets_go, output))
        return self._programs[-1]

    def ferrule(self, *arguments: str, **limits: int) -> Output:
        """`ferrule ARGUMENTS` from start to end."""
        return self.start(command_line(*arguments), **limits).done()

    def session(self, *calls: Call, allow: Sequence[str] = ()) -> list[Report]:
        """A session that makes these calls, with every question answered yes, and then ends."""
        program = self.start(session(calls, allow=allow))
        code = program.wait()
        assert code == 0, program.text()
        return program.reports()

    def follow(self, fates: Mapping[int, Fate]) -> dict[int, Followed]:
        """Let programs that are ready go on, and follow each to its end."""
        chosen = {one.process: one for one in self._programs if one.process in fates}

        def begin() -> None:
            for one in chosen.values():
                one.go()

        found, others = follow(fates, begin)
        for process, how in found.items():
            chosen[process].code = how.code
            COUNTS["kills"] += how.code == -signal.SIGKILL
        for one in self._programs:
            if one.process in others:
                one.code = others[one.process]
        return found

    def _run(self, body: Body, reporter: Reporter, output: Path, limits: Mapping[str, int]) -> NoReturn:
        code = 99
        try:
            _libc.prctl(_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
            for name in [one for one in os.environ if one.startswith("FERRULE_")]:
                del os.environ[name]
            os.environ.update(
                FERRULE_DATA=str(self.data), FERRULE_CONFIG=str(self.folder / "ferrule.toml"),
                TMPDIR=str(self.temporary),
            )  # fmt: skip
            os.chdir(self.workspace)
            take_streams(output)
            for name, value in limits.items():
                resource.setrlimit(getattr(resource, f"RLIMIT_{name.upper()}"), (value, value))
            code = body(reporter)
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    # Disks

    def disk(self, folder: Path, kibibytes: int = 16_384) -> Disk:
        """Put a folder on a disk of its own, which can be filled."""
        _own_mounts()
        kept = self.folder / f"{folder.name} before"
        folder.mkdir(exist_ok=True)
        shutil.copytree(folder, kept, symlinks=True)
        mode = stat.S_IMODE(folder.stat().st_mode)
        _checked(_libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={kibibytes}k,mode={mode:o}".encode()))
        self._mounts.append(folder)
        shutil.copytree(kept, folder, symlinks=True, dirs_exist_ok=True)
        return Disk(folder)

    def one_disk(self, kibibytes: int = 16_384) -> Disk:
        """Have the workspace, the data and the temporary files on one disk, which can be filled, by commands too."""
        whole = self.folder / "disk"
        whole.mkdir()
        (self.workspace / BALLAST).parent.mkdir()
        for name in ("workspace", "data", "temporary"):
            old, new = getattr(self, name), whole / getattr(self, name).name
            if old.exists():
                old.rename(new)
            setattr(self, name, new)
        return replace(self.disk(whole, kibibytes), ballast=self.workspace / BALLAST)

    # What there is

    def tree(self) -> Tree:
        return tree(self.workspace)

    def groups(self) -> list[dict[str, Any]]:
        """The history, newest first."""
        return self.ferrule("history", "--json", "--limit", "100000").json

    def audited(self) -> set[str]:
        """The ids of the calls on record."""
        return {row["call_id"] for row in self.ferrule("audit", "list", "--json", "--limit", "100000").json}

    def processes(self) -> dict[int, str]:
        """Every process that came from this one and still runs, with its command."""
        parents: dict[int, int] = {}
        for one in Path("/proc").iterdir():
            if one.name.isdigit():
                with suppress(OSError):
                    fields = (one / "stat").read_text(errors="replace").rpartition(")")[2].split()
                    if fields[0] not in "ZX":
                        parents[int(one.name)] = int(fields[1])
        ours, added = {os.getpid()}, True
        while added:
            added = {one for one, parent in parents.items() if parent in ours} - ours
            ours |= added
        return {one: _command(one) for one in ours - {os.getpid()}}

    # What must hold

    def reports(self) -> list[Report]:
        """What all programs that have ended were told."""
        return [report for one in self._programs for report in one.reports()]

    def settle(self, *, reap: bool = True) -> None:
        """Wait until what a killed program had started is gone: it ends with it, but not in the same moment."""
        end = time.monotonic() + PATIENCE
        while (left := self.processes()) and time.monotonic() < end:
            if reap:
                self._reap()
            time.sleep(0.005)
        assert not left, f"processes are left: {left}"
        if reap:
            self._reap()

    def start_again(self) -> None:
        """The next start: the history is looked at, and a session reads a file, runs a command, and ends."""
        self.groups()
        for one in self.session(("Read", {"file_path": "notes.txt"}), ("Bash", {"command": "true"})):
            assert one.success, one.text

    def check(self, old: Tree, new: Tree, *, torn: Iterable[str] = ()) -> None:
        """At once after a fault: each file is as it was, or as it was to be."""
        now = self.tree()
        for path in now.keys() | old.keys() | new.keys():
            if not is_unfinished(path) and path not in torn:
                assert now.get(path) in (old.get(path), new.get(path)), f"{path} is neither old nor new: {now[path]}"

    def check_record(self, reports: Iterable[Report], origin: Tree) -> None:
        """After the next start: what was told is on record, all can be undone and redone exactly, nothing is left."""
        wrong: list[str] = []
        for check in (
            lambda: self.check_history(reports, origin),
            lambda: self.check_audit(reports),
            self.check_leftovers,
        ):
            try:
                check()
            except AssertionError as error:
                wrong.append(str(error))
        assert not wrong, "; ".join(wrong)

    def check_history(self, reports: Iterable[Report], origin: Tree) -> None:
        groups = self.groups()
        for group in groups:
            assert group["state"] in ("done", "undone", "dropped"), f"change {group['number']} is {group['state']}"
            assert all(change["covered"] for change in group["changes"]), group
        listed = {call for group in groups for call in (group["call_id"], *group["may_be_of"])}
        for one in reports:
            if one.success and (one.metadata.get("change") or one.metadata.get("changed")):
                assert one.id in listed, f"not in the history: {one}"
        now = self.tree()
        back = self.ferrule("undo", "--to", "0", "--json")
        assert back.code == 0, back
        assert not (wrong := differences(self.tree(), origin)), f"after undo: {wrong}"
        done = [group["number"] for group in groups if group["state"] == "done"]
        undone = [group["number"] for group in groups if group["state"] == "undone"]
        if undone and done and min(undone) < max(done):
            return  # one was undone by itself, and would be redone with the others
        if done:
            forth = self.ferrule("redo", "--to", str(max(done)), "--json")
            assert forth.code == 0, forth
        assert not (wrong := differences(self.tree(), now)), f"after redo: {wrong}"

    def check_audit(self, reports: Iterable[Report] = ()) -> None:
        verified = self.ferrule("audit", "verify")
        assert verified.code == 0, verified
        missing = {one.id for one in reports} - self.audited()
        assert not missing, f"not in the audit: {missing}"

    def check_leftovers(self) -> None:
        self.settle()
        left = [str(one.relative_to(self.folder)) for one in self.temporary.rglob("*") if not is_pythons_probe(one)]
        left += [path for path in self.tree() if is_unfinished(path)]
        left += [str(one.relative_to(self.folder)) for one in self._unknown_data()]
        assert not left, f"left behind: {sorted(left)}"

    def _unknown_data(self) -> Iterator[Path]:
        """What lies in the data folder and is neither a database, nor a content of the history, nor any output."""
        known = {one.name for one in databases(self.data)}
        names = {"lock", "set-aside", "reserve"}
        names |= {f"{one}{end}" for one in known for end in ("", "-wal", "-shm", "-reserve")}
        contents = self.history / "contents"
        listed = self._listed("journal.db", "SELECT digest FROM contents")
        linked = listed | self._listed("tree.db", "SELECT digest FROM entries")
        for one in self.data.rglob("*"):
            inner = one.relative_to(self.data)
            if "set-aside" in inner.parts:
                continue
            if one.is_dir():
                if not any(one.iterdir()) and len(inner.parts) > 1 and contents not in (one, *one.parents):
                    yield one
            elif contents in one.parents:
                if one.parent.name + one.name not in listed:
                    yield one
            elif self.history / "linked" in one.parents:
                if one.parent.name + one.name not in linked:
                    yield one
            elif one.name not in names and inner.parts[0] != "outputs":
                yield one

    def _listed(self, file: str, query: str) -> set[str]:
        if not (self.history / file).exists():
            return set()
        with closing(sqlite3.connect(f"file:{self.history / file}?mode=ro", uri=True)) as database:
            made = database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'").fetchone()[0]
            return {row[0] for row in database.execute(query)} if made else set()

    # The end

    def close(self) -> None:
        """End every process that is left, and remove everything."""
        while left := self.processes():
            for process in left:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self._reap()
            time.sleep(0.002)
        self._reap()
        for one in self._programs:
            one.close()
        for one in reversed(self._mounts):
            _libc.umount2(os.fsencode(one), _DETACH)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                for one in self._programs:
                    if one.process == ended[0]:
                        one.code = os.waitstatus_to_exitcode(ended[1])


@dataclass
class Disk:
    folder: Path
    ballast: Path | None = None
    """The file that takes the room."""

    @property
    def free(self) -> int:
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int) -> None:
        """Leave so many bytes free."""
        with self._file.open("wb") as file:
            while True:
                with suppress(OSError):  # a program that runs was quicker
                    os.posix_fallocate(file.fileno(), 0, max(self.free - leave, 1))
                    break
        COUNTS["full disks"] += 1

    def empty(self) -> None:
        self._file.unlink(missing_ok=True)

    @property
    def _file(self) -> Path:
        return self.ballast or self.folder / ".ballast"


# Files


def fill(folder: Path) -> None:
    """The files of a small project: of many sizes and modes, some in other encodings."""
    files = {
        "notes.txt": b"one\ntwo\nthree\n" * 20, "windows.txt": b"one\r\ntwo\r\n" * 20,
        "latin.txt": "é\ntwo\n".encode("latin-1"),
        "large.txt": b"a line with the word two in it\n" * 12_000, "src/deep/main.py": b"print('two')\n",
        "page.html": b"<h1>Two</h1><p>one two three</p>", "letter.docx": _letter(),
        **{f"many/{n}.txt": f"{n}: one two three\n".encode() * (1 + n * 40) for n in range(8)},
    }  # fmt: skip
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "run.sh").write_bytes(b"#!/bin/sh\necho two\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "private.txt").write_bytes(b"two\n")
    (folder / "private.txt").chmod(0o600)
    (folder / "link").symlink_to("notes.txt")
    (folder / "empty").mkdir()


@cache
def _letter() -> bytes:
    made = io.BytesIO()
    document = docx.Document()
    document.add_paragraph("one two three")
    document.save(made)
    return made.getvalue()


def is_unfinished(path: str) -> bool:
    """Whether a file was being written when its program ended."""
    return _UNFINISHED.fullmatch(Path(path).name) is not None


def tree(folder: Path) -> Tree:
    found: Tree = {}
    for one in sorted(folder.rglob("*")):
        path = str(one.relative_to(folder))
        if path.startswith((".git/", ".ballast", "node_modules/")) or path == ".git":
            continue
        with suppress(FileNotFoundError):
            mode = stat.S_IMODE(one.lstat().st_mode)
            if one.is_symlink():
                found[path] = ("link", 0, os.fsencode(one.readlink()))
            elif one.is_dir():
                found[path] = ("folder", mode, b"")
            else:
                found[path] = ("file", mode, _content(one))
    return found


def _content(path: Path) -> bytes:
    """Of a document that tools made, all but when they made it; one that is torn is no document."""
    data = path.read_bytes()
    if not path.match("made*.docx") or not zipfile.is_zipfile(io.BytesIO(data)):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as members:
        names = [name for name in members.namelist() if name != "docProps/core.xml"]
        return b"\0".join(name.encode() + members.read(name) for name in names)


def differences(now: Tree, expected: Tree) -> dict[str, str]:
    """What is not as expected, in short."""
    return {
        path: f"{_short(now.get(path))}, not {_short(expected.get(path))}"
        for path in sorted(now.keys() | expected.keys())
        if now.get(path) != expected.get(path)
    }


def _short(entry: tuple[str, int, bytes] | None) -> str:
    return "nothing" if entry is None else f"{entry[0]} {entry[1]:o} {len(entry[2])} {entry[2][:40]!r}"


def databases(folder: Path) -> list[Path]:
    """Every database that is kept below a folder."""
    return sorted(one for one in folder.rglob("*.db") if "set-aside" not in one.parts)


# The process itself


@cache
def _own_mounts() -> None:
    """Be where this process may mount what it wants, and nobody else sees it; once is enough."""
    user, group = os.geteuid(), os.getegid()
    try:
        _checked(_libc.unshare(_NEW_USER | _NEW_MOUNTS))
    except OSError as error:
        raise NotHere(f"disks of its own (unshare -rm): {error.strerror}") from None
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    _checked(_libc.mount(b"none", b"/", None, _PRIVATE, None))


def _checked(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _command(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "?"
