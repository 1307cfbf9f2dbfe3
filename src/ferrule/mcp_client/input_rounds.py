"""Calls that a newer server answers with questions first: each is put to whoever can answer, and the call repeated."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import mcp_types as types
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError

from ferrule.core.phrases import phrase
from ferrule.mcp_client.bounds import QUESTIONS
from ferrule.mcp_client.failures import Malformed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcp.client.session import ClientSession

_MOST_ROUNDS = 10
_SECONDS_BETWEEN_ROUNDS = 0.05


async def with_input(
    session: ClientSession, ask: Callable[[dict[str, Any]], Awaitable[dict[str, Any]]], params: dict[str, Any]
) -> dict[str, Any]:
    """The result of a call once every question has its answer; raises `MCPError` where one is refused."""
    result = await ask(params)
    rounds = 0
    while result.get("resultType") == "input_required":
        rounds += 1
        if rounds > _MOST_ROUNDS:
            raise Malformed(phrase("it asked for more after {count} rounds of questions", count=_MOST_ROUNDS))
        wanted = types.InputRequiredResult.model_validate(result)
        if len(wanted.input_requests or {}) > QUESTIONS:
            raise Malformed(phrase("it asked more than {count} questions in one call", count=QUESTIONS))
        again = dict(params)
        if wanted.request_state is not None:
            again["requestState"] = wanted.request_state
        if wanted.input_requests:
            answers = await asyncio.gather(
                *(_answer(session, key, request) for key, request in wanted.input_requests.items())
            )
            again["inputResponses"] = dict(zip(wanted.input_requests, answers, strict=True))
        else:
            await asyncio.sleep(_SECONDS_BETWEEN_ROUNDS * rounds)
        result = await ask(again)
    return result


async def _answer(session: ClientSession, key: str, request: types.InputRequest) -> dict[str, Any]:
    context = ClientRequestContext(
        session=session, request_id=key, meta=request.params.meta if request.params else None
    )
    answer = await session.dispatch_input_request(context, request)
    if isinstance(answer, types.ErrorData):
        raise MCPError.from_error_data(answer)
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)
