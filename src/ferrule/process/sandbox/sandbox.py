"""What every sandbox offers: it prepares a confined start of a command, and explains what it kept the command from."""

from __future__ import annotations

import fcntl
import os
import resource
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from ferrule.core.phrases import advice, joined, phrase
from ferrule.process.arguments import CommandLine, checked_environment
from ferrule.process.profile import clean_environment, found_program
from ferrule.process.sandbox.denials import HOSTS_SETTING, Denial, SandboxRefused
from ferrule.process.sandbox.limits import control_group, limits_of, threads_of_person

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from ferrule.process.profile import LayerMount, Profile
    from ferrule.process.sandbox.guarded import Sweep
    from ferrule.process.sandbox.outside import Outside
    from ferrule.process.sandbox.proxy import Proxy


Name = Literal["bubblewrap", "landlock", "seatbelt", "none"]

RESERVED = 32
"""Descriptors of a launch have numbers from this on, so that those below can be given to the command: bash cannot wait
on one above 1,023, and a server may have thousands open."""


def out_of_the_way(descriptor: int) -> int:
    """The same descriptor under a number that no command asks for."""
    if descriptor >= RESERVED:
        return descriptor
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, RESERVED)
    os.close(descriptor)
    return moved


@dataclass(slots=True, frozen=True)
class Launch:
    """Arguments, environment, folder and descriptors, ready for exec. Nothing of the parent's environment is added."""

    arguments: CommandLine
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: str = "/"
    descriptors: tuple[int, ...] = ()
    """Open descriptors the program inherits besides the first three, under their own numbers, from `RESERVED` on."""
    contains_all: bool = False
    """Whether ending the program surely ends whatever it started (it is the first of a process namespace)."""
    limits: tuple[tuple[int, int], ...] = ()
    """Of the `resource` module: which, and how much."""
    joins: tuple[str, ...] = ()
    """The files that a process writes to, to join its control groups."""
    covered: tuple[str, ...] = ()
    """Folders and files that are hidden from all, covered in a view of the file system that many boxes start from."""
    overlays: tuple[LayerMount, ...] = ()
    mounts: tuple[str, ...] = ()
    """Other file systems that are mounted below the roots of the overlays, and have to be seen in them."""
    user_namespace: bool = False
    """Whether an ordinary user's program starts in a user namespace of its own, where its processes are counted."""
    takes_terminal: bool = False
    """Whether its standard input becomes its controlling terminal."""
    rules: int = -1
    """Of `descriptors`, the one with Landlock rules that bind the program."""
    filter: bytes = b""
    """The filter of system calls that goes with the rules."""
    info: int = -1
    """Of `descriptors`, the file in which bubblewrap names the first process of its namespace."""

    def __post_init__(self) -> None:
        checked_environment(self.environment)


class Prepared:
    """A confined start of a command. `launch` is good for one start, until this is closed.

    Guarded places that do not exist yet cannot be locked beforehand, only watched. So call `after_command` when
    everything that was started has ended, before its result is handed on: what it made in guarded places is moved out
    of the way, and comes back as denials.
    """

    def __init__(
        self,
        launch: Launch,
        *,
        sweep: Sweep | None = None,
        proxy: Proxy | None = None,
        met: Callable[[], tuple[Denial, ...]] = tuple,
        outside: Outside | None = None,
        closing: ExitStack | None = None,
        starting: ExitStack | None = None,
        forwarder: bytes | None = None,
    ) -> None:
        self.launch = launch
        self.forwarder = forwarder
        """What the command line of the sandbox's own process inside has in it, where there is one."""
        self._sweep = sweep
        self._proxy = proxy
        self._met = met
        self._outside = outside
        self._closing = closing or ExitStack()
        self._starting = starting or ExitStack()

    def __enter__(self) -> Prepared:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def guards(self) -> bool:
        """Whether there is anything for `after_command` to look at."""
        return self._sweep is not None and self._sweep.watches

    def after_command(self) -> tuple[Denial, ...]:
        """Undo what happened to guarded places since it was prepared; tell of it, of hosts that were refused, and of
        limits that were met, and of what was written outside the workspace.
        """
        denials = self._sweep.end() if self._sweep is not None else ()
        hosts = self._proxy.take_denied() if self._proxy is not None else ()
        refused = (
            Denial(
                "network",
                host,
                f"The sandbox kept the command from reaching `{host}`, which is not an allowed host.",
                f"Do without it, or ask the user to allow `{host}` in {HOSTS_SETTING}.",
            )
            for host in hosts
        )
        left = self._outside.left() if self._outside is not None else None
        return (*denials, *refused, *self._met(), *((left,) if left is not None else ()))

    @property
    def private(self) -> str:
        """The folder with what the command writes outside the workspace; empty without one."""
        return self._outside.path if self._outside is not None else ""

    def release(self) -> None:
        """Let go of what the start alone needed."""
        self._starting.close()

    def close(self) -> None:
        """Let go of all that the launch needed; the program may go on, but its network ends."""
        self._starting.close()
        self._closing.close()


class Sandbox(Protocol):
    """One way to confine a command."""

    @property
    def name(self) -> Name:
        """Which way this is."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What it does not stop here, for `ferrule doctor`."""
        ...

    @property
    def confines(self) -> bool:
        """Whether it has a look box: an unapproved command can be tried in it, and changes nothing."""
        ...

    @property
    def has_layers(self) -> bool:
        """Whether a look box can have layers above the workspace; without them it has the workspace read-only."""
        ...

    def prepare(self, profile: Profile, arguments: Sequence[str], *, terminal: bool = False) -> Prepared:
        """Make ready to start `arguments` under `profile`, or raise `SandboxRefused`. With a `terminal`, the program's
        standard input is one, and becomes its controlling terminal.

        Only variables that are known to be harmless come from Ferrule's own environment; those of the profile are
        given on purpose and are passed on as they are.
        """
        ...

    def explain_denial(self, exit_code: int, stderr_text: str, profile: Profile) -> Denial | None:
        """What the sandbox kept a failed command from, as far as its complaints tell."""
        ...


# No sandbox: none works here, or the person turned it off. Nothing can be tried, and what was approved runs bare.


class NoSandbox:
    """With `off`, the person chose it. Either way it has no look box: every command has to be approved beforehand."""

    name: Name = "none"
    confines = has_layers = False

    def __init__(self, *, off: bool = False, reasons: tuple[str, ...] = ()) -> None:
        self.off = off
        self._reasons = reasons

    @property
    def notes(self) -> tuple[str, ...]:
        if self.off:
            return ("the sandbox is turned off: commands may do whatever the user may",)
        return ("no sandbox works here: every command asks before it runs, and runs unconfined", *self._reasons)

    def prepare(self, profile: Profile, arguments: Sequence[str], *, terminal: bool = False) -> Prepared:
        """A bare start with a clean environment: hiding, guarding and the network by host cannot be had."""
        if profile.look:
            raise SandboxRefused(
                phrase("No sandbox works on this machine, so no command can be tried without approval."),
                joined(
                    " ",
                    [
                        advice(
                            "Ask the user to run `ferrule doctor` and fix this:", "Run `ferrule doctor` and fix this:"
                        ),
                        *self._reasons,
                    ],
                ),
            )
        environment = clean_environment(os.environ, profile.environment)
        closing = ExitStack()
        group = closing.enter_context(control_group(profile.bounds))
        limits = limits_of(profile, processes=True, beside=threads_of_person(), group=group)
        launch = Launch(
            CommandLine((found_program(arguments[0], environment), *arguments[1:])),
            environment,
            os.path.realpath(profile.folder),
            limits=tuple(one for one in limits if one[0] == resource.RLIMIT_NPROC),  # a fork bomb is never wanted
            joins=group.joins,
            takes_terminal=terminal,
        )
        return Prepared(launch, met=lambda: group.denials(profile), closing=closing)

    def explain_denial(self, exit_code: int, stderr_text: str, profile: Profile) -> Denial | None:
        """Nothing was kept from it."""
        return None
