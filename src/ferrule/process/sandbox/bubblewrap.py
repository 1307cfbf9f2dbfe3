"""The first choice: bubblewrap gives the command its own view of the file system, processes and network.

The system is shown read-only, without homes, sockets and keys; the workspace is writable, its guarded places are
mounted read-only over it, and hidden ones are covered. Only places that exist are mounted on: bubblewrap makes
missing mount points, and follows links to where it makes them. The rest is for the sweep after the command.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.process.arguments import CommandLine, ProgramWords, checked_environment
from ferrule.process.folder_index import open_plain
from ferrule.process.profile import LayerMount, clean_environment
from ferrule.process.sandbox.denials import SandboxRefused, explain
from ferrule.process.sandbox.guarded import GuardedTree, Sweep, Watched, numbers_above
from ferrule.process.sandbox.limits import control_group, limits_of
from ferrule.process.sandbox.places import Places, git_settings, is_within, sockets_of_others, system_places
from ferrule.process.sandbox.proxy import network
from ferrule.process.sandbox.sandbox import Launch, Name, Prepared, out_of_the_way
from ferrule.process.sandbox.seccomp import build_filter, this_machine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ferrule.process.profile import Profile


# The folders a command may write in, as real paths, and which of a profile's places lie below them.


_ESCAPED, _SPECIAL = re.compile(rb"\\([0-7]{3})"), re.compile(rb"[ \t\n\\]")
_OF_THE_SYSTEM = ("/usr", "/etc", "/proc", "/dev", "/sys", "/boot")


def writable_roots(folders: Sequence[Path], program: str) -> list[str]:
    """Outer ones first. `program` is what confines, and must not be one that a command could have put there."""
    roots = sorted({os.path.realpath(root) for root in folders}, key=lambda root: (root.count("/"), root))
    for root in roots:
        if any(is_within(place, root) for place in _OF_THE_SYSTEM):
            raise SandboxRefused(
                phrase("The workspace contains the system itself, and the sandbox cannot make that writable."),
                phrase("Ask the user to choose a folder of their own as the workspace."),
            )
        if is_within(_real(program), root):
            raise SandboxRefused(
                phrase(
                    "The sandbox's own program `{name}` is inside the workspace, where any command may have put it.",
                    name=Path(program).name,
                ),
                phrase("Ask the user to install it outside, with the system's package manager."),
            )
        if not os.path.isdir(root):  # noqa: PTH112 - on every start
            raise SandboxRefused(
                phrase("There is no folder `{root}` to make writable.", root=root),
                phrase("Ask the user to create it, or to choose another."),
            )
    return roots


def guarded_roots(roots: Sequence[str], profile: Profile) -> list[str]:
    """Those in which other programs may run or obey something."""
    return [root for root in roots if profile.home is None or root != os.path.realpath(profile.home)]


@lru_cache(maxsize=8)  # asked at every start
def _real(program: str) -> str:
    return os.path.realpath(program)


def below(root: str, paths: Iterable[Path]) -> frozenset[str]:
    """The paths below a root, by their names there; the folders they are in are real, they themselves may be links."""
    found: set[str] = set()
    for path in paths:
        whole = os.path.join(os.path.realpath(path.parent), path.name)  # noqa: PTH118
        if whole.startswith(root + "/"):
            found.add(whole[len(root) + 1 :])
    return frozenset(found)


def layers_over(roots: Sequence[str], profile: Profile) -> tuple[LayerMount, ...]:
    """The layers of a look box by real paths, outer roots first; each looks like the root that it covers."""
    if not profile.look:
        return ()
    given = {os.path.realpath(layer.root): layer for layer in profile.layers}
    found: list[LayerMount] = []
    for root in roots:
        if (layer := given.get(root)) is not None:
            upper, work, *lower = (Path(os.path.realpath(path)) for path in (layer.upper, layer.work, *layer.below))
            state = os.stat(root)  # noqa: PTH116 - on every start
            if os.geteuid() == 0:
                os.chown(upper, state.st_uid, state.st_gid)
            os.chmod(upper, stat.S_IMODE(state.st_mode))  # noqa: PTH101
            os.utime(upper, ns=(state.st_atime_ns, state.st_mtime_ns))
            found.append(LayerMount(Path(root), upper, work, tuple(lower)))
    return tuple(found)


def mounts_below(layers: Sequence[LayerMount]) -> tuple[str, ...]:
    """Where other file systems are mounted below the roots of layers, outer ones first."""
    roots = tuple(f"{layer.root}/" for layer in layers)
    if not roots:
        return ()
    with open("/proc/self/mountinfo", "rb", 0) as file:  # noqa: PTH123 - on every start
        listed = file.read()
    starts = tuple(_SPECIAL.sub(lambda found: b"\\%03o" % found[0][0], os.fsencode(root)) for root in roots)
    if not any(b" " + start in listed for start in starts):
        return ()  # as nearly always
    places = {os.fsdecode(_ESCAPED.sub(_unescaped, line.split(b" ", 5)[4])) for line in listed.splitlines()}
    found = sorted(place for place in places if place.startswith(roots))
    return tuple(place for at, place in enumerate(found) if not any(is_within(place, one) for one in found[:at]))


def _unescaped(found: re.Match[bytes]) -> bytes:
    return bytes((int(found[1], 8),))


def names_of_hidden(hidden: Sequence[Path], roots: Sequence[str]) -> list[str]:
    """The real paths of what must be hidden, and every other name in the workspace under which a file of it is known:
    a hard link is as good as the file.
    """
    names = dict.fromkeys(os.path.realpath(path) for path in hidden)
    names |= dict.fromkeys(_other_names(names, roots))
    inside = tuple(f"{path.rstrip('/')}/" for path in names)
    return [path for path in names if path == "/" or not path.startswith(inside)]


def _other_names(places: Iterable[str], roots: Iterable[str], but: tuple[str, ...] = ()) -> list[str]:
    """Under which names files in these places, given by their real paths, are known below the roots; none where no
    file has a second name.
    """
    linked = {(file.st_dev, file.st_ino) for path in places for file in _files(path, but) if file.st_nlink > 1}
    return [name for root in roots for name in _with_number(root, linked)] if linked else []


def _files(path: str, but: tuple[str, ...] = ()) -> Iterator[os.stat_result]:
    """The state of a file, or of every file in a folder, but for names that end so."""
    with suppress(OSError):
        state = os.lstat(path)
        if stat.S_ISREG(state.st_mode):
            yield state
        elif stat.S_ISDIR(state.st_mode):
            with os.scandir(path) as entries:
                below = [entry.path for entry in entries if not (entry.is_symlink() or entry.name.endswith(but))]
            for one in below:
                yield from _files(one, but)


def _with_number(root: str, wanted: set[tuple[int, int]]) -> Iterator[str]:
    numbers = {number for _, number in wanted}
    waiting = [root]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif entry.inode() in numbers:
                    state = entry.stat(follow_symlinks=False)
                    if (state.st_dev, state.st_ino) in wanted:
                        yield entry.path


_NAMESPACES = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox")
_MOST_MOUNTS = 200
_SHELL = "/bin/sh"


def watch(root: str, profile: Profile, closing: ExitStack) -> Watched:
    """A root whose guarded places are looked at before and after a command."""
    hidden = below(root, profile.hidden)
    tree = GuardedTree(root, below(root, profile.guarded) | hidden, profile.forbidden)
    closing.callback(tree.close)
    return Watched(tree, hidden=hidden, who=profile.who)


class Bubblewrap:
    """Starts commands with a bubblewrap that was proven to work.

    `nests`: an ordinary user's bubblewrap can start in a user namespace of our own making, in which the kernel counts
    the processes of this box alone. `has_layers`: overlays can be mounted in such a namespace.
    """

    name: Name = "bubblewrap"
    confines = True
    explain_denial = staticmethod(explain)

    def __init__(
        self,
        program: str,
        *,
        by_descriptor: bool,
        notes: tuple[str, ...] = (),
        nests: bool = False,
        has_layers: bool = False,
    ) -> None:
        self._program, self._nests = program, nests
        self.by_descriptor, self.notes, self.has_layers = by_descriptor, notes, has_layers

    def prepare(self, profile: Profile, arguments: Sequence[str], *, terminal: bool = False) -> Prepared:
        """Everything that must be looked at is looked at here, as short a time before the start as can be."""
        roots = writable_roots(profile.writable, self._program)
        preparation = _Preparation(self._program, profile, roots)
        preparation.by_descriptor, preparation.nests = self.by_descriptor, self._nests
        preparation.covers = self.has_layers and os.geteuid() == 0
        try:
            return preparation.prepared(arguments, terminal=terminal)
        except BaseException:
            preparation.close()
            raise


class _Preparation:
    """The arguments of one start, gathered in the order in which bubblewrap carries them out."""

    by_descriptor = nests = covers = False

    def __init__(self, program: str, profile: Profile, roots: list[str]) -> None:
        self._profile = profile
        self._roots = roots
        self._starting, self._closing = ExitStack(), ExitStack()
        self._program = program
        self._arguments = ProgramWords()
        self._descriptors: list[int] = []
        self._sockets: list[str] = []
        self._places = system_places(closed=profile.closed, emptied=profile.emptied)
        self._layers = layers_over(roots, profile)
        self._mounts = mounts_below(self._layers)

    def close(self) -> None:
        self._starting.close()
        self._closing.close()

    def prepared(self, arguments: Sequence[str], *, terminal: bool) -> Prepared:
        profile = self._profile
        self._show_system()
        self._show_workspace()
        sweep = None if profile.look else self._guard()
        for path in names_of_hidden(profile.hidden, self._roots):
            self._arguments.add(_hidden(path))
        environment = clean_environment(
            os.environ, self._temporary() | dict(profile.environment), closed=profile.closed
        )
        command = CommandLine(arguments)
        proxy = forwarder = None
        if profile.hosts is not None:
            through = self._closing.enter_context(network(profile.hosts, command))
            self._arguments.option("--ro-bind", through.folder, through.inside)
            environment |= through.environment
            command, proxy, forwarder = CommandLine(through.command), through.proxy, through.inside.encode()
        self._filter_calls()
        info = self._memory("info", b"")
        # Bubblewrap itself is not confined yet: `LD_PRELOAD` and the like must count for what it starts alone.
        named = ProgramWords()
        for name, value in checked_environment(environment).items():
            named.option("--setenv", name, value)
        self._arguments.option("--args", self._memory("environment", named.stream())).option("--info-fd", info)
        self._arguments.option("--chdir", os.path.realpath(profile.folder)).option("--")
        first = ProgramWords(*_NAMESPACES).add(_system(self._places, profile.bounds.temporary))
        # The launcher covers these before bubblewrap starts, which takes longer for each; not where something that has
        # to be shown lies in one.
        inside = tuple(f"{path}/" for path in self._places.hidden)
        covered = self._places.hidden if self.covers and not self._arguments.names(inside) else ()
        for path in () if covered else self._places.hidden:
            first.add(_hidden(path))
        is_root = os.geteuid() == 0
        counted = is_root or self.nests
        group = self._closing.enter_context(control_group(profile.bounds))
        launch = Launch(
            first.add(self._arguments).line(
                self._program, _begun(command, terminal, None if counted else profile.bounds.processes)
            ),
            {},
            "/",
            descriptors=tuple(self._descriptors),
            contains_all=True,
            limits=limits_of(profile, processes=counted, group=group),
            joins=group.joins,
            covered=covered,
            overlays=self._layers,
            mounts=self._mounts,
            user_namespace=self.nests and not is_root,
            info=info,
        )
        return Prepared(
            launch,
            sweep=sweep,
            proxy=proxy,
            met=lambda: group.denials(profile),
            closing=self._closing,
            starting=self._starting,
            forwarder=forwarder,
        )

    def _temporary(self) -> dict[str, str]:
        """Where temporary files go when the person's own place for them is not there in the sandbox."""
        usual = os.environ.get("TMPDIR")
        if not usual or any(is_within(os.path.realpath(usual), root) for root in self._roots):
            return {}
        return {"TMPDIR": "/tmp"}  # noqa: S108 - inside the sandbox

    def _show_system(self) -> None:
        places = self._places
        add = self._arguments.option
        if self._profile.temporary is not None:
            add("--bind", os.path.realpath(self._profile.temporary), "/tmp")  # noqa: S108 - inside the sandbox
        readable = tuple(map(os.path.realpath, self._profile.readable))
        for shown in (*places.tools, *readable):
            if not any(is_within(shown, root) for root in self._roots):
                add("--ro-bind", shown, shown)
        # Commands talk to each other through sockets in the workspace; a plugin has nothing to say to them.
        commands = self._profile.home is None
        covered = (*places.folders, "/tmp", "/dev", "/proc", *(self._roots if commands else ()))  # noqa: S108 - inside
        for path in sockets_of_others(covered, readable if commands else (*readable, *self._roots)):
            if any(is_within(path, root) for root in self._roots):
                self._sockets.append(path)  # to be covered once the folder is there
            else:
                add("--ro-bind", "/dev/null", path)
        if not self._profile.closed and (settings := git_settings(places.home)):
            add("--perms", "0644").option("--file", self._memory("gitconfig", settings), f"{places.home}/.gitconfig")

    def _show_workspace(self) -> None:
        layered = {str(layer.root) for layer in self._layers}
        for root in self._roots:
            writable = root in layered if self._profile.look else True
            self._arguments.option("--bind" if writable else "--ro-bind", root, root)
        for place in self._mounts:
            self._arguments.option("--ro-bind", place, place)
        for path in self._sockets:
            self._arguments.option("--ro-bind", "/dev/null", path)
        for layer in self._layers:
            for path in (layer.upper, layer.work, *layer.below):
                # In the very folder that it covers the kernel keeps it from being opened.
                covered = (*layered, *self._places.folders, "/tmp")  # noqa: S108 - inside the sandbox
                if not any(is_within(str(path), folder) for folder in covered):
                    self._arguments.add(_hidden(str(path)))
        for root in self._roots:
            if is_within(self._places.home, root):
                for tool in self._places.tools:
                    self._arguments.option("--ro-bind", tool, tool)
                for secret in self._places.secrets:
                    self._arguments.add(_hidden(secret))

    def _guard(self) -> Sweep:
        watched: list[Watched] = []
        for root in guarded_roots(self._roots, self._profile):
            one = watch(root, self._profile, self._closing)
            tree, hidden = one.tree, one.hidden
            one.found = tree.look(deep=False)
            watched.append(one)
            for path in sorted(one.found.git_folders):
                if self._profile.home is not None:
                    one.mounted |= {path: numbers_above(tree, path)} if self._mount(tree, path) else {}
                elif path.rpartition("/")[2] == ".git":  # as a mount point it cannot be moved away
                    self._mount(tree, path, writable=True)
            inside = tuple(f"{path}/" for path in one.mounted)
            for path in sorted(path for path in one.found.marks.keys() - hidden if not path.startswith(inside)):
                if stat.S_ISLNK(one.found.marks[path].kind):
                    # Lock what a guarded link leads to, if that is in the workspace. Git's own folder must stay
                    # writable, and the guarded places in it are found for themselves.
                    target = os.path.realpath(f"{tree.root}/{path}")
                    if target.startswith(tree.root + "/") and path.rpartition("/")[2] != ".git":
                        self._mount(tree, target[len(tree.root) + 1 :])
                elif self._mount(tree, path):
                    one.mounted[path] = numbers_above(tree, path)
            # What is hidden is covered: whoever changes it meanwhile is outside, such as the user or Ferrule itself.
            one.mounted |= {path: numbers_above(tree, path) for path in hidden & one.found.marks.keys()}
            tree.locked = frozenset(path for path in one.found.marks if path in one.mounted or path.startswith(inside))
            tree.deepen(one.found)
            one.keep()
            places = [f"{root}/{path}" for path, mark in one.found.marks.items() if not stat.S_ISLNK(mark.kind)]
            for other in _other_names(places, [root], (".sample",)):  # hooks that never run
                if not any(is_within(other, place) for place in places):
                    self._mount(tree, other[len(root) + 1 :])
        return Sweep(watched)

    def _mount(self, tree: GuardedTree, path: str, *, writable: bool = False) -> bool:
        """Mount a place of the workspace over itself; the very one that was looked at, by real names alone."""
        if len(self._descriptors) >= _MOST_MOUNTS:
            return False
        try:
            opened = open_plain(tree.descriptor, path, os.O_PATH)
        except OSError:
            return False
        whole = f"{tree.root}/{path}"
        if not self.by_descriptor:
            os.close(opened)
            self._arguments.option("--bind" if writable else "--ro-bind", whole, whole)
            return True
        opened = out_of_the_way(opened)
        self._starting.callback(os.close, opened)
        self._descriptors.append(opened)
        self._arguments.option("--bind-fd" if writable else "--ro-bind-fd", opened, whole)
        return True

    def _filter_calls(self) -> None:
        machine = this_machine()
        if machine is None:
            raise SandboxRefused(
                phrase("The sandbox has no system call filter for this kind of processor."),
                phrase("Ask the user to turn the sandbox off, or to use an x86-64 or ARM 64 machine."),
            )
        self._arguments.option("--seccomp", self._memory("seccomp", build_filter(machine)))

    def _memory(self, name: str, content: bytes) -> int:
        """A file that is only in memory, for bubblewrap to read."""
        made = out_of_the_way(os.memfd_create(f"ferrule-{name}", os.MFD_CLOEXEC))
        self._starting.callback(os.close, made)
        os.write(made, content)
        os.lseek(made, 0, os.SEEK_SET)
        self._descriptors.append(made)
        return made


def _begun(command: CommandLine, terminal: bool, processes: int | None) -> CommandLine:
    """The command, begun inside by a shell where something has to be done there first.

    An ordinary user's processes can be counted for this box alone from inside its namespace only. And the terminal is
    taken by a session inside, to which bubblewrap does not belong, so that no key ends bubblewrap.
    """
    script = [] if processes is None else [f"ulimit {_processes_flag()} {processes}"]
    if not script and not terminal:
        return command
    script.append('exec setsid -c "$@"' if terminal else 'exec "$@"')
    return CommandLine((_SHELL, "-c", " && ".join(script), "sh", *command))


@lru_cache(maxsize=1)
def _processes_flag() -> str:
    is_bash = os.path.basename(os.path.realpath(_SHELL)).startswith("bash")  # noqa: PTH119 - a string in, a string out
    return "-u" if is_bash else "-p"


@lru_cache(maxsize=8)
def _system(places: Places, temporary: int) -> ProgramWords:
    """What is the same for every command of this user."""
    shown = ProgramWords("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
    if os.geteuid() == 0:  # the kernel's settings there are root's to write, with or without capabilities
        shown.option("--remount-ro", "/proc")
    for folder in ("/dev/shm", "/tmp"):  # noqa: S108 - inside the sandbox
        shown.option("--perms", "1777").option("--size", temporary).option("--tmpfs", folder)
    shown.option("--remount-ro", "/dev")  # files there would be memory without a bound
    for folder in places.folders:
        shown.option("--size", temporary).option("--tmpfs", folder)
    if places.home != "/":
        shown.option("--perms", "0700").option("--dir", places.home)
    return shown


def _hidden(path: str) -> ProgramWords:
    """Cover what is there: a file with one that cannot be opened, a folder with one that cannot be entered."""
    made = ProgramWords()
    try:
        state = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return made  # what is not there, or not ours to enter, no command of ours reads either
    if stat.S_ISDIR(state.st_mode):
        return (
            made.option("--perms", "0000").option("--size", "4096").option("--tmpfs", path).option("--remount-ro", path)
        )
    return made.option("--ro-bind", "/dev/null", path)
