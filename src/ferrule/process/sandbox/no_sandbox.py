"""No sandbox: none works here, or the person turned it off. Nothing can be tried, and what was approved runs bare."""

from __future__ import annotations

import os
import resource
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ferrule.core.phrases import joined, phrase
from ferrule.process.environment import clean_environment, found_program
from ferrule.process.sandbox.limits import control_group, limits_of, threads_of_person
from ferrule.process.sandbox.sandbox import Denial, Launch, Name, Prepared, SandboxRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.process.profile import Profile


class NoSandbox:
    """With `off`, the person chose it. Either way it has no look box: every command has to be approved beforehand."""

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
        return ("no sandbox works here: every command asks before it runs, and runs unconfined", *self._reasons)

    @property
    def confines(self) -> bool:
        return False

    @property
    def has_layers(self) -> bool:
        return False

    def prepare(self, profile: Profile, arguments: Sequence[str], *, terminal: bool = False) -> Prepared:
        """A bare start with a clean environment: hiding, guarding and the network by host cannot be had."""
        if profile.look:
            raise SandboxRefused(
                phrase("No sandbox works on this machine, so no command can be tried without approval."),
                joined(" ", [phrase("Ask the user to run `ferrule doctor` and fix this:"), *self._reasons]),
            )
        environment = clean_environment(os.environ, profile.environment)
        closing = ExitStack()
        group = closing.enter_context(control_group(profile.bounds))
        limits = limits_of(profile, processes=True, beside=threads_of_person())
        launch = Launch(
            (found_program(arguments[0], environment), *arguments[1:]),
            environment,
            os.path.realpath(profile.folder),
            limits=tuple(one for one in limits if one[0] == resource.RLIMIT_NPROC),  # a fork bomb is nobody's wish
            joins=str(group) if group is not None else "",
            takes_terminal=terminal,
        )
        return Prepared(launch, closing=closing)

    def explain_denial(self, exit_code: int, stderr_text: str, profile: Profile) -> Denial | None:
        """Nothing was kept from it."""
        return None
