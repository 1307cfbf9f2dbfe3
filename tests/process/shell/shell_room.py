"""Shells to try things in: real bash in real boxes in a real folder, and a hunt for what they leave."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from ferrule.process.output import SpillFolder
from ferrule.process.profile import Profile
from ferrule.process.sandbox.choose import best_sandbox
from ferrule.process.sandbox.landlock_sandbox import LandlockSandbox
from ferrule.process.sandbox.sandbox import NoSandbox
from ferrule.process.shell.background import BackgroundCommand
from ferrule.process.shell.running import Opener, boxes
from ferrule.process.shell.session import Ended, ShellSession

T = TypeVar("T")
SECONDS = 90


def opener_in(workspace: Path, kind: str, **changes: Any) -> Opener:
    """Opens work boxes over a workspace: without a sandbox, in the best one, or with Landlock alone."""
    sandboxes = {"plain": lambda: NoSandbox(off=True), "sandboxed": best_sandbox, "landlock": LandlockSandbox}
    sandbox = sandboxes[kind]()
    profile = Profile((workspace,), workspace, **changes)
    return boxes(sandbox, profile)


class Kept:
    """A session that keeps every state, as one does whose commands are all approved."""

    def __init__(self, session: ShellSession, opener: Opener) -> None:
        self.session = session
        self.opener = opener
        self.background = session.background

    async def run(self, command: str, **how: Any) -> Ended:
        return self._kept(await self.session.run(command, self.opener, **how))

    async def answer(self, text: str, **how: Any) -> Ended:
        return self._kept(await self.session.answer(text, **how))

    async def start(self, command: str) -> BackgroundCommand:
        return await self.background.start(command, self.opener)

    def _kept(self, ended: Ended) -> Ended:
        self.session.keep(ended, tainted=False)
        return ended


class Room:
    """A workspace, a folder for long output, and sessions that are closed at the end."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.spills = folder / "spills"
        self.kind = kind
        self.opener = opener_in(self.workspace, kind)

    def session(self, *, kept: int = 32_000, terminal_size: tuple[int, int] = (90, 20)) -> Kept:
        made = ShellSession(
            folder=str(self.workspace), spills=SpillFolder(self.spills), kept=kept, terminal_size=terminal_size
        )
        return Kept(made, self.opener)

    def use(self, body: Callable[[Kept], Awaitable[T]]) -> T:
        """Run a test's body with a session that is closed afterwards, and never for ever."""

        async def main() -> T:
            kept = self.session()
            try:
                return await asyncio.wait_for(body(kept), SECONDS)
            finally:
                await kept.session.close()

        return asyncio.run(main())

    def run(self, *commands: str, timeout: float = 30.0) -> list[Ended]:
        """The results of commands that run one after the other in one session."""

        async def body(session: Kept) -> list[Ended]:
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
