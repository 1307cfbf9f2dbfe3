"""Shells to try things in: real bash in a real folder, with and without a sandbox, and a hunt for what they leave."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from ferrule.process.profile import Profile
from ferrule.process.sandbox.choose import best_sandbox
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from ferrule.process.sandbox.no_sandbox import NoSandbox
from ferrule.process.shell.ended import Ended
from ferrule.process.shell.kept_guard import Prepare
from ferrule.process.shell.shell_session import ShellSession
from ferrule.process.spill import SpillFolder

T = TypeVar("T")
SECONDS = 90


def prepare_in(workspace: Path, kind: str) -> Prepare:
    sandboxes = {"plain": lambda: NoSandbox(off=True), "sandboxed": best_sandbox, "landlock": LandlockSandbox}
    sandbox = sandboxes[kind]()
    profile = Profile((workspace,), workspace)
    return lambda arguments: sandbox.prepare(profile, arguments)


class Room:
    """A workspace, a folder for long output, and sessions that are closed at the end."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.spills = folder / "spills"
        self.kind = kind
        self.prepare = prepare_in(self.workspace, kind)

    def session(self, *, terminal_size: tuple[int, int] | None = None, kept: int = 32_000) -> ShellSession:
        return ShellSession(self.prepare, spills=SpillFolder(self.spills), terminal_size=terminal_size, kept=kept)

    def use(self, body: Callable[[ShellSession], Awaitable[T]], *, terminal_size: tuple[int, int] | None = None) -> T:
        """Run a test's body with a session that is closed afterwards, and never for ever."""

        async def main() -> T:
            session = self.session(terminal_size=terminal_size)
            try:
                return await asyncio.wait_for(body(session), SECONDS)
            finally:
                await session.close()

        return asyncio.run(main())

    def run(self, *commands: str, timeout: float = 30.0) -> list[Ended]:
        """The results of commands that run one after the other in one session."""

        async def body(session: ShellSession) -> list[Ended]:
            return [await session.run(command, timeout=timeout) for command in commands]

        return self.use(body)

    def out(self, *commands: str, timeout: float = 30.0) -> str:
        """What the last of them wrote to standard output."""
        return self.run(*commands, timeout=timeout)[-1].stdout


def new_mark() -> str:
    """A number of seconds that nothing else on the machine sleeps for."""
    return f"9{int.from_bytes(os.urandom(5), 'big')}.5"


def alive(mark: str) -> list[str]:
    """The processes on the machine that have the mark among their arguments."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                state = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            except OSError:
                continue
            if mark in words and state != "Z":
                found.append(f"{entry.name} {words}")
    return found


def gone(mark: str, seconds: float = 20.0) -> bool:
    """Whether nothing with the mark is left, now or soon."""
    return becomes(lambda: not alive(mark), seconds)


def becomes(holds: Callable[[], object], seconds: float = 20.0) -> bool:
    """Whether it holds, now or soon."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
