"""Programs that something befalls: forks that run `ferrule`, or a session whose calls are told of one by one."""

from __future__ import annotations

import asyncio
import io
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ferrule.app.build import App
from ferrule.app.settings import load_settings
from ferrule.cli.ask import say_yes
from ferrule.cli.main import main
from ferrule.cli.past import history_of
from ferrule.core.call import RawCall
from ferrule.workspace.problems import PathError

Call: TypeAlias = tuple[str, dict[str, Any]]
"""A tool and its arguments; `undo` takes back what the program's last call changed."""
Body: TypeAlias = Callable[["Reporter"], int]
"""What a program does; gives its exit code."""

PATIENCE = 60
"""Seconds for what takes a moment, also on a machine with too much to do."""


@dataclass
class Report:
    """What came of one call, as the program that made it was told."""

    id: str
    success: bool
    text: str
    metadata: dict[str, Any]


@dataclass
class Output:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert not self.says_traceback, self.err
        return json.loads(self.out)

    @property
    def says_traceback(self) -> bool:
        return "Traceback" in self.out + self.err


class Reporter:
    """In a program: says that it is ready and waits until it may go on, and tells what came of each call."""

    def __init__(self, told: int, may_go: int) -> None:
        self._told, self._may_go = told, may_go

    def ready(self) -> None:
        os.write(self._told, b'"ready"\n')
        os.read(self._may_go, 1)

    def order(self) -> Call | None:
        """The next call to make, for a program that is given them one by one; None at the end."""
        line = b""
        while not line.endswith(b"\n"):
            piece = os.read(self._may_go, 1)
            if not piece:
                return None
            line += piece
        return json.loads(line)

    def tell(self, report: Report) -> None:
        os.write(self._told, json.dumps(vars(report), default=str).encode() + b"\n")


class Program:
    """A child of this process."""

    def __init__(self, process: int, told: int, go: int, output: Path) -> None:
        self.process, self.output = process, output
        self.code: int | None = None
        self._told, self._go, self._heard = told, go, b""

    def until_ready(self) -> Program:
        self._next_line()
        return self

    def go(self) -> None:
        with suppress(BrokenPipeError):
            os.write(self._go, b".")

    def call(self, call: Call) -> Report:
        """Have a program that takes orders make one call."""
        os.write(self._go, json.dumps(call).encode() + b"\n")
        return Report(**json.loads(self._next_line()))

    def wait(self) -> int:
        end = time.monotonic() + 5 * PATIENCE
        while self.code is None:
            gone, status = os.waitpid(self.process, os.WNOHANG)
            if gone:
                self.code = os.waitstatus_to_exitcode(status)
            else:
                assert time.monotonic() < end, f"a program did not end: {self.text()}"
                time.sleep(0.002)
        return self.code

    def end_orders(self) -> int:
        os.close(self._go)
        self._go = -1
        return self.wait()

    def kill(self) -> None:
        if self.code is None:
            os.kill(self.process, signal.SIGKILL)

    def pause(self, seconds: float) -> None:
        """Let it work for a while, or until it ends."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.001)

    def reports(self) -> list[Report]:
        """What it told before it ended."""
        while piece := os.read(self._told, 1 << 16):
            self._heard += piece
        lines = [json.loads(line) for line in self._heard.splitlines(keepends=True) if line.endswith(b"\n")]
        return [Report(**line) for line in lines if line != "ready"]

    def text(self) -> str:
        return "".join(self.output.with_suffix(one).read_text(errors="replace") for one in (".out", ".err"))

    def done(self) -> Output:
        code = self.wait()
        out, err = (self.output.with_suffix(one).read_text(errors="replace") for one in (".out", ".err"))
        return Output(code, out, err)

    def close(self) -> None:
        os.close(self._told)
        if self._go >= 0:
            os.close(self._go)

    def _next_line(self) -> bytes:
        end = time.monotonic() + PATIENCE
        while b"\n" not in self._heard:
            left = end - time.monotonic()
            assert left > 0, f"no answer from a program: {self.text()}"
            if select.select([self._told], [], [], left)[0]:
                piece = os.read(self._told, 1 << 16)
                assert piece, f"a program ended: {self.text()}"
                self._heard += piece
        line, _, self._heard = self._heard.partition(b"\n")
        return line


# What programs do


def command_line(*arguments: str) -> Body:
    def body(_reporter: Reporter) -> int:
        sys.argv = ["ferrule", *arguments]
        try:
            main()
        except SystemExit as ended:
            return ended.code if isinstance(ended.code, int) else bool(ended.code)
        return 0

    return body


def ready_then(body: Body) -> Body:
    """A program that is ready, and does its work once it may."""

    def whole(reporter: Reporter) -> int:
        reporter.ready()
        return body(reporter)

    return whole


def session(
    calls: Sequence[Call], *, first: Sequence[Call] = (), allow: Sequence[str] = (), wait: bool = False
) -> Body:
    """A session that makes calls, one after the other; with `wait` it is ready after the `first` ones."""

    async def work(reporter: Reporter) -> None:
        async with _app(allow) as app:
            for call in first:
                await _make(app, call)
            if wait:
                reporter.ready()
            for call in calls:
                reporter.tell(await _make(app, call))

    def body(reporter: Reporter) -> int:
        asyncio.run(work(reporter))
        return 0

    return body


def ordered_session(allow: Sequence[str] = ()) -> Body:
    """A session that is given its calls one by one."""

    async def work(reporter: Reporter) -> None:
        async with _app(allow) as app:
            while (call := await asyncio.to_thread(reporter.order)) is not None:
                reporter.tell(await _make(app, call))

    def body(reporter: Reporter) -> int:
        asyncio.run(work(reporter))
        return 0

    return body


def _app(allow: Sequence[str]) -> App:
    workspace = Path.cwd()
    return App(load_settings(workspace, {"permissions": {"allow": list(allow)}}).settings, workspace, ask=say_yes)


async def _make(app: App, call: Call) -> Report:
    if call[0] == "undo":
        return await asyncio.to_thread(_undo_last)
    result = await app.runtime.run(RawCall(call[0], call[1]))
    if call[0] != "Read":
        _made.append(result.call_id)
    return Report(result.call_id, result.success, result.llm_content[:2000], dict(result.metadata))


_made: list[str] = []
"""The calls of this program that were made and not undone."""


def _undo_last() -> Report:
    """Undo what the last call of this program changed, as `ferrule undo --call` does."""
    try:
        report = history_of(Path.cwd()).undo(call=_made.pop())
    except PathError as problem:
        return Report("", False, str(problem), {})
    return Report("", report.refused is None and bool(report.groups), str(report), {})


def take_streams(output: Path) -> None:
    """Have nothing to read, and write to files."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    for number, end in ((1, ".out"), (2, ".err")):
        opened = os.open(output.with_suffix(end), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    os.close(nothing)
    sys.stdin = io.TextIOWrapper(open(0, "rb", closefd=False), encoding="utf-8")  # noqa: SIM115
    sys.stdout = io.TextIOWrapper(open(1, "wb", closefd=False), encoding="utf-8")  # noqa: SIM115
    sys.stderr = io.TextIOWrapper(open(2, "wb", closefd=False), encoding="utf-8", line_buffering=True)  # noqa: SIM115
