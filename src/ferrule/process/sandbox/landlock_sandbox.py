"""The second choice, where bubblewrap does not work: Landlock for files, a filter of system calls for the rest.

Landlock allows by folder and takes nothing back below one. So guarded places cannot be locked, only watched and put
back; what must be hidden inside a writable folder, and the network by host, cannot be had at all and are refused.
Sockets are taken away whole: Landlock does not see UDP, multipath TCP, fast open, or sockets that are files.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import advice, phrase
from ferrule.process.arguments import CommandLine
from ferrule.process.landlock import kernel_version, open_rules
from ferrule.process.profile import clean_environment, found_program
from ferrule.process.sandbox.bubblewrap import guarded_roots, watch, writable_roots
from ferrule.process.sandbox.denials import SandboxRefused, explain
from ferrule.process.sandbox.guarded import Sweep
from ferrule.process.sandbox.hiding import names_of_hidden
from ferrule.process.sandbox.limits import control_group, limits_of, threads_of_person
from ferrule.process.sandbox.outside import Outside
from ferrule.process.sandbox.places import Places, all_but, git_settings, is_within, system_places
from ferrule.process.sandbox.sandbox import Launch, Name, Prepared, out_of_the_way
from ferrule.process.sandbox.seccomp import build_filter, this_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.process.profile import Profile

# No `/dev/pts`: the user's own terminals are there, and who may open one reads what is typed.
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
# Of `/proc` only what tells of the machine. A process cannot be shown its own part of it without those of all others.
_OF_PROC = (
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/loadavg", "/proc/version",
    "/proc/filesystems", "/proc/sys/kernel", "/proc/sys/vm", "/proc/sys/fs", "/proc/vmstat",
)  # fmt: skip
_CAN_STOP_CUTTING = 3  # the version of Landlock from which files that may only be read cannot be truncated either


class LandlockSandbox:
    """Has the launcher confine each command before it begins."""

    name: Name = "landlock"
    has_layers = False
    explain_denial = staticmethod(partial(explain, own=("/dev", "/proc")))

    @property
    def notes(self) -> tuple[str, ...]:
        weaker = [
            "guarded files are put back after a command instead of being locked",
            "commands see nothing of `/proc` but facts about the machine",
            "commands have no network, no sockets and no pseudo-terminals at all",
            "unapproved commands see the workspace read-only, and may change no modes or times anywhere",
            "nothing in the workspace can be hidden from approved commands: they are refused where a rule asks for it",
        ]
        if kernel_version() < 6:
            weaker.append("commands can send signals to other processes of the same user")
        return tuple(weaker)

    def missing(self) -> str | None:
        """Why it cannot be used here; None when it can be tried."""
        if kernel_version() < 1:
            return "this kernel has no Landlock"
        return None if this_machine() is not None else "there is no system call filter for this kind of processor"

    @property
    def confines(self) -> bool:
        return kernel_version() >= _CAN_STOP_CUTTING

    def prepare(self, profile: Profile, arguments: Sequence[str], *, terminal: bool = False) -> Prepared:
        """Refuses what it cannot enforce."""
        machine = this_machine()
        if machine is None or kernel_version() < 1:
            raise SandboxRefused(phrase("The sandbox cannot be used: {why}.", why=self.missing()), _INSTALL)
        roots = writable_roots(profile.writable, sys.executable)
        self._refuse_what_it_cannot(profile, roots)
        starting, closing = ExitStack(), ExitStack()
        try:
            places = system_places(roots, closed=profile.closed, emptied=profile.emptied)
            # A home for this start, with ways to the tools that the real home has, and a folder for temporary files.
            named = places.home if places.home != "/" else "/home"
            outside = Outside(named, {named: 0o700})
            closing.callback(outside.close)
            home, private = Path(outside.folders[named]), outside.path
            temporary = os.path.realpath(profile.temporary or f"{private}/temporary")
            Path(temporary).mkdir(exist_ok=True)
            for tool in places.tools:
                if tool.startswith(places.home + "/"):
                    link = home / tool[len(places.home) + 1 :]
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(tool)
            outside.leave_out(places.tools)
            outside.write(f"{named}/.gitconfig", git_settings(places.home))
            own = {"HOME": str(home)} | dict.fromkeys(("TMPDIR", "TMP", "TEMP"), temporary)
            environment = clean_environment(os.environ, own | dict(profile.environment))
            rules = out_of_the_way(_rules(places, profile, roots, (private, temporary)))
            starting.callback(os.close, rules)
            group = closing.enter_context(control_group(profile.bounds))
            beside = 0 if os.geteuid() == 0 else threads_of_person()
            launch = Launch(
                CommandLine((found_program(arguments[0], environment), *arguments[1:])),
                environment,
                os.path.realpath(profile.folder),
                descriptors=(rules,),
                limits=limits_of(profile, processes=True, beside=beside, group=group),
                joins=group.joins,
                takes_terminal=terminal,
                rules=rules,
                filter=build_filter(machine, namespaces=False, changes=not profile.look),
            )
            sweep = (
                None
                if profile.look
                else Sweep([watch(root, profile, closing) for root in guarded_roots(roots, profile)])
            )
            if sweep is not None:
                sweep.begin()
            return Prepared(
                launch,
                sweep=sweep,
                met=lambda: group.denials(profile),
                outside=outside,
                closing=closing,
                starting=starting,
            )
        except BaseException:
            starting.close()
            closing.close()
            raise

    def _refuse_what_it_cannot(self, profile: Profile, roots: Sequence[str]) -> None:
        if profile.hosts is not None:
            raise SandboxRefused(
                phrase("Without bubblewrap the sandbox cannot open the network to only some hosts."), _INSTALL
            )
        if profile.look:
            if not self.confines:
                raise SandboxRefused(
                    phrase("This kernel's Landlock cannot keep files from being truncated, so nothing can be tried."),
                    _INSTALL,
                )
            return
        for path in profile.hidden:
            for root in roots:
                if is_within(os.path.realpath(path), root) and path.exists():
                    shown = os.path.realpath(path)[len(root) + 1 :]
                    raise SandboxRefused(
                        phrase(
                            "Without bubblewrap the sandbox cannot hide `{shown}` from a command that may change "
                            "files, and reading it needs approval or is denied by a rule.",
                            shown=shown,
                        ),
                        advice(
                            "Ask the user to install bubblewrap, or, if no rule denies it, to let commands read the "
                            "file with the rule `Read({shown})`.",
                            "Install bubblewrap, or, if no rule denies it, let commands read the file with the rule "
                            "`Read({shown})`.",
                            shown=shown,
                        ),
                    )


_INSTALL = advice(
    "Ask the user to install bubblewrap, or to turn the sandbox off for this.",
    "Install bubblewrap, or turn the sandbox off for this.",
)


def _rules(places: Places, profile: Profile, roots: Sequence[str], private: tuple[str, str]) -> int:
    """Readable is what the box shows, without what is hidden in it. In a look box that goes for the workspace too, and
    nothing in it is writable.
    """
    hidden = names_of_hidden(profile.hidden, roots)
    kept_out = frozenset({*places.hidden, *places.emptied, *hidden})
    shown = dict.fromkeys((*places.system, *places.tools, *map(os.path.realpath, profile.readable)))
    if not profile.look:
        readable = [*all_but(shown, kept_out - {*roots}), *_OF_PROC]
        return open_rules([*readable, *roots], (*roots, *private, *_DEVICES))
    readable = [*all_but([*shown, *roots], kept_out), *_OF_PROC]
    return open_rules(readable, (*private, *_DEVICES), listed=roots)
