"""Requests that do not fit the protocol, told what is wrong with them.

The SDK answers every one with «Invalid request parameters» and nothing else, also a request that comes before the
handshake. Whoever writes a client, and a model that reads the error, can do nothing with that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcp import types
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext

_WORDLESS = "Invalid request parameters"
_MOST_PROBLEMS = 3


async def word_errors(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """A middleware of the SDK's server."""
    try:
        return await call_next(ctx)
    except ValidationError as error:
        raise MCPError(types.INVALID_PARAMS, f"`{ctx.method}` was not taken: {_problems(error)}.") from None
    except MCPError as error:
        if error.code == types.INVALID_PARAMS and error.message == _WORDLESS:
            words = f"`{ctx.method}` was not taken: this connection has had no `initialize` yet. Send that first."
            raise MCPError(types.INVALID_PARAMS, words) from None
        raise


def _problems(error: ValidationError) -> str:
    told: list[str] = []
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        place = ".".join(str(part) for part in one["loc"])
        words = f"`{place}`: {one['msg']}" if place else one["msg"]
        if words not in told:
            told.append(words)
    more = f", and {len(told) - _MOST_PROBLEMS} more" if len(told) > _MOST_PROBLEMS else ""
    return "; ".join(told[:_MOST_PROBLEMS]) + more
