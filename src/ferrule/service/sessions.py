"""Where a user's calls run: a folder of their own, and sessions that keep a shell and what was read between calls."""

from __future__ import annotations

import copy
import logging
import os
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.context import Caller, Environment, Session
from ferrule.core.tool import Kind
from ferrule.pipeline.run import Runtime
from ferrule.process.sandbox.places import is_within, system_places

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from ferrule.app.settings import Settings
    from ferrule.core.call import Limits
    from ferrule.pipeline.execute import RemoteRunner
    from ferrule.pipeline.hooks import Hook
    from ferrule.pipeline.record import Recorder, Tracer
    from ferrule.pipeline.stages import Call
    from ferrule.registry.registry import ToolSource
    from ferrule.service.access import Allowed
    from ferrule.service.directory import Directory, Principal

logger = logging.getLogger("ferrule.service")

IDLE_SECONDS = 1800.0
MOST_SESSIONS = 1_000
_MOST_FOLDERS = 10_000


class UnsafePlace(Exception):  # noqa: N818 - reads as what it says
    """A place where tenants would not be kept apart; says why, and what to do."""


def require_apart(settings: Settings, tools: ToolSource, *kept: Path) -> None:
    """Refuse to serve where a command of one tenant could read what is kept of another.

    File tools stay in the user's own folder. Commands see that, the system, toolchains and what the settings add, so
    whatever the service keeps must lie elsewhere.
    """
    runs = [tool.name for tool in tools.tools() if tool.kind is Kind.EXECUTE and tool.kind_given]
    if not runs:
        return
    named = ", ".join(f"`{name}`" for name in runs[:5])
    instead = f"or switch off the tools that run something with `tools.disabled` ({named})"
    if not settings.sandbox.enabled:
        raise UnsafePlace(f"Without the sandbox a command reads the data of every tenant. Leave it on, {instead}.")
    places = system_places()
    added = [os.path.realpath(one.expanduser()) for one in (*settings.shell.see, *settings.sandbox.writable)]
    for path in kept:
        real = os.path.realpath(path)
        if places.show(real) or any(is_within(real, one) for one in added):
            raise UnsafePlace(
                f"A command of one tenant could read what is kept of others in {path}. Move it into a home folder, "
                f"as with `service.workspace_root` and `service.database`, {instead}."
            )


class TooManySessions(Exception):  # noqa: N818 - reads as what it says
    """Every session that may be open is in use."""


class _Held:
    """A session that calls share, and the runtime that they run on."""

    __slots__ = ("allowed", "keys", "last", "runtime", "session", "using", "view")

    def __init__(self, session: Session) -> None:
        self.session = session
        self.allowed: Allowed | None = None
        self.keys: set[str] = set()
        self.runtime: Runtime = cast("Any", None)
        self.view: Runtime = cast("Any", None)
        self.using = 0
        self.last = monotonic()


class Seat:
    """The session and the runtime of one call, for as long as it runs; `view` has the user's tools alone."""

    __slots__ = ("_held", "runtime", "session", "view")

    def __init__(self, session: Session, runtime: Runtime, view: Runtime, held: _Held | None) -> None:
        self.session = session
        self.runtime = runtime
        self.view = view
        self._held = held
        if held is not None:
            held.using += 1

    async def leave(self) -> None:
        """A session without a name ends with its call."""
        if self._held is not None:
            self._held.using -= 1
            self._held.last = monotonic()
        elif self.session.has_something_open:
            await close_quietly(self.session)


class UserSessions:
    """The sessions of all users of this instance."""

    def __init__(
        self,
        root: Path,
        *,
        recorders: Iterable[Recorder],
        hooks: Iterable[Hook],
        limits: Limits,
        repair: bool,
        environment: Callable[[Path], Environment],
        recheck: Callable[[Allowed, Call], Awaitable[None]],
        tracer: Tracer | None = None,
        remote: RemoteRunner | None = None,
    ) -> None:
        """`environment` gives what a session knows of the sandbox and the like, for its workspace; `recheck` refuses a
        call that may not start any more.
        """
        self._root = root
        self._recorders = tuple(recorders)
        self._hooks = tuple(hooks)
        self.has_hooks = bool(self._hooks)
        self._limits = limits
        self._repair = repair
        self._environment = environment
        self._recheck = recheck
        self._tracer = tracer
        self._remote = remote
        self._named: dict[tuple[str, str, str], _Held] = {}
        self._unnamed: dict[tuple[str, str, str], _Held] = {}
        self._folders: dict[tuple[str, str], tuple[Path, Environment]] = {}

    def workspace(self, principal: Principal) -> Path:
        """The user's own folder. The names of tenants and users hold nothing that leads out of it."""
        return self._place(principal)[0]

    def _place(self, principal: Principal) -> tuple[Path, Environment]:
        key = principal.tenant, principal.user
        found = self._folders.get(key)
        if found is None:
            if len(self._folders) >= _MOST_FOLDERS:
                self._folders.clear()
            folder = self._root / principal.tenant / principal.user
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            found = self._folders[key] = folder, self._environment(folder)
        return found

    async def seat(
        self, principal: Principal, allowed: Allowed, name: str | None, session_id: str, role: str | None
    ) -> Seat:
        """A place to run one call: in the named session, or in one of its own, on what the user's others run on."""
        key = principal.tenant, principal.user, name or ""
        kept = self._unnamed if name is None else self._named
        held = kept.get(key)
        if held is None:
            if name is not None:
                await self._make_room()
            elif len(kept) >= MOST_SESSIONS:  # it is made anew when it is wanted again
                kept.pop(next(iter(kept)))
            folder, environment = self._place(principal)
            caller = Caller(principal.tenant, principal.user, role)
            held = kept[key] = _Held(Session(folder, caller=caller, environment=environment, id=".".join(key)))
        if held.allowed is not allowed:
            self._renew(held, allowed)
        held.keys.add(principal.key)
        session = held.session
        caller = session.caller if session.caller.role == role else replace(session.caller, role=role)
        if name is None:
            session = Session(session.workspace, caller=caller, environment=session.environment, id=session_id)
        elif session.caller != caller:
            session = copy.copy(session)  # the same state under another of the user's roles
            session.caller = caller
        return Seat(session, held.runtime, held.view, held if name is not None else None)

    def _renew(self, held: _Held, allowed: Allowed) -> None:
        """A runtime with the user's rights of now. Calls without a session share one with those of the same user."""
        held.session.restrictions = allowed.policy.restrictions
        held.allowed = allowed
        held.runtime = Runtime(
            allowed.everything,
            policy=allowed.policy,
            recorders=self._recorders,
            hooks=self._hooks,
            tracer=self._tracer,
            limits=self._limits,
            repair=self._repair,
            session=held.session,
            own_loop=True,
            remote=self._remote,
        )
        held.runtime.recheck = partial(self._recheck, allowed)
        held.view = held.runtime.with_tools(allowed.tools)

    async def close_named(self, tenant: str, user: str, name: str) -> None:
        """End one session, where there is one."""
        held = self._named.pop((tenant, user, name), None)
        if held is not None:
            await close_quietly(held.session)

    async def close_gone(self, directory: Directory) -> None:
        """End the sessions of which every key is gone, with what still runs there."""
        for key, held in list(self._named.items()):
            keys = set(held.keys)
            if not any([await directory.user(*key[:2], one) for one in keys]) and held.keys == keys:
                self._named.pop(key, None)
                await close_quietly(held.session)

    async def close_idle(self, idle: float = IDLE_SECONDS) -> None:
        """End sessions that nobody has used for a while, with their shells."""
        before = monotonic() - idle
        for key in [key for key, held in self._named.items() if not held.using and held.last <= before]:
            await close_quietly(self._named.pop(key).session)

    async def _make_room(self) -> None:
        if len(self._named) < MOST_SESSIONS:
            return
        resting = [(held.last, key) for key, held in self._named.items() if not held.using]
        if not resting:
            raise TooManySessions
        await close_quietly(self._named.pop(min(resting)[1]).session)

    async def close(self) -> None:
        while self._named:
            await close_quietly(self._named.popitem()[1].session)


async def close_quietly(session: Session) -> None:
    try:
        await session.close()
    except Exception:
        logger.exception("A session could not be closed")
