"""The sessions of a worker: the calls of one conversation find its shells, and what it has read, as they left them."""

from __future__ import annotations

import logging
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from ferrule.core.context import Caller, Session
from ferrule.core.errors import ToolError
from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from ferrule.pipeline.run import Runtime
    from ferrule.remote.wire import RemoteCall

logger = logging.getLogger("ferrule.remote")

_MOST = 500
_IDLE_SECONDS = 1800.0
SessionKey = tuple[str | None, str | None, str, str]


class SessionUser(Protocol):
    """A call that uses a session, and can ask something of where it was made."""

    call: RemoteCall

    async def ask(self, what: str, given: Any) -> Any: ...


@dataclass(slots=True)
class KeptSession:
    """A session, and the calls that use it."""

    session: Session
    jobs: list[SessionUser] = field(default_factory=list[Any])
    shared: set[str] = field(default_factory=set[str])
    """Names in its state that the caller has too."""
    last: float = field(default_factory=monotonic)

    async def complete(self, prompt: str) -> str:
        """Ask the model of the caller; any call of the session knows the way."""
        if not self.jobs:
            raise ToolError(phrase("The call has ended; the model can no longer be asked."))
        return await self.jobs[-1].ask("complete", prompt)


class WorkerSessions:
    """Kept for as long as they are used, and for a while after that; so many at most."""

    def __init__(self, runtime: Runtime, workspace: str) -> None:
        self.runtime = runtime
        self._workspace = Path(workspace) if workspace else runtime.session.workspace
        self._kept: dict[SessionKey, KeptSession] = {}

    async def enter(self, job: SessionUser) -> tuple[KeptSession, Session]:
        """The session of a call, which must be left again."""
        call = job.call
        workspace = Path(call.workspace) if call.bound else self._workspace
        caller = Caller(call.tenant, call.user, call.role)
        key = call.tenant, call.user, call.session, str(workspace)
        if key not in self._kept:
            await self._make_room()
        kept = self._kept.get(key)
        if kept is None:
            own = self.runtime.session
            session = Session(workspace=workspace, caller=caller, environment=own.environment, id=call.session)
            kept = self._kept[key] = KeptSession(session)
        session = kept.session
        if call.unsent is not None and not kept.jobs:
            for name in kept.shared.difference(call.state, call.unsent):  # the caller has removed it
                session.state.pop(name, None)
            kept.shared.clear()
        kept.shared.update(call.state)
        kept.jobs.append(job)
        session.config = {**self.runtime.session.config, **call.config}  # these may change between two calls
        session.model, session.model_adapter = call.model, kept if call.asks_model else None
        if session.caller != caller:
            session = copy(session)  # the same state under another of the user's roles
            session.caller = caller
        if call.bound and call.directory != call.workspace:
            session.working_directory = Path(call.directory)
        session.state.update(call.state)
        return kept, session

    def leave(self, kept: KeptSession, job: SessionUser) -> None:
        kept.jobs.remove(job)
        kept.last = monotonic()

    async def _make_room(self) -> None:
        now = monotonic()
        resting = [(key, kept) for key, kept in self._kept.items() if not kept.jobs]
        resting.sort(key=lambda one: one[1].last)
        most = len(self._kept) - _MOST + 1
        gone = [key for number, (key, kept) in enumerate(resting) if number < most or now - kept.last > _IDLE_SECONDS]
        for session in [self._kept.pop(key).session for key in gone]:
            await _close(session)

    async def close(self) -> None:
        while self._kept:
            await _close(self._kept.popitem()[1].session)


async def _close(session: Session) -> None:
    try:
        await session.close()
    except Exception:
        logger.exception("A session could not be closed")
