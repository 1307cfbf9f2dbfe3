"""No sandbox: either none works here, and then only what needs none may run, or the person turned it off."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ferrule.core.phrases import joined, phrase
from ferrule.process.environment import clean_environment, found_program
from ferrule.process.launch import Launch
from ferrule.process.sandbox.sandbox import Denial, Name, Prepared, SandboxRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.process.profile import Profile


class NoSandbox:
    """With `off`, the person chose it and everything runs. Without, only what its profile lets change nothing."""

    def __init__(self, *, off: bool = False, reasons: tuple[str, ...] = ()) -> None:
        self.off = off
        self._reasons = reasons

    @property
    def name(self) -> Name:
        return "none"

    @property
    def notes(self) -> tuple[str, ...]:
        if self.off:
            return ("the sandbox is turned off: commands may do whatever the person may",)
        return ("no sandbox works here: only commands that are known to change nothing run", *self._reasons)

    @property
    def confines(self) -> bool:
        return False

    @property
    def has_layers(self) -> bool:
        return False

    def prepare(self, profile: Profile, arguments: Sequence[str], *, terminal: bool = False) -> Prepared:
        """A bare start with a clean environment. A profile in which nothing is writable stands for a command that
        was proven to only read; hiding and the network cannot be had.
        """
        if not self.off and (profile.writable or profile.hosts is not None):
            raise SandboxRefused(
                phrase("No sandbox works on this machine, so only commands that are known to change nothing may run."),
                joined(" ", [phrase("Ask the person to run `ferrule doctor` and mend this:"), *self._reasons]),
            )
        environment = clean_environment(os.environ, profile.environment)
        program = found_program(arguments[0], environment)
        return Prepared(
            Launch((program, *arguments[1:]), environment, os.path.realpath(profile.folder), takes_terminal=terminal)
        )

    def explain_denial(self, exit_code: int, stderr_text: str, profile: Profile) -> Denial | None:
        """Nothing was kept from it."""
        return None
