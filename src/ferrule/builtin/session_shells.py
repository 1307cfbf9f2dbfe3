"""The shell of a session: which sandbox its commands run in, and what each box shows, hides and lets them change."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ferrule.core.context import CommandNames
from ferrule.core.phrases import advice
from ferrule.workspace.data_folder import data_folder
from ferrule.workspace.files import files_of
from ferrule.workspace.restrictions import files_concerned

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence

    from ferrule.core.access import Restrictions
    from ferrule.core.context import SandboxChoice, Session
    from ferrule.process.owned_folders import OwnedFolder
    from ferrule.process.profile import Bounds, Forbidden, LayerMount, Profile
    from ferrule.process.sandbox.sandbox import Sandbox
    from ferrule.process.shell.session import ShellSession
    from ferrule.workspace.layers.reading import Layer, LayerChanges
    from ferrule.workspace.layers.session_layer import SessionLayer

SECONDS_TO_END = 60.0
"""What a call may take to end its processes once it is told to; sooner than this it never leaves them behind."""
_LOOKING = {
    "GIT_OPTIONAL_LOCKS": "0",  # git refreshes its index otherwise, and reading would be a change
    "npm_config_fetch_retries": "0", "PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0",  # for minutes, where no network is
}  # fmt: skip
_GIT = {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}  # what a box shows are file systems of their own
# The home is not there in a box; caches of compilers and package managers outlive their command in the session's /tmp.
_CACHES = {"XDG_CACHE_HOME": "/tmp/.cache", "npm_config_cache": "/tmp/.cache/npm"}  # noqa: S108 - inside the box


@dataclass(slots=True)
class SessionCommands:
    """What a session keeps for its commands between them."""

    sandbox: Sandbox | None = None
    shell: ShellSession | None = None
    layer: SessionLayer | None = None
    folders: dict[str, OwnedFolder] = field(default_factory=dict[str, "OwnedFolder"])
    watchers: set[asyncio.Task[None]] = field(default_factory=set["asyncio.Task[None]"])
    said_unconfined: bool = False
    """Whether its calls say that no sandbox works, so that what runs without one was approved as that."""


class CommandConfinement(NamedTuple):
    """Whether an unapproved command can be tried, and what is done about one that nothing confines, as `CallInfo` says
    it.
    """

    can_try: bool
    unconfined: Literal["", "ask", "refuse", "allow"] = ""


def _commands_of(session: Session) -> SessionCommands:
    return session.part(SessionCommands, SessionCommands)


def sandbox_of(session: Session) -> Sandbox:
    """The strongest that works here, unless the user turned it off. Trying it takes a moment, the first time."""
    kept = _commands_of(session)
    if kept.sandbox is not None:
        return kept.sandbox
    if session.environment.sandbox.enabled:
        from ferrule.process.sandbox.choose import best_sandbox
        from ferrule.workspace.layers.session_layer import layers_folder

        found = best_sandbox(tuple(session.folders), layers_folder(files_of(session).paths))
    else:
        from ferrule.process.sandbox.sandbox import NoSandbox

        found = NoSandbox(off=True)
    kept.sandbox = found
    return found


def confinement(session: Session) -> CommandConfinement:
    """What would hold the next command of a session, as far as that was tried."""
    from ferrule.process.sandbox.sandbox import NoSandbox

    kept, choice = _commands_of(session), session.environment.sandbox
    if not choice.enabled:
        return CommandConfinement(False, "allow")
    if (found := kept.sandbox) is None:
        return CommandConfinement(True)  # nobody has tried it yet: see `try_sandbox`
    if not isinstance(found, NoSandbox):
        return CommandConfinement(found.confines)
    kept.said_unconfined = True
    return CommandConfinement(False, "allow" if found.off else choice.unconfined)


async def make_ready(session: Session) -> None:
    """Find the sandbox of a session beside the event loop, before its commands are described."""
    import asyncio

    if _commands_of(session).sandbox is None:
        session.on_close(partial(close_shell, session))
        await asyncio.to_thread(sandbox_of, session)


async def try_sandbox(session: Session) -> Sandbox:
    """The sandbox that a command is about to run in. Raises `SandboxRefused` where none works, and the command was
    approved as one that a sandbox confines.
    """
    await make_ready(session)
    was_said = _commands_of(session).said_unconfined
    if confinement(session).unconfined in ("ask", "refuse") and not was_said:
        from ferrule.process.sandbox.denials import SandboxRefused

        raise SandboxRefused(
            advice(
                "No sandbox works on this machine, and the user has not approved running the command without one.",
                "No sandbox works on this machine, and you have not approved running the command without one.",
            ),
            advice("Make the call again, so that the user is asked.", "Make the call again to be asked."),
        )
    return sandbox_of(session)


def shell_of(session: Session) -> ShellSession:
    """The shell of a session and its background commands, made at first use."""
    kept = _commands_of(session)
    if kept.shell is None:
        from ferrule.process.output import SpillFolder
        from ferrule.process.shell.background import Notice
        from ferrule.process.shell.session import ShellSession

        session.on_close(partial(close_shell, session))
        files_of(session).paths.open_for_reading(outputs_of(session))  # a path that is named to a model can be read
        notice = Notice(data_folder() / "shells", session.workspace)
        spills = SpillFolder(outputs_of(session))
        kept.shell = ShellSession(folder=str(session.command_directory), spills=spills, notice=notice)
    return kept.shell


def watch(session: Session, telling: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Tell the history of a command, and have the session wait for that: what one in the background changed, or that
    one never ran.
    """
    import asyncio

    watchers = _commands_of(session).watchers
    task = asyncio.create_task(telling)
    watchers.add(task)
    task.add_done_callback(watchers.discard)
    return task


async def close_shell(session: Session) -> None:
    """End all that a session's commands started, take up what they changed to the last, and drop what was kept aside
    for them.
    """
    import asyncio

    from ferrule.workspace.layers.session_layer import leave_no_fallback

    kept = _commands_of(session)
    shell, kept.shell = kept.shell, None
    if shell is not None:
        await shell.close()
    await asyncio.gather(*kept.watchers, return_exceptions=True)
    layer, kept.layer = kept.layer, None
    if layer is not None:
        await asyncio.to_thread(layer.close)
    await asyncio.to_thread(leave_no_fallback)
    folders, kept.folders = kept.folders, {}
    for name, folder in folders.items():
        await asyncio.to_thread(partial(folder.close, keep_files=name == "outputs"))


def settle(session: Session, shell: ShellSession) -> None:
    """Let the rest of the session know where its shell is, and what unapproved commands left in its state."""
    session.command_directory = Path(shell.folder)
    state = shell.state
    defined = {name: one.text for name, one in state.functions.items()} | dict(state.aliases)
    session.command_names = CommandNames(defined, frozenset(state.tainted))


# What a box shows


def work_profile(session: Session, *, hosts: Sequence[str] = (), opened: Sequence[str] = ()) -> Profile:
    """For a command that a user, a rule or the mode approved; `hosts` and `opened` are what was approved besides."""
    return _profile(session, look=False, hosts=hosts, opened=opened)


def look_profile(session: Session, layers: Sequence[LayerMount]) -> Profile:
    """For an unapproved command: no network, no secrets, and every change lands in the layers."""
    profile = _profile(session, look=True)
    return replace(profile, layers=tuple(layers), hosts=None, environment={**profile.environment, **_LOOKING})


def _profile(session: Session, *, look: bool, hosts: Sequence[str] = (), opened: Sequence[str] = ()) -> Profile:
    from ferrule.process.profile import Profile

    choice = session.environment.sandbox
    roots, repositories, see = _shown(session)
    data = Path(os.path.realpath(data_folder()))
    # Ferrule's records and history may lie in what is shown, as in a home: no command may read or rewrite those.
    shown = (*roots, *choice.writable, *see)
    own = (data,) if any(data.is_relative_to(one) for one in shown) else ()
    if own:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)  # one that is made later would be taken for the command's
    allowed = (*(choice.hosts or ()), *hosts)
    folder, rules = session.command_directory, session.restrictions
    # The fixed places that a rule says may not be written, whether they are there or not.
    fixed = rules.unwritable_places(tuple(map(str, roots))) if rules and not look else ()
    return Profile(
        writable=(*roots, *choice.writable),
        folder=(folder if folder.is_dir() else roots[0]),
        guarded=(*session.environment.guarded, *map(Path, fixed)),
        forbidden=None if look else _forbidden(session),
        hidden=tuple(
            path
            for path in (*own, *_hidden_files(session, roots, (*repositories, *see, *choice.writable)))
            if not any(path == Path(one) for one in opened)
        ),
        readable=(outputs_of(session), *repositories, *see),
        names=tuple(Path(one).absolute() for one in (*session.folders, *choice.see)),
        hosts=allowed or (() if choice.hosts is not None else None),
        bounds=command_bounds(choice),
        look=look,
        # The `/tmp` that only the session's commands share. Look and work boxes each have their own:
        # what an unapproved command left must not be found by an approved one.
        temporary=None if own else _owned(session, f"temporary/{'look' if look else 'work'}", 0o1777),
        environment=_GIT | (_CACHES if sandbox_of(session).name == "bubblewrap" else {}),
    )


def command_bounds(choice: SandboxChoice) -> Bounds:
    """What one command may use at most. Memory is counted for all its processes together where that can be done."""
    from ferrule.process.sandbox.limits import can_group, default_bounds

    usual = default_bounds()

    def chosen(said: int | str, usually: int | None) -> int | None:
        return usually if said == "auto" else None if said == "off" else int(said)

    memory = chosen(choice.memory, usual.total_memory)
    return replace(
        usual,
        processes=chosen(choice.processes, usual.processes),
        memory=None if "memory" in can_group() else memory,
        total_memory=memory,
        file_size=chosen(choice.file_size, usual.file_size),
    )


def _shown(session: Session) -> tuple[tuple[Path, ...], ...]:
    """The workspace, what git needs outside of it, and what the user added; real paths."""
    from ferrule.workspace.git import needed_outside

    roots, data = roots_of(session), Path(os.path.realpath(data_folder()))
    needed = dict.fromkeys(Path(place) for root in roots for place in needed_outside(root))
    repositories = tuple(place for place in needed if not data.is_relative_to(place))  # nothing of Ferrule's own
    see = tuple(Path(os.path.realpath(one)) for one in session.environment.sandbox.see if one.exists())
    return roots, repositories, see


def box_shows(session: Session) -> dict[str, list[str]]:
    """What a command's box would show, and what it would hide of that; empty where nothing confines commands."""
    from ferrule.process.sandbox.places import system_places

    if not session.environment.sandbox.enabled:
        return {}
    roots, repositories, see = _shown(session)
    writable = tuple(Path(os.path.realpath(one)) for one in session.environment.sandbox.writable)
    machine = system_places(tuple(map(str, (*roots, *writable))))
    hidden = _hidden_files(session, roots, (*repositories, *see, *writable))
    shown = {
        "workspace": [*roots, *writable],
        "added": see,
        "git": repositories,
        "toolchains": machine.tools,
        "system": machine.system,
        "hidden": [*filter(os.path.lexists, hidden), *machine.hidden],
    }
    return {name: [str(path) for path in paths] for name, paths in shown.items()}


def roots_of(session: Session) -> tuple[Path, ...]:
    """The folders that a session works in, as they really are."""
    return tuple(dict.fromkeys(Path(os.path.realpath(root)) for root in session.folders))


def _hidden_files(session: Session, roots: tuple[Path, ...], readable: tuple[Path, ...]) -> tuple[Path, ...]:
    """What no program may read without approval: what a rule denies, and what a rule or Ferrule asks about.

    Every folder of the user's is looked through. Of the system's own programs and of toolchains, which are large, the
    places that rules name, and the top of each toolchain.
    """
    from ferrule.process.sandbox.hiding import outermost
    from ferrule.process.sandbox.places import is_within, system_places

    rules = session.restrictions or _default_rules()
    names = tuple(map(str, roots))
    machine = system_places(names)
    visible = (*machine.system, *machine.tools)
    places = rules.hidden_places(names)

    def may_hide(folder: str, listed: str) -> Sequence[str]:
        return rules.may_hide(folder, listed, names)

    named = [base for base in rules.reading_bases(names) if base != "/"]
    walked = [base for base in named if any(is_within(base, one) for one in visible)]
    walked += [one for one in visible if any(base != one and is_within(one, base) for base in named)]
    key = (tuple(places), rules.reading_rules, names)
    perhaps = files_concerned((*names, *map(str, readable), *walked), may_hide, key)
    tops = _tops_concerned(tuple((one, _stamp(one)) for one in machine.tools), rules, rules.reading_rules, names)
    found = {*rules.hidden_among((*perhaps, *tops), names), *places}
    shown = (*names, *map(str, readable), *visible)
    inside = (one for one in found if one not in (*names, "/"))
    return tuple(
        Path(one)
        for one in outermost(sorted(inside))
        if any(is_within(one, other) or is_within(other, one) for other in shown)
    )


def _stamp(folder: str) -> int:
    """When something was last added to a folder or removed from it."""
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116 - before every command
    except OSError:
        return 0


@lru_cache(maxsize=16)  # the same before every command
def _tops_concerned(
    tools: tuple[tuple[str, int], ...], rules: Restrictions, _reading_rules: tuple[str, ...], names: tuple[str, ...]
) -> list[str]:
    """What may be a secret right in the folder of a toolchain or cache."""
    listed: list[str] = []
    for tool, _ in tools:
        with suppress(OSError):
            here = "".join(f"{name}/" for name in os.listdir(tool))  # noqa: PTH208
            listed += [f"{tool}/{name}" for name in rules.may_hide(tool, here, names)]
    return listed


def _forbidden(session: Session) -> Forbidden | None:
    """What a rule says may not be written, so that no program writes it either."""
    from ferrule.process.profile import Forbidden

    rules = session.restrictions
    if rules is None or not rules.denied_writes:
        return None
    names = tuple(map(str, roots_of(session)))

    def concerns(paths: Sequence[str]) -> list[bool]:
        return [rules.denies_write(path, names) is not None for path in paths]

    return Forbidden((tuple(rules.denied_writes), names), concerns)


@lru_cache(maxsize=1)
def _default_rules() -> Restrictions:
    """What Ferrule asks about by itself, where a program brought no rules."""
    from ferrule.policy.decide import RulePolicy
    from ferrule.policy.restrictions import RuleRestrictions

    return RuleRestrictions(RulePolicy())


@dataclass(slots=True)
class LayeredBox:
    """A box whose changes land in layers, and what stays of them once the command is over."""

    profile: Profile
    aside: SessionLayer | None = None
    """None where no layer can be, and the workspace is read-only."""
    layers: Sequence[Layer] = ()
    keep: LayerChanges | None = None
    """Of these the ignored files stay for later commands of the session."""


@asynccontextmanager
async def layered_box(
    session: Session, show: Callable[[Sequence[LayerMount]], Profile], notes: list[str]
) -> AsyncGenerator[LayeredBox]:
    """Fresh layers for one command, and the box that `show` makes of them. They are gone with the block, however it
    ends; `notes` gets what is to be said about that.
    """
    import asyncio

    beginning = asyncio.ensure_future(asyncio.to_thread(_begun, session, show))
    try:
        box = await asyncio.shield(beginning)
    except asyncio.CancelledError:
        _end(await beginning)
        raise
    try:
        yield box
    finally:
        note = await asyncio.shield(asyncio.to_thread(_end, box))
        notes += [note] if note else []


def _begun(session: Session, show: Callable[[Sequence[LayerMount]], Profile]) -> LayeredBox:
    from ferrule.process.profile import LayerMount

    aside = session_layer(session)
    layers = aside.begin() if aside is not None else ()
    try:
        profile = show([LayerMount(one.root, one.upper, one.work, one.below, aside and aside.masks) for one in layers])
    except BaseException:
        if aside is not None:
            aside.end(layers)
        raise
    return LayeredBox(profile, aside, layers)


def _end(box: LayeredBox) -> str:
    return box.aside.end(box.layers, box.keep) if box.aside is not None else ""


def session_layer(session: Session) -> SessionLayer | None:
    """The layers of unapproved commands, and what those left in caches and build folders for later ones."""
    from ferrule.workspace.layers.session_layer import SessionLayer, layers_folder

    kept = _commands_of(session)
    if kept.layer is None and sandbox_of(session).has_layers:
        paths = files_of(session).paths
        folder = layers_folder(paths)
        if folder is not None:
            shell_of(session)  # whose end is the layer's
            files_of(session).history.settle()
            kept.layer = SessionLayer(paths, folder, ignored=session.environment.sandbox.ignored)
    return kept.layer


def outputs_of(session: Session) -> Path:
    """Where long outputs of this session lie, so that its commands can look into them, and not into others'."""
    return _owned(session, "outputs", 0o700)


def _owned(session: Session, name: str, mode: int) -> Path:
    """A folder of the session's own, recreated if it was removed."""
    from ferrule.process.owned_folders import OwnedFolder

    folders = _commands_of(session).folders
    found = folders.get(name)
    if found is None or not found.is_there():
        above = data_folder() / name.partition("/")[0]
        found = folders[name] = OwnedFolder(above, mode=mode)
    return found.path
