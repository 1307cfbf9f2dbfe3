"""Requests that carry the person's token, each in its own time.

The SDK's way of signing in lets one request through at a time, from its first byte to the head of its answer. A server
that answers slowly would be asked one thing after the other, and could not even be told to stop. So a request goes its
own way as long as there is nothing to sign in for, and only what needs a new token waits its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from mcp.client.auth import OAuthClientProvider

_UNKNOWN, _FORBIDDEN = 401, 403
_MORE_WANTED = "insufficient_scope"


class SignedRequests(httpx2.Auth):
    """Signs with the provider's token while it is good; the provider does the rest."""

    def __init__(self, provider: OAuthClientProvider) -> None:
        self._provider = provider
        self._has_looked = False  # whether the provider has read the tokens that were kept

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        context = self._provider.context
        if self._has_looked and (context.is_token_valid() or not context.can_refresh_token()):
            if context.is_token_valid() and context.current_tokens is not None:
                request.headers["Authorization"] = f"Bearer {context.current_tokens.access_token}"
            if not _wants_sign_in((yield request)):
                return
        flow = self._provider.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                response = yield outgoing
                self._has_looked = True
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


def _wants_sign_in(response: httpx2.Response) -> bool:
    wanted = response.headers.get("www-authenticate", "")
    return response.status_code == _UNKNOWN or (response.status_code == _FORBIDDEN and _MORE_WANTED in wanted)
