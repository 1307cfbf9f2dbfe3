"""Answers what servers ask of us while a call runs: questions for the person, the model's words, the folders."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, cast

import mcp_types as types

from ferrule.core.problems import InvalidParams
from ferrule.core.schema_params import SchemaParams
from ferrule.mcp_client.person import Asked, Ports, Reply

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mcp.client.session import ClientRequestContext

logger = logging.getLogger("ferrule.mcp")

_MOST_OF_MESSAGE = 4_000


class Answering:
    """The SDK's callbacks for one server."""

    def __init__(self, server: str, ports: Ports, folders: Sequence[Path]) -> None:
        self._server = server
        self._ports = ports
        self._folders = folders
        self._turn = asyncio.Lock()

    async def elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult | types.ErrorData:
        """Ask the person; a form's defaults are filled in, and what does not fit the form is no answer."""
        person = self._ports.person
        if person is None:
            return types.ElicitResult(action="decline")
        message = params.message[:_MOST_OF_MESSAGE]
        if isinstance(params, types.ElicitRequestURLParams):
            asked = Asked(self._server, message, url=params.url)
        else:
            asked = Asked(self._server, message, schema=cast("Mapping[str, Any]", params.requested_schema))
        async with self._turn:
            said = await person.reply(asked)
        return _result(asked, said)

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


def _result(asked: Asked, said: Reply) -> types.ElicitResult:
    if said.action != "accept" or asked.schema is None:
        return types.ElicitResult(action=said.action)
    from pydantic_core import to_json

    try:
        filled = SchemaParams(asked.server, dict(asked.schema)).load(to_json(dict(said.content or {})))
    except (InvalidParams, TypeError) as problem:
        logger.warning("An answer for %s does not fit what was asked for: %s", asked.server, problem)
        return types.ElicitResult(action="cancel")
    return types.ElicitResult(action="accept", content=filled)
