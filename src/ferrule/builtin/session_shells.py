"""The shells of a session: which sandbox they run in, what they may touch there, and where they are."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ferrule.workspace.data_folder import data_folder
from ferrule.workspace.files import files_of
from ferrule.workspace.restrictions import restrictions_of
from ferrule.workspace.snapshots.tree_scan import scan

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from ferrule.core.context import Session
    from ferrule.policy.commands.parts import Analysis
    from ferrule.process.profile import Profile
    from ferrule.process.sandbox.sandbox import Prepared, Sandbox
    from ferrule.process.shell.shells import Shells

_MOST_ENTRIES = 200_000
_OUTPUTS = "ferrule.outputs"
_TRIED = "ferrule.sandbox_tried"
_WATCHERS = "ferrule.background_watchers"
SECONDS_TO_END = 60.0
"""What a call may take to end its processes once it is told to; sooner than this it never leaves them behind."""
KEY = "sandbox"
"""Where a session's configuration may hold a `SandboxChoice`."""


class SandboxChoice:
    """What the person chose for shell commands: the sandbox itself unless it is off, and what it opens up."""

    def __init__(
        self, *, enabled: bool = True, hosts: Sequence[str] | None = None, writable: Sequence[Path] = ()
    ) -> None:
        self.enabled = enabled
        self.hosts = tuple(hosts) if hosts is not None else None
        self.writable = tuple(writable)


def shells_of(session: Session) -> Shells:
    """Those of a session, made at first use."""
    from ferrule.process.shell.shells import Shells

    return Shells.of(session, lambda: _make(session))


def watchers_of(session: Session) -> set[asyncio.Task[None]]:
    """What still has to tell the history of a command: what one in the background changed, or that one never ran."""
    return session.state.setdefault(_WATCHERS, set())


async def close_shells(session: Session) -> None:
    """End all that a session's commands started, and take up what they changed to the last."""
    import asyncio

    from ferrule.process.shell.shells import Shells

    await Shells.close_of(session)
    await asyncio.gather(*watchers_of(session), return_exceptions=True)


def sandbox_of(session: Session) -> Sandbox:
    """The strongest that works here, unless the person turned it off."""
    from ferrule.process.sandbox.no_sandbox import NoSandbox

    if not _choice(session).enabled:
        return NoSandbox(off=True)
    from ferrule.process.sandbox.choose import best_sandbox

    return best_sandbox(tuple(session.folders))


async def try_sandbox(session: Session) -> None:
    """Find the sandbox beside the event loop, before a session's first command: trying it takes a moment."""
    if _TRIED not in session.state:
        import asyncio

        await asyncio.to_thread(sandbox_of, session)
        session.state[_TRIED] = True


def unconfined(session: Session) -> bool:
    """Whether no sandbox works here and the person has not turned it off: then only what provably reads may run."""
    from ferrule.process.sandbox.no_sandbox import NoSandbox

    sandbox = sandbox_of(session)
    return isinstance(sandbox, NoSandbox) and not sandbox.off


def profile_of(session: Session) -> Profile:
    """What a command of this session may see, change and reach."""
    from ferrule.process.profile import Profile

    choice = _choice(session)
    roots = tuple(Path(os.path.realpath(root)) for root in session.folders)
    return Profile(
        writable=(*roots, *choice.writable),
        folder=_existing(shell_folder(session), roots[0]),
        guarded=tuple(session.config.get("guarded", ())),
        hidden=(*_own_folder(roots), *_hidden(session, roots)),
        readable=(outputs_of(session),),
        hosts=choice.hosts,
    )


def shell_folder(session: Session) -> Path:
    """Where the session's shell is now: relative paths in a command start there."""
    return session.command_directory


def understand(command: str, folder: str) -> Analysis:
    """What a command would do; the same one is looked at once."""
    return _understand(command, folder, str(Path.home()))


@lru_cache(maxsize=256)
def _understand(command: str, folder: str, home: str) -> Analysis:
    from ferrule.policy.commands.analyse import analyse

    return analyse(command)


def _choice(session: Session) -> SandboxChoice:
    return cast("SandboxChoice | None", session.config.get(KEY)) or SandboxChoice()


def _make(session: Session) -> Shells:
    from ferrule.process.shell.notice import Notice
    from ferrule.process.shell.shells import Shells
    from ferrule.process.spill import SpillFolder

    def prepare(arguments: Sequence[str]) -> Prepared:
        profile = profile_of(session)
        if unconfined(session):  # whoever runs a command here has refused what does not provably read
            profile = replace(profile, writable=(), hosts=None)
        denied = _denied_reads(session)
        prepared = sandbox_of(session).prepare(profile, arguments)
        prepared.outdated = lambda: _denied_reads(session) != denied
        return prepared

    session.on_close(partial(close_shells, session))
    files_of(session).paths.open_for_reading(outputs_of(session))  # a path that is named to a model can be read
    notice = Notice(data_folder() / "shells", session.workspace)
    return Shells(prepare, spills=SpillFolder(outputs_of(session)), notice=notice)


def outputs_of(session: Session) -> Path:
    """Where long outputs of this session lie, so that its commands can look into them, and not into others'."""
    folder = session.state.get(_OUTPUTS)
    if folder is None:
        from ferrule.process.spill import clear_old_folders

        above = data_folder() / "outputs"
        above.mkdir(mode=0o700, parents=True, exist_ok=True)
        clear_old_folders(above)
        folder = session.state[_OUTPUTS] = Path(tempfile.mkdtemp(prefix="session-", dir=os.path.realpath(above)))
    return folder


def _existing(folder: Path, otherwise: Path) -> Path:
    return folder if folder.is_dir() else otherwise


def _own_folder(roots: tuple[Path, ...]) -> tuple[Path, ...]:
    """Ferrule's records and history, where they lie in the workspace, as in a home: no command may rewrite those."""
    own = Path(os.path.realpath(data_folder()))
    if not any(own.is_relative_to(root) for root in roots):
        return ()
    own.mkdir(mode=0o700, parents=True, exist_ok=True)  # one that is made later would be taken for the command's
    return (own,)


def _denied_reads(session: Session) -> Sequence[str]:
    restrictions = restrictions_of(session)
    return () if restrictions is None else restrictions.denied_reads


def _hidden(session: Session, roots: tuple[Path, ...]) -> tuple[Path, ...]:
    """What a rule says may not be read, so that no program reads it either: one policy for files and commands."""
    restrictions = restrictions_of(session)
    if restrictions is None or not restrictions.denies_reads:
        return ()
    names = tuple(map(str, roots))
    seen = scan(files_of(session).paths.roots, _MOST_ENTRIES).seen
    denied = {path for path in seen if restrictions.denies_read(path, names)}
    # A name that is not there yet must not be made and read either, where a rule names just that.
    denied |= {f"{root}/{name}" for root in names for name in restrictions.left_out(root, names) if "*" not in name}
    denied |= {place for place in restrictions.places("/", names) if restrictions.denies_read(f"{place}/x", names)}
    tops = [path for path in sorted(denied) if not any(path.startswith(f"{other}/") for other in denied)]
    return tuple(Path(path) for path in tops if path not in (*names, "/") and restrictions.denies_read(path, names))
