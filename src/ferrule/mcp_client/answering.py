"""Answers what servers ask of us while a call runs: questions for the person, the model's words, the folders."""

from __future__ import annotations

import asyncio
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import mcp_types as types

from ferrule.core.elicitation import Elicited, Elicitor, current_elicitor
from ferrule.core.problems import InvalidParams
from ferrule.core.schema_params import SchemaParams

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from pathlib import Path

    from mcp.client.session import ClientRequestContext

    from ferrule.mcp_client.ports import Ports

logger = logging.getLogger("ferrule.mcp")

_MOST_OF_MESSAGE = 4_000
_NO_FIELDS: Mapping[str, Any] = {"type": "object", "properties": {}}


class Answering:
    """The SDK's callbacks for one server."""

    def __init__(self, server: str, ports: Ports, folders: Sequence[Path]) -> None:
        self._server = server
        self._ports = ports
        self._folders = folders
        self._turn = asyncio.Lock()
        self._running: list[Elicitor | None] = []

    @contextmanager
    def on_behalf(self) -> Generator[None]:
        """While a call runs: whoever can ask the person for it can be asked for what the server wants to know."""
        elicitor = current_elicitor()
        self._running.append(elicitor)
        try:
            yield
        finally:
            self._running.remove(elicitor)

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Ask the person; a form's defaults are filled in, and what does not fit the form is no answer."""
        elicitor = self._elicitor()
        if elicitor is None:
            return types.ElicitResult(action="decline")
        message = f"The MCP server {self._server} asks: {params.message[:_MOST_OF_MESSAGE]}"
        schema = _NO_FIELDS
        if isinstance(params, types.ElicitRequestURLParams):
            message += f"\nOpen this address only if you expect it: {params.url}"
        else:
            schema = cast("Mapping[str, Any]", params.requested_schema)
        async with self._turn:
            said = await elicitor.elicit(message, schema)
        return self._result(schema, said)

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

    def _elicitor(self) -> Elicitor | None:
        """Who can ask. A question that may be any of several clients' is put to none of them."""
        if (own := current_elicitor()) is not None:
            return own
        running = {id(one): one for one in self._running}
        if len(running) > 1:
            return None
        only = next(iter(running.values()), None)
        return only if only is not None else self._ports.elicitor

    def _result(self, schema: Mapping[str, Any], said: Elicited) -> types.ElicitResult:
        if said.action != "accept" or schema is _NO_FIELDS:
            return types.ElicitResult(action=said.action)
        from pydantic_core import to_json

        try:
            filled = SchemaParams(self._server, dict(schema)).load(to_json(dict(said.content)))
        except (InvalidParams, TypeError) as problem:
            logger.warning("An answer for %s does not fit what was asked for: %s", self._server, problem)
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(action="accept", content=filled)
