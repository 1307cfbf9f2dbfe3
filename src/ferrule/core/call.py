"""A call as a model asked for it, and the same call once it is known to be sound."""

from __future__ import annotations

import os
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.access import Touches
    from ferrule.core.context import Session
    from ferrule.core.tool import Tool

_numbers = count(1)
_process = os.urandom(3).hex()


def new_call_id() -> str:
    """An id for a call that came without one. No other process makes it, nor a model that counts `call_1`, `call_2`."""
    return f"call_{_process}_{next(_numbers)}"


class RawCall:
    """What came in: a tool's name and arguments nobody has looked at yet.

    `arguments` is JSON text (as OpenAI sends it) or a mapping (as Anthropic, Gemini and MCP do). `version` pins
    one version of the tool; without it the current one runs.
    """

    __slots__ = ("arguments", "has_own_id", "id", "name", "version")

    def __init__(
        self,
        name: str,
        arguments: str | bytes | Mapping[str, Any] | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the providers' word
        version: str | None = None,
    ) -> None:
        self.name = name
        self.arguments: Any = arguments
        self.id = id or new_call_id()
        self.has_own_id = bool(id)
        self.version = version

    def __repr__(self) -> str:
        return f"RawCall({self.name!r}, {self.arguments!r}, id={self.id!r}, version={self.version!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawCall) and (self.name, self.arguments, self.id, self.version) == (
            other.name,
            other.arguments,
            other.id,
            other.version,
        )

    __hash__ = None  # type: ignore[assignment]


class Invocation:
    """A tool with validated parameters, ready to be authorised and run."""

    __slots__ = ("call_id", "params", "repairs", "session", "tool")

    def __init__(self, tool: Tool[Any], params: Any, call_id: str, repairs: tuple[str, ...] = ()) -> None:
        self.tool = tool
        self.params = params
        self.call_id = call_id
        self.repairs = repairs
        self.session: Session | None = None
        """Where it will run, once that is known; a relative path means nothing without it."""

    @property
    def touches(self) -> Touches:
        """What running it reads and writes."""
        return self.tool.touches_in(self.params, self.session)

    @property
    def only_reads(self) -> bool:
        """Whether running it changes nothing: the tool says so of this call, and declares no write either."""
        return self.tool.only_reads(self.params) and not any(touch.write for touch in self.touches)

    @property
    def signature(self) -> str:
        """What a permission rule is matched against: the command, the real path, …"""
        return self.tool.signature_in(self.params, self.session)

    @property
    def abstract_rule(self) -> str:
        """What «always allow» would remember."""
        return self.tool.abstract_rule_in(self.params, self.session)

    @property
    def summary(self) -> str:
        """One short line for a person: what is about to happen."""
        return self.tool.summarise_in(self.params, self.session)

    def __repr__(self) -> str:
        return f"Invocation({self.tool.name!r}, {self.params!r}, call_id={self.call_id!r})"
