"""Which request of ours a line that cannot be read would have answered, so that nobody waits for another answer.

Programs also write lines on their output that are no answers: greetings, warnings, records of what they were asked.
Those may hold anything, even ids, and must not cost a call whose answer is still to come.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp_types import JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from ferrule.mcp_client.message_lines import answered_id

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcp_types import JSONRPCMessage, RequestId

_LOOKED_AT = 512
_ANSWER = re.compile(rb"""["']jsonrpc["']\s*:|^\s*(?:["']id["']\s*:\s*\d+\s*,\s*)?["']result["']\s*:""")
_REQUEST = re.compile(rb"""["']method["']\s*:""")
_LISTEN = "subscriptions/listen"
"""Open for as long as the connection is, and not answered meanwhile."""


def looks_like_answer(head: bytes) -> bool:
    """Whether the beginning of a line is that of an answer, whatever became of the rest."""
    head = head[:_LOOKED_AT].lstrip()
    own_keys = head[1:].partition(b"{")[0]  # further in stands what an answer holds, or what a record quotes
    return head.startswith(b"{") and _ANSWER.search(own_keys) is not None and _REQUEST.search(own_keys) is None


class OpenQuestions:
    """The session's requests that are not answered yet."""

    def __init__(self) -> None:
        self._open: set[RequestId] = set()

    def sent(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest) and message.method != _LISTEN:
            self._open.add(message.id)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            given_up = cancelled_request_id_from_params(message.params)
            if given_up is not None:
                self._open.discard(given_up)

    def came(self, message: JSONRPCMessage) -> None:
        if isinstance(message, (JSONRPCResponse, JSONRPCError)) and message.id is not None:
            self._open.discard(message.id)

    def answered_by(self, head: bytes, tail: bytes, others: Collection[int]) -> RequestId | None:
        """The one that a broken answer was for, among these and `others`: by its id, or because there is one alone."""
        if not looks_like_answer(head):
            return None
        told = answered_id(head, tail)
        return told if told in self._open or told in others else self.only(others)

    def only(self, others: Collection[int]) -> RequestId | None:
        """The one that is open, if there is no second; among these and `others`."""
        asked = {*self._open, *others}
        return asked.pop() if len(asked) == 1 else None
