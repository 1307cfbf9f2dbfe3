"""Answers what servers ask of us while a call runs: questions for the user, the model's words, the folders."""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError

from ferrule.core.elicitation import Elicited, Elicitor, current_elicitor
from ferrule.core.problems import InvalidParamsError
from ferrule.core.schema_params import SchemaParams
from ferrule.mcp_client.bounds import QUESTIONS

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from mcp.client.session import ClientRequestContext

    from ferrule.core.context import ToolContext
    from ferrule.mcp_client.server_config import Ports

logger = logging.getLogger("ferrule.mcp")

_MOST_OF_MESSAGE = 4_000
_MOST_OF_NOTE = 200
_MOST_ADDRESSES = 5
_NOBODY = "there is no user to ask here"


@dataclass(slots=True, eq=False)
class CallBehind:
    """A call that runs: who can ask the user for it, and what its result must say of questions nobody answered."""

    elicitor: Elicitor | None
    context: ToolContext | None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    notes: list[str] = field(default_factory=list[str])
    asked: int = 0


_call_behind: ContextVar[CallBehind | None] = ContextVar("ferrule.mcp_call_behind", default=None)


class Answering:
    """The SDK's callbacks for one server."""

    def __init__(self, server: str, ports: Ports, folders: Sequence[Path]) -> None:
        self._server = server
        self._ports = ports
        self._folders = folders
        self.tells_roots = bool(folders)
        self._turn = asyncio.Lock()
        self._running: list[CallBehind] = []

    @contextmanager
    def on_behalf(self, context: ToolContext | None = None) -> Generator[CallBehind]:
        """While a call runs: whoever can ask the user for it can be asked for what the server wants to know."""
        call = CallBehind(current_elicitor(), context)
        self._running.append(call)
        before = _call_behind.set(call)
        try:
            yield call
        finally:
            _call_behind.reset(before)
            self._running.remove(call)
            call.over.set()

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Ask the user; a form's defaults are filled in, and what does not fit the form is no answer."""
        # The clock of a call stops while the user is asked, so a server that keeps asking would never time out.
        calls = self._calls_behind()
        for call in calls:
            call.asked += 1
        if calls and all(call.asked > QUESTIONS for call in calls):
            return types.ErrorData(
                code=types.INVALID_REQUEST, message=f"It asked more than {QUESTIONS} questions in one call"
            )
        if isinstance(params, types.ElicitRequestURLParams):
            return types.ElicitResult(action=(await self._ask(params.message, {}, params.url)).action)
        schema = cast("Mapping[str, Any]", params.requested_schema)
        return self._filled(schema, await self._ask(params.message, schema))

    async def sent_elsewhere(self, error: MCPError) -> MCPError:
        """For a call that the server refuses until the user has been at an address: the error, with what they did."""
        asked: list[types.ElicitRequestURLParams] = []
        try:
            wanted = types.ElicitationRequiredErrorData.model_validate(error.data)
            asked = wanted.elicitations[:_MOST_ADDRESSES]
        except ValueError:
            return error
        for one in asked:
            if (said := await self._ask(one.message, {}, one.url)).action != "accept":
                why = said.why or "the user did not want to open it"
                return MCPError(error.code, f"{error} It wanted an address opened: {why}.")
        done = "The user agreed to open the address. Call it again once they say they are done there."
        return MCPError(error.code, f"{error} {done}")

    async def sample(self, context: ClientRequestContext, params: types.CreateMessageRequestParams) -> Any:
        """Pass the request to whoever has a model to lend."""
        if self._ports.sample is None:
            return types.ErrorData(code=types.INVALID_REQUEST, message="Sampling is not offered")
        return await self._ports.sample(self._server, params)

    async def roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        """The workspace, and the folders added to it."""
        return types.ListRootsResult.model_validate(
            {"roots": [{"uri": folder.as_uri(), "name": folder.name or str(folder)} for folder in self._folders]}
        )

    async def _ask(self, message: str, schema: Mapping[str, Any], url: str = "") -> Elicited:
        calls = self._calls_behind()
        elicitor, why = self._elicitor(calls)
        if elicitor is None:
            said = Elicited("decline", why=why)
        else:
            asking = self._in_turn(elicitor, message[:_MOST_OF_MESSAGE], schema, url)
            said = await _unless_over(asking, calls)
        if said.why:
            logger.info("A question of the MCP server %s was declined: %s", self._server, said.why)
            shown = " ".join(message.split())[:_MOST_OF_NOTE]
            for call in calls:
                call.notes.append(
                    f"[The MCP server `{self._server}` asked the user something while this ran: {shown!r}. "
                    f"It was declined: {said.why}.]"
                )
        return said

    async def _in_turn(self, elicitor: Elicitor, message: str, schema: Mapping[str, Any], url: str) -> Elicited:
        async with self._turn:
            return await elicitor.elicit(message, schema, server=self._server, url=url)

    def _calls_behind(self) -> list[CallBehind]:
        """The call that a question belongs to; all that run where the server does not tell, as older ones."""
        own = _call_behind.get()
        return [own] if own is not None and own in self._running else list(self._running)

    def _elicitor(self, calls: list[CallBehind]) -> tuple[Elicitor | None, str]:
        """Who can ask. A question that may be any of several clients' is put to none of them, and one that comes when
        no call runs to nobody: the user would not know what it is about.
        """
        if not calls:
            return None, "no call of this server was running"
        people = {id(one.elicitor): one.elicitor for one in calls}
        if len(people) > 1:
            return None, "it was not clear which call it belonged to"
        elicitor = next(iter(people.values())) or self._ports.elicitor
        return elicitor, "" if elicitor is not None else _NOBODY

    def _filled(self, schema: Mapping[str, Any], said: Elicited) -> types.ElicitResult:
        if said.action != "accept":
            return types.ElicitResult(action=said.action)
        from pydantic_core import to_json

        try:
            filled = SchemaParams(self._server, dict(schema)).load(to_json(dict(said.content)))
        except (InvalidParamsError, TypeError) as problem:
            logger.info("An answer for %s does not fit what was asked for: %s", self._server, problem)
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(action="accept", content=filled)


async def _unless_over(asking: Any, calls: list[CallBehind]) -> Elicited:
    """The answer. A question whose calls have all ended is taken away; while it is open their time stands still."""
    with ExitStack() as standing_still:
        for call in calls:
            if call.context is not None:
                standing_still.enter_context(call.context.asking_person())
        answer = asyncio.ensure_future(asking)
        ends = asyncio.gather(*(call.over.wait() for call in calls))
        try:
            await asyncio.wait({answer, ends}, return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else Elicited("cancel")
        finally:
            for one in (answer, ends):
                one.cancel()
            await asyncio.gather(answer, ends, return_exceptions=True)
