"""The client at the other end, as a tool or the asker reaches it in the middle of a call, in either era."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from uuid import uuid4

from mcp import types
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.message import ServerMessageMetadata
from pydantic import BaseModel, ValidationError

from ferrule.core.elicitation import Elicited
from ferrule.core.errors import ToolError
from ferrule.core.loops import elsewhere

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp.server.context import ServerRequestContext

    from ferrule.mcp_server.running_call import RunningCall

R = TypeVar("R", bound=BaseModel)
LACKING = "requiredCapabilities"
"""In an error's details: what the client would have to be able to do."""
Capability = Literal["elicitation", "sampling", "roots"]

_current: ContextVar[Peer | None] = ContextVar("ferrule.mcp_peer", default=None)


def current_peer() -> Peer | None:
    """The client whose call is running; None outside of one."""
    return _current.get()


def set_peer(peer: Peer) -> None:
    _current.set(peer)


class Peer(ABC):
    """What the client can be asked. An `Elicitor` for whoever only wants that."""

    def __init__(self, context: ServerRequestContext[Any, Any]) -> None:
        self.context = context
        self._loop = asyncio.get_running_loop()

    @property
    def capabilities(self) -> types.ClientCapabilities:
        return self.context.session.client_capabilities or types.ClientCapabilities()

    @property
    def can_elicit(self) -> bool:
        """Whether it can show the person a form; one that says neither form nor URL means a form."""
        able = self.capabilities.elicitation
        return able is not None and (able.form is not None or able.url is None)

    @property
    def can_open(self) -> bool:
        """Whether it can show the person an address to open."""
        able = self.capabilities.elicitation
        return able is not None and able.url is not None

    async def elicit(
        self, message: str, schema: Mapping[str, Any], key: str | None = None, *, server: str = "", url: str = ""
    ) -> Elicited:
        """Show the person a message and a form; an address as such where the client can show it so."""
        if server:
            message = f"The MCP server {server} asks: {message}"
        params: types.ElicitRequestParams
        if url and self.can_open:
            params = types.ElicitRequestURLParams(message=message, url=url, elicitation_id=uuid4().hex)
        else:
            self._must(self.can_elicit, "elicitation")
            if url:
                message += f"\nOpen this address only if you expect it: {url}"
                schema = {"type": "object", "properties": {}}
            params = types.ElicitRequestFormParams(message=message, requested_schema=dict(schema))
        said = await self.request(types.ElicitRequest(params=params), types.ElicitResult, key)
        return Elicited(said.action, said.content or {})

    async def sample(
        self, params: types.CreateMessageRequestParams, key: str | None = None
    ) -> types.CreateMessageResult:
        """Have the client's model answer."""
        self._must(self.capabilities.sampling is not None, "sampling")
        return await self.request(types.CreateMessageRequest(params=params), types.CreateMessageResult, key)

    async def roots(self, key: str | None = None) -> types.ListRootsResult:
        """The folders that the client works in."""
        self._must(self.capabilities.roots is not None, "roots")
        return await self.request(types.ListRootsRequest(), types.ListRootsResult, key)

    async def request(self, request: Any, answer: type[R], key: str | None) -> R:
        """Send a request and read its answer; also for a tool that runs on another loop than the server."""
        sending = self._send(request, answer, key)
        return await (sending if asyncio.get_running_loop() is self._loop else elsewhere(sending, self._loop))

    @abstractmethod
    async def _send(self, request: Any, answer: type[R], key: str | None) -> R: ...

    def _must(self, able: bool, what: Capability) -> None:
        if not able:
            raise ToolError(
                f"The client cannot do this: it has no `{what}`.",
                suggestion="Use a client that declares this capability, or try another approach.",
                details={LACKING: {what: {}}},
            )


class HandshakePeer(Peer):
    """Asked with a request of our own, which travels beside the call (revisions up to 2025-11-25)."""

    async def _send(self, request: Any, answer: type[R], key: str | None) -> R:
        related = ServerMessageMetadata(related_request_id=self.context.request_id)
        try:
            return await self.context.session.send_request(request, answer, metadata=related)
        except (MCPError, NoBackChannelError) as error:
            raise ToolError(f"The client could not be asked: {error}") from None
        except ValidationError:
            raise ToolError("The client answered what is no answer to this.") from None


class StatelessPeer(Peer):
    """Asked by ending the request, and answered with the next one (2026-07-28)."""

    def __init__(self, context: ServerRequestContext[Any, Any], running: RunningCall) -> None:
        super().__init__(context)
        self._running = running

    async def _send(self, request: Any, answer: type[R], key: str | None) -> R:
        form: dict[str, Any] = request.model_dump(by_alias=True, mode="json", exclude_none=True)
        if request.method == "roots/list":
            form.setdefault("params", {})

        def read(given: Any) -> R:
            plain = given.model_dump(by_alias=True, exclude_none=True) if isinstance(given, BaseModel) else given
            return answer.model_validate(plain, by_name=False)

        return await self._running.ask(form, read, key)
