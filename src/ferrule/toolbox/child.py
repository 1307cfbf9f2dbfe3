"""Runs what reads foreign data in a process of its own, which the kernel keeps small: memory, time, files, network.

Parsers of documents abort, hang and fill the memory on files that somebody made for that, or that are merely broken. So
no such file is opened in Ferrule's own process. A function that runs here is named as text (`package.module:function`),
takes one JSON object and the descriptors of the files that it may read, and gives JSON and perhaps bytes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from ferrule import ErrorKind, ToolError
from ferrule.extension import advice, data_folder, phrase, take_stdout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from io import BufferedReader

    from ferrule.extension import Cancellation

MEMORY = 1 << 30
"""Bytes that a child may hold, unless told otherwise."""
CRASHED = frozenset({"crash", "memory"})
"""How an error says in its details, as `ended`, that the child broke; the other way is `time`."""
_MOST_ANSWERED = 256 << 20
_MOST_COMPLAINTS = 1 << 14
_DIES_WITH_PARENT = 1
_OUT_OF_MEMORY = 3
_SECONDS_TO_EXIT = 0.5
_READABLE = ("/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ssl", "/etc/localtime", "/etc/fonts",
             "/etc/mime.types", "/etc/apache2/mime.types", "/etc/httpd/conf/mime.types", "/dev/null",
             "/dev/urandom", "/dev/zero", "/proc/self", "/proc/meminfo", "/proc/cpuinfo",
             "/sys/fs/cgroup", "/sys/devices/system/cpu")  # fmt: skip
_FOR_NAMES = (
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/services",
    "/etc/gai.conf",
    "/run/systemd/resolve",
)
_START = "import sys; sys.path[:] = {path!r}; from ferrule.toolbox.child import main; main()"
logger = logging.getLogger("ferrule.toolbox")


@dataclass(slots=True, frozen=True)
class ChildBounds:
    """What a child may use. `folders` are what it may read besides its own libraries, `writable` what it may change."""

    seconds: float = 60.0
    memory: int = MEMORY
    network: bool = False
    folders: Sequence[str] = ()
    writable: Sequence[str] = ()
    stop_seconds: float = 0.0
    """How long it has to stop by itself when it is told to with SIGTERM, before it is killed: as one that has to stop
    a server too."""


@dataclass(slots=True, frozen=True)
class ChildAnswer:
    """What a function in a child gave: JSON, and bytes where it made a file."""

    value: Any
    data: bytes = b""


def in_child(
    function: str,
    order: Mapping[str, Any],
    *,
    what: str,
    files: Mapping[str, int] | None = None,
    data: bytes = b"",
    bounds: ChildBounds | None = None,
    cancellation: Cancellation | None = None,
) -> ChildAnswer:
    """What the function gives for an order; blocks, so call it where a tool may.

    `files` are open descriptors by name, which the function gets as open binary files; `data` it gets as bytes under
    that name where there are any. `what` names in errors what was worked on: "`report.pdf`". Raises `ToolError`: the
    function's own, or one that says how the child ended.
    """
    bounds = bounds or ChildBounds()
    given = dict(files or {})
    # The folder that the program was started in is the user's and not a library's, though Python looks there too.
    not_libraries = ("", os.getcwd())  # noqa: PTH109 - plain text
    path = [str(Path(__file__).resolve().parents[2]), *(one for one in sys.path if one not in not_libraries)]
    head: dict[str, Any] = {
        "function": function,
        "order": dict(order),
        "files": given,
        "data": len(data),
        "memory": bounds.memory,
        "seconds": bounds.seconds,
        "network": bounds.network,
        "folders": [str(one) for one in bounds.folders],
        "writable": [str(one) for one in bounds.writable],
        "libraries": path,
    }
    from ferrule.extension import OwnedFolder

    try:  # among the temporary folders of commands, so that what a kill leaves is removed with theirs
        owned = OwnedFolder(data_folder() / "temporary")
    except OSError:  # where nothing can be kept, documents can be read all the same
        owned = OwnedFolder(prefix="ferrule-child-")
    with owned:
        scratch = str(owned.path)
        head["writable"].append(scratch)
        process = subprocess.Popen(  # noqa: S603 - our own Python
            [sys.executable, "-P", "-s", "-X", "utf8", "-c", _START.format(path=path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=scratch,
            env=_environment(scratch),
            pass_fds=tuple(given.values()),
            process_group=0,
        )
        with contextlib.ExitStack() as around:
            around.callback(_end, process)
            if cancellation is not None:
                around.enter_context(cancellation.telling(lambda: _stop(process, bounds.stop_seconds)))
            heard = _ChildExchange(process, json.dumps(head).encode() + b"\n", data)
            late = not heard.ended_within(bounds.seconds)
            if late and bounds.stop_seconds:
                _stop(process, bounds.stop_seconds)
                heard.ended_within(bounds.stop_seconds)
            code = _end(process)
    if cancellation is not None:
        cancellation.raise_if_requested()
    if late:
        raise ToolError(
            phrase("{what} took longer than {seconds} s, and was given up.", what=what, seconds=f"{bounds.seconds:g}"),
            kind=ErrorKind.TIMEOUT,
            suggestion=phrase("Ask for a smaller part of it."),
            details={"ended": "time"},
        )
    return _understood(heard, code, what, bounds)


class _ChildExchange:
    """Gives a process its order while its answer and its complaints are taken in, both up to a bound."""

    def __init__(self, process: subprocess.Popen[bytes], order: bytes, data: bytes) -> None:
        self.answer = bytearray()
        self.complaints = bytearray()
        pipes = cast("tuple[BinaryIO, BinaryIO, BinaryIO]", (process.stdin, process.stdout, process.stderr))
        self._threads = [
            threading.Thread(target=self._give, args=(pipes[0], order, data), daemon=True),
            threading.Thread(target=self._take, args=(pipes[1], self.answer, _MOST_ANSWERED), daemon=True),
            threading.Thread(target=self._take, args=(pipes[2], self.complaints, _MOST_COMPLAINTS), daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def ended_within(self, seconds: float) -> bool:
        """Whether the process closed its answer in time."""
        self._threads[1].join(seconds)
        return not self._threads[1].is_alive()

    @staticmethod
    def _give(pipe: BinaryIO, order: bytes, data: bytes) -> None:
        with contextlib.suppress(OSError), pipe:  # it ended before it had read all: how it ended says why
            pipe.write(order)
            pipe.write(data)

    @staticmethod
    def _take(pipe: BinaryIO, into: bytearray, most: int) -> None:
        with pipe:
            while piece := cast("BufferedReader", pipe).read1(1 << 16):
                into += piece[: max(0, most + 1 - len(into))]


def _stop(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Have it stop: by itself within some seconds, or else killed."""
    if not seconds:
        return _kill(process)
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    killing = threading.Timer(seconds, _kill, (process,))
    killing.daemon = True
    killing.start()
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """It and whatever it started. Its number is its own until it was waited for."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes]) -> int:
    """How it ended, once it has closed its answer or is out of time; nothing of it goes on afterwards."""
    if process.returncode is not None:
        return process.returncode
    ended = None
    end = monotonic() + _SECONDS_TO_EXIT
    while hasattr(os, "waitid") and ended is None and monotonic() < end:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            sleep(0.001)
    _kill(process)
    return process.wait()


def _environment(scratch: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LANG", "LC_ALL", "TZ", "SSL_CERT_FILE") if name in os.environ}
    # One thread: where a library loads numpy, its linear algebra would take memory for each processor.
    return {**kept, "HOME": scratch, "TMPDIR": scratch, "PATH": "/usr/bin:/bin", "OPENBLAS_NUM_THREADS": "1"}


def _understood(heard: _ChildExchange, code: int, what: str, bounds: ChildBounds) -> ChildAnswer:
    head, _, rest = bytes(heard.answer).partition(b"\n")
    try:
        answer: Any = json.loads(head)
    except ValueError:
        answer = None
    if len(heard.answer) > _MOST_ANSWERED:
        raise ToolError(phrase("{what} gave more than can be taken in at once.", what=what),
                        suggestion=phrase("Ask for a smaller part of it."))  # fmt: skip
    if code == 0 and isinstance(answer, dict):
        return ChildAnswer(answer.get("value"), rest)  # type: ignore[reportUnknownArgumentType]
    if isinstance(answer, dict) and (error := cast("dict[str, Any]", answer).get("error")):
        raise ToolError(**error)
    if code in (_OUT_OF_MEMORY, -signal.SIGKILL) or b"MemoryError" in heard.complaints:
        raise ToolError(
            phrase("{what} needs more than {most} MB of memory to be read, and was given up.",
                   what=what, most=f"{bounds.memory >> 20:,}"),
            suggestion=phrase("Ask for a smaller part of it, or split the file."),
            details={"ended": "memory"},
        )  # fmt: skip
    logger.info("A child ended with %d: %s", code, heard.complaints.decode("utf-8", "replace"))
    raise ToolError(
        phrase("{what} cannot be read: it is damaged, or was made to do harm.", what=what),
        suggestion=advice("Ask the user for another copy of the file.", "Get another copy of the file."),
        details={"ended": "crash"},
    )


# The child's side.


def main() -> None:
    """Take one order from standard input, carry it out, and write the answer to standard output."""
    ctypes.CDLL(None, use_errno=True).prctl(_DIES_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    given = sys.stdin.buffer
    head: dict[str, Any] = json.loads(given.readline())
    answer = os.fdopen(take_stdout(), "wb")
    _bind(head)
    try:
        files: dict[str, Any] = {name: os.fdopen(number, "rb") for name, number in head["files"].items()}
        if head["data"]:
            files["data"] = given.read(head["data"])
        module, _, name = head["function"].partition(":")
        work: Callable[..., Any] = getattr(import_module(module), name)
        value = work(head["order"], **files)
        made = value if isinstance(value, ChildAnswer) else ChildAnswer(value)
        answer.write(json.dumps({"value": made.value}).encode() + b"\n" + made.data)
        answer.flush()
    except ToolError as error:
        told = {"message": error.message, "kind": error.kind, "suggestion": error.suggestion, "details": error.details}
        answer.write(json.dumps({"error": told}).encode() + b"\n")
        answer.flush()
        os._exit(1)
    except MemoryError:
        os._exit(_OUT_OF_MEMORY)
    os._exit(0)  # destructors of foreign libraries have nothing to say any more


def _bind(head: Mapping[str, Any]) -> None:
    """Give up for good what the work does not need."""
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_DATA: head["memory"],
        resource.RLIMIT_CPU: int(head["seconds"]) + 5,
    }
    for which, most in limits.items():
        _, hard = resource.getrlimit(which)
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS does not know all of them
            resource.setrlimit(which, (most, most))
    if not sys.platform.startswith("linux"):
        return
    from ferrule.extension import confine_process

    readable = (
        sys.prefix,
        sys.base_prefix,
        *head["libraries"],
        *_READABLE,
        *(_FOR_NAMES if head["network"] else ()),
        *(f"/proc/self/fd/{number}" for number in head["files"].values()),  # a library may open it again by this name
        *head["folders"],
    )
    confine_process(readable, head["writable"], network=head["network"])
