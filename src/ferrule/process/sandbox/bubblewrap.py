"""The first choice: bubblewrap gives the command its own view of the file system, processes and network.

The system is shown read-only, without homes, sockets and keys; the workspace is writable, its guarded places are
mounted read-only over it, and hidden ones are covered. Only places that exist are mounted on: bubblewrap makes
missing mount points, and follows links to where it makes them. The rest is for the sweep after the command.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from functools import lru_cache
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.process.environment import clean_environment
from ferrule.process.launch import Launch
from ferrule.process.sandbox.control_group import control_group
from ferrule.process.sandbox.denials import explain
from ferrule.process.sandbox.guarded import GuardedTree
from ferrule.process.sandbox.limits import bounded
from ferrule.process.sandbox.network import network
from ferrule.process.sandbox.places import Places, git_settings, is_within, system_places
from ferrule.process.sandbox.plain_path import open_plain
from ferrule.process.sandbox.roots import below, writable_roots
from ferrule.process.sandbox.sandbox import Denial, Name, Prepared, SandboxRefused
from ferrule.process.sandbox.seccomp import build_filter
from ferrule.process.sandbox.sockets import sockets_of_others
from ferrule.process.sandbox.sweep import Sweep, Watched, numbers_above
from ferrule.process.sandbox.syscalls import this_machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.process.profile import Profile

_NAMESPACES = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox")
_TEMPORARY = str(2 << 30)
_MOST_MOUNTS = 256


class Bubblewrap:
    """Starts commands with a bubblewrap that was proven to work."""

    def __init__(self, program: str, *, by_descriptor: bool, notes: tuple[str, ...] = ()) -> None:
        self._program = program
        self._by_descriptor = by_descriptor
        self._notes = notes

    @property
    def name(self) -> Name:
        return "bubblewrap"

    @property
    def notes(self) -> tuple[str, ...]:
        return self._notes

    def prepare(self, profile: Profile, arguments: Sequence[str]) -> Prepared:
        """Everything that must be looked at is looked at here, as short a time before the start as can be."""
        roots = writable_roots(profile.writable, self._program)
        closing = ExitStack()
        try:
            return _Preparation(self._program, self._by_descriptor, profile, roots, closing).prepared(arguments)
        except BaseException:
            closing.close()
            raise

    def explain_denial(self, exit_code: int, stderr_text: str, profile: Profile) -> Denial | None:
        return explain(exit_code, stderr_text, profile)


class _Preparation:
    """The arguments of one start, gathered in the order in which bubblewrap carries them out."""

    def __init__(
        self, program: str, by_descriptor: bool, profile: Profile, roots: list[str], closing: ExitStack
    ) -> None:
        self._by_descriptor = by_descriptor
        self._profile = profile
        self._roots = roots
        self._closing = closing
        self._arguments = [program, *_NAMESPACES]
        self._descriptors: list[int] = []
        self._places = system_places()

    def prepared(self, arguments: Sequence[str]) -> Prepared:
        self._show_system()
        self._show_workspace()
        sweep = self._guard()
        for path in self._profile.hidden:
            self._arguments += _hidden(os.path.realpath(path))
        environment = clean_environment(os.environ, self._temporary() | dict(self._profile.environment))
        command = tuple(arguments)
        proxy = None
        if self._profile.hosts is not None:
            through = self._closing.enter_context(network(self._profile.hosts, command))
            self._arguments += ["--ro-bind", through.folder, through.inside]
            environment |= through.environment
            command, proxy = through.command, through.proxy
        self._filter_calls()
        self._arguments += ["--chdir", os.path.realpath(self._profile.folder), "--"]
        start = self._bounded(command)
        launch = Launch(start, environment, "/", descriptors=tuple(self._descriptors), contains_all=True)
        return Prepared(launch, sweep=sweep, proxy=proxy, closing=self._closing)

    def _temporary(self) -> dict[str, str]:
        """Where temporary files go when the person's own place for them is not there in the sandbox."""
        usual = os.environ.get("TMPDIR")
        if not usual or any(is_within(os.path.realpath(usual), root) for root in self._roots):
            return {}
        return {"TMPDIR": "/tmp"}  # noqa: S108 - inside the sandbox

    def _bounded(self, command: tuple[str, ...]) -> tuple[str, ...]:
        """Under its limits: inside for a person, whose processes are counted there; around it all for root."""
        bounds = self._profile.bounds
        if os.geteuid() != 0:
            return (*self._arguments, *bounded(bounds, command))
        group = self._closing.enter_context(control_group(bounds))
        return bounded(bounds, (*self._arguments, *command), group)

    def _show_system(self) -> None:
        places = self._places
        add = self._arguments.extend
        add(_system(places))
        for shown in (*places.tools, *map(os.path.realpath, self._profile.readable)):
            if not any(is_within(shown, root) for root in self._roots):
                add(("--ro-bind", shown, shown))
        for path in sockets_of_others((*places.folders, "/tmp", "/dev", "/proc", *self._roots)):  # noqa: S108
            add(("--ro-bind", "/dev/null", path))
        if settings := git_settings(places.home):
            add(("--perms", "0644", "--file", str(self._memory("gitconfig", settings)), f"{places.home}/.gitconfig"))

    def _show_workspace(self) -> None:
        for root in self._roots:
            self._arguments += ["--bind", root, root]
        for root in self._roots:
            if is_within(self._places.home, root):
                for tool in self._places.tools:
                    self._arguments += ["--ro-bind", tool, tool]
                for secret in self._places.secrets:
                    self._arguments += _hidden(secret)

    def _guard(self) -> Sweep:
        watched: list[Watched] = []
        for root in self._roots:
            hidden = below(root, self._profile.hidden)
            tree = GuardedTree(root, below(root, self._profile.guarded) | hidden)
            self._closing.callback(tree.close)
            one = Watched(tree, hidden=hidden)
            one.found = tree.look(deep=False)
            watched.append(one)
            for path in sorted(one.found.git_folders):
                if path.rpartition("/")[2] == ".git":  # as a mount point it cannot be moved away
                    self._mount(tree, path, writable=True)
            for path in sorted(one.found.marks.keys() - hidden):
                if stat.S_ISLNK(one.found.marks[path].kind):
                    self._mount_target(tree, path)
                elif self._mount(tree, path):
                    one.mounted[path] = numbers_above(tree, path)
            tree.locked = frozenset(one.mounted)
            tree.deepen(one.found)
        return Sweep(watched)

    def _mount_target(self, tree: GuardedTree, path: str) -> None:
        """Lock what a guarded link leads to, if that is in the workspace. Git's own folder must stay writable, and the
        guarded places in it are found for themselves.
        """
        target = os.path.realpath(f"{tree.root}/{path}")
        if target.startswith(tree.root + "/") and path.rpartition("/")[2] != ".git":
            self._mount(tree, target[len(tree.root) + 1 :])

    def _mount(self, tree: GuardedTree, path: str, *, writable: bool = False) -> bool:
        """Mount a place of the workspace over itself; the very one that was looked at, by real names alone."""
        if len(self._descriptors) >= _MOST_MOUNTS:
            return False
        try:
            opened = open_plain(tree.descriptor, path, os.O_PATH)
        except OSError:
            return False
        whole = f"{tree.root}/{path}"
        if not self._by_descriptor:
            os.close(opened)
            self._arguments += ["--bind" if writable else "--ro-bind", whole, whole]
            return True
        self._closing.callback(os.close, opened)
        self._descriptors.append(opened)
        self._arguments += ["--bind-fd" if writable else "--ro-bind-fd", str(opened), whole]
        return True

    def _filter_calls(self) -> None:
        machine = this_machine()
        if machine is None:
            raise SandboxRefused(
                phrase("The sandbox has no filter of system calls for this kind of processor."),
                phrase("Ask the person to turn the sandbox off, or to use an x86-64 or ARM 64 machine."),
            )
        self._arguments += ["--seccomp", str(self._memory("seccomp", build_filter(machine)))]

    def _memory(self, name: str, content: bytes) -> int:
        """A file that is only in memory, for bubblewrap to read."""
        made = os.memfd_create(f"ferrule-{name}", os.MFD_CLOEXEC)
        self._closing.callback(os.close, made)
        os.write(made, content)
        os.lseek(made, 0, os.SEEK_SET)
        self._descriptors.append(made)
        return made


@lru_cache(maxsize=8)
def _system(places: Places) -> tuple[str, ...]:
    """What is the same for every command of this user."""
    shown = ["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev"]
    for folder in ("/dev/shm", "/tmp"):  # noqa: S108 - inside the sandbox
        shown += ["--perms", "1777", "--size", _TEMPORARY, "--tmpfs", folder]
    for folder in places.folders:
        shown += ["--size", _TEMPORARY, "--tmpfs", folder]
    if places.home != "/":
        shown += ["--perms", "0700", "--dir", places.home]
    for path in places.hidden:
        shown += _hidden(path)
    return tuple(shown)


def _hidden(path: str) -> tuple[str, ...]:
    """Cover what is there: a file with one that cannot be opened, a folder with one that cannot be entered."""
    try:
        state = os.lstat(path)
    except FileNotFoundError:
        return ()
    if stat.S_ISDIR(state.st_mode):
        return ("--perms", "0000", "--size", "4096", "--tmpfs", path, "--remount-ro", path)
    return ("--ro-bind", "/dev/null", path)
