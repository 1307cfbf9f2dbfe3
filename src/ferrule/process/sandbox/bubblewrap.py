"""The first choice: bubblewrap gives the command its own view of the file system, processes and network.

Nothing is there but what is mounted: the system's programs and toolchains, read-only and without sockets and keys, and
the workspace, which is writable. Its guarded places are mounted read-only over it, and hidden ones are covered. In it,
only places that exist are mounted on: bubblewrap makes missing mount points, and follows links to where it makes them.
The rest is for the sweep after the command.
"""

from __future__ import annotations

import os
import stat
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import advice, phrase
from ferrule.process.arguments import CommandLine, ProgramWords, checked_environment
from ferrule.process.folder_index import open_plain
from ferrule.process.profile import LayerMount, clean_environment
from ferrule.process.sandbox.denials import SandboxRefused, explain
from ferrule.process.sandbox.guarded import GuardedTree, Sweep, Watched, numbers_above
from ferrule.process.sandbox.hiding import MOST_COVERED, gathered, hide, mask, names_of_hidden, other_names, outermost
from ferrule.process.sandbox.limits import control_group, limits_of
from ferrule.process.sandbox.outside import Outside
from ferrule.process.sandbox.places import Places, git_settings, is_within, links_of, sockets_in, system_places
from ferrule.process.sandbox.proxy import network
from ferrule.process.sandbox.sandbox import Launch, Name, Prepared, out_of_the_way
from ferrule.process.sandbox.seccomp import build_filter, this_machine

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence

    from ferrule.process.profile import Profile


# The folders a command may write in, as real paths, and which of a profile's places lie below them.


_ESCAPED, _SPECIAL = lazy_pattern(rb"\\([0-7]{3})"), lazy_pattern(rb"[ \t\n\\]")
_OF_THE_SYSTEM = ("/usr", "/etc", "/proc", "/dev", "/sys", "/boot")


def writable_roots(folders: Sequence[Path], program: str) -> list[str]:
    """Outer ones first. `program` is what confines, and must not be one that a command could have put there."""
    roots = sorted({os.path.realpath(root) for root in folders}, key=lambda root: (root.count("/"), root))
    for root in roots:
        if any(is_within(place, root) for place in _OF_THE_SYSTEM):
            raise SandboxRefused(
                phrase("The workspace contains the system itself, and the sandbox cannot make that writable."),
                advice(
                    "Ask the user to choose a folder of their own as the workspace.",
                    "Choose a folder of your own as the workspace.",
                ),
            )
        if is_within(_real(program), root):
            raise SandboxRefused(
                phrase(
                    "The sandbox's own program `{name}` is inside the workspace, where any command may have put it.",
                    name=Path(program).name,
                ),
                advice(
                    "Ask the user to install it outside, with the system's package manager.",
                    "Install it outside, with the system's package manager.",
                ),
            )
        if not os.path.isdir(root):  # noqa: PTH112 - on every start
            raise SandboxRefused(
                phrase("There is no folder `{root}` to make writable.", root=root),
                advice("Ask the user to create it, or to choose another.", "Create it, or choose another."),
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
            found.append(LayerMount(Path(root), upper, work, tuple(lower), layer.masks))
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


_NAMESPACES = ("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox")
_MOST_MOUNTS = 200
_MANY_MOUNTS = ("/etc", "/sys/fs/cgroup")
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

    def __init__(self, program: str, *, by_descriptor: bool, nests: bool = False, has_layers: bool = False) -> None:
        self._program, self._nests = program, nests
        self.by_descriptor, self.has_layers = by_descriptor, has_layers
        self.notes: tuple[str, ...] = ()

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
        self._places = system_places(roots, closed=profile.closed, emptied=profile.emptied)
        self._readable = tuple(dict.fromkeys(map(os.path.realpath, profile.readable)))
        self._layers = layers_over(roots, profile)
        self._mounts = mounts_below(self._layers)
        self._outside: Outside | None = None

    def close(self) -> None:
        self._starting.close()
        self._closing.close()

    def prepared(self, arguments: Sequence[str], *, terminal: bool) -> Prepared:
        profile = self._profile
        hidden = self._masked(outermost((*names_of_hidden(profile.hidden, self._roots), *self._secrets())))
        self._show_home()
        self._show_tools()
        self._show_workspace()
        sweep = None if profile.look else self._guard()
        for path in hidden:  # after all that is mounted: what lies in such a place is covered with it
            self._arguments.add(hide(path))
        environment = clean_environment(
            os.environ, self._temporary() | dict(profile.environment), closed=profile.closed
        )
        command = CommandLine(arguments)
        proxy = forwarder = None
        if profile.hosts is not None:
            through = self._closing.enter_context(network(profile.hosts, command))
            self._arguments.option("--ro-bind", through.folder, through.inside)
            if self._outside is not None:
                self._outside.leave_out((through.inside,))
            environment |= through.environment
            command, proxy, forwarder = CommandLine(through.command), through.proxy, through.inside.encode()
        first, covered = self._show_system()
        self._arguments.option("--remount-ro", "/")  # where nothing is mounted, there is nothing to be written
        machine = this_machine()
        if machine is None:
            raise SandboxRefused(
                phrase("The sandbox has no system call filter for this kind of processor."),
                advice(
                    "Ask the user to turn the sandbox off, or to use an x86-64 or ARM 64 machine.",
                    "Turn the sandbox off, or use an x86-64 or ARM 64 machine.",
                ),
            )
        self._arguments.option("--seccomp", self._memory("seccomp", build_filter(machine)))
        info = self._memory("info", b"")
        # Bubblewrap itself is not confined yet: `LD_PRELOAD` and the like must count for what it starts alone.
        named = ProgramWords()
        for name, value in checked_environment(environment).items():
            named.option("--setenv", name, value)
        self._arguments.option("--args", self._memory("environment", named.stream())).option("--info-fd", info)
        self._arguments.option("--chdir", os.path.realpath(profile.folder)).option("--")
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
            outside=self._outside,
            closing=self._closing,
            starting=self._starting,
            forwarder=forwarder,
        )

    def _show_system(self) -> tuple[ProgramWords, tuple[str, ...]]:
        """What comes before all else, and what the launcher covers."""
        places = self._places
        # Bubblewrap reads the list of all mounts for each that it makes, so what brings many comes last.
        last = tuple(path for path in _MANY_MOUNTS if path in places.system and not self._arguments.names(path))
        first = ProgramWords(*_NAMESPACES).add(_system(places, self._profile.bounds.temporary, last))
        for path in last:
            self._arguments.option("--ro-bind", path, path)
        # The launcher covers these before bubblewrap starts, which takes longer for each; not where something that has
        # to be shown lies in one.
        inside = tuple(f"{path}/" for path in places.hidden)
        if self.covers and not self._arguments.names(inside):
            return first, places.hidden
        for path in _hidden_in(places, places.system):
            (self._arguments if any(is_within(path, one) for one in last) else first).add(hide(path))
        return first, ()

    def _masked(self, hidden: list[str]) -> list[str]:
        """What is to be covered place by place; where that would be too much, layers cover the rest."""
        if len(hidden) <= MOST_COVERED:
            return hidden
        for at, layer in enumerate(self._layers):
            root = str(layer.root)
            below = [path for path in hidden if path.startswith(f"{root}/") and os.path.lexists(path)]
            above = (*self._mounts, *self._places.tools)  # mounted over the layer
            below = [path for path in below if not any(is_within(path, one) for one in above)]
            if below and layer.masks is not None:
                covering = mask(root, sorted(below), layer.masks)
                layers = (*self._layers[:at], replace(layer, below=(covering, *layer.below)), *self._layers[at + 1 :])
                self._layers = layers
                hidden = list(dict.fromkeys(hidden).keys() - set(below))
        there = [path for path in hidden if os.path.lexists(path)]
        return gathered(there, self._roots)

    def _temporary(self) -> dict[str, str]:
        """Where temporary files go when the person's own place for them is not there in the sandbox."""
        usual = os.environ.get("TMPDIR")
        if not usual or any(is_within(os.path.realpath(usual), root) for root in self._roots):
            return {}
        return {"TMPDIR": "/tmp"}  # noqa: S108 - inside the sandbox

    def _show_home(self) -> None:
        """A home and places for temporary files that are the box's alone, and what is shown in them."""
        profile, places = self._profile, self._places
        add = self._arguments.option
        if profile.temporary is not None:
            add("--bind", os.path.realpath(profile.temporary), "/tmp")  # noqa: S108 - inside the sandbox
        own = {"/run": 0o755, "/var/tmp": 0o1777}  # noqa: S108
        if places.home != "/" and (os.path.isdir(places.home) or not places.show(places.home)):  # noqa: PTH112
            own[places.home] = 0o700
        own = {place: mode for place, mode in own.items() if not any(is_within(place, root) for root in self._roots)}
        if profile.closed:  # it is no command, so nothing is said of what it leaves
            for place in sorted(own):
                self._arguments.option("--size", profile.bounds.temporary).option("--tmpfs", place)
            return
        self._outside = outside = Outside(places.home, own)
        self._closing.callback(outside.close)
        if places.home in own and (settings := git_settings(places.home)):
            outside.write(f"{places.home}/.gitconfig", settings)
        for place, folder in outside.folders.items():
            add("--bind", folder, place)

    def _show_tools(self) -> None:
        places, roots = self._places, self._roots
        shown = (*places.tools, *self._readable)
        for path in shown:
            if not any(is_within(path, root) for root in roots):
                self._arguments.option("--ro-bind", path, path)
        # Commands talk to each other through sockets in the workspace; a plugin has nothing to say to them.
        for path in sockets_in((*places.system, *shown)):
            if not any(is_within(path, root) for root in roots):
                self._arguments.option("--ro-bind", "/dev/null", path)
        shown = (*shown, *roots)
        named = links_of(map(str, self._profile.names), (*places.system, *shown))
        links = dict((*places.links, *named))
        links = {link: links[link] for link in links if not any(is_within(link, one) for one in shown)}
        shared = self._profile.temporary
        for link, target in links.items():
            # An earlier command of the session may have it in the `/tmp` that they share.
            if shared is None or not link.startswith("/tmp/") or not os.path.lexists(f"{shared}/{link[5:]}"):  # noqa: S108
                self._arguments.option("--symlink", target, link)
        if self._outside is not None:
            self._outside.leave_out((*shown, *links))

    def _show_workspace(self) -> None:
        layered = {str(layer.root) for layer in self._layers}
        for root in self._roots:
            writable = root in layered if self._profile.look else True
            self._arguments.option("--bind" if writable else "--ro-bind", root, root)
        for place in self._mounts:
            self._arguments.option("--ro-bind", place, place)
        if self._profile.home is not None:
            for path in sockets_in(self._roots):
                self._arguments.option("--ro-bind", "/dev/null", path)
        seen = (*self._places.system, *self._places.tools, *self._readable, *(set(self._roots) - layered))
        for layer in self._layers:
            # In the very folder that it covers the kernel keeps it from being opened.
            for path in map(str, (layer.upper, layer.work, *layer.below)):
                if any(is_within(path, one) for one in seen):
                    self._arguments.add(hide(path))
        if self._shows_home():
            for tool in self._places.tools:
                self._arguments.option("--ro-bind", tool, tool)

    def _secrets(self) -> Sequence[str]:
        """Those of the home, where it is shown itself, and otherwise those in toolchains."""
        return self._places.secrets if self._shows_home() else _hidden_in(self._places, self._places.tools)

    def _shows_home(self) -> bool:
        return any(is_within(self._places.home, one) for one in (*self._roots, *self._readable))

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
            for other in other_names(places, [root], (".sample",)):  # hooks that never run
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
def _hidden_in(places: Places, shown: tuple[str, ...]) -> tuple[str, ...]:
    """What of the machine is hidden in some of its places."""
    return tuple(path for path in places.hidden if any(is_within(path, one) for one in shown))


@lru_cache(maxsize=8)
def _system(places: Places, temporary: int, last: tuple[str, ...]) -> ProgramWords:
    """What is the same for every command of this user, but for what comes `last`."""
    shown = ProgramWords()
    for path in places.system:
        if path in last:
            continue
        shown.option("--ro-bind", path, path)
    shown.option("--proc", "/proc").option("--dev", "/dev")
    if os.geteuid() == 0:  # the kernel's settings there are root's to write, with or without capabilities
        shown.option("--remount-ro", "/proc")
    for folder in ("/dev/shm", "/tmp"):  # noqa: S108 - inside the sandbox
        shown.option("--perms", "1777").option("--size", temporary).option("--tmpfs", folder)
    shown.option("--remount-ro", "/dev")  # files there would be memory without a bound
    for path in places.emptied:
        shown.option("--tmpfs", path)
    return shown
