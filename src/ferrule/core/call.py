"""A call as a model asked for it, and the same call once it is known to be sound."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ferrule.core.access import Touch
    from ferrule.core.errors import ToolError

_numbers = count(1)
_process = ""


def _begin_process() -> None:
    global _process
    _process = os.urandom(3).hex()


_begin_process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_process)


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


@dataclass(slots=True, frozen=True)
class CallInfo:
    """What one call would do, as its tool describes it. Whatever is left out has a safe default.

    From this one description come the permission check, the question, the schedule of a batch, and the audit line.
    """

    touches: Iterable[Touch] | Touch | None = None
    """What it reads and writes. Left out, a read-only tool may read anything, and any other write anything."""
    signature: str | None = None
    """What the brackets of a rule are matched against: `deploy(staging)`. Left out, the arguments as JSON."""
    always_rule: str | None = None
    """What "always allow" remembers, such as `Edit:src/*`. Left out, the tool's name."""
    summary: str | None = None
    """One short line for the user: what is about to happen. Left out, the tool's name and the signature."""
    refusal: ToolError | None = None
    """Why the call would fail whoever approves it, so that nobody is asked in vain. It guards nothing: `run` must
    refuse by itself."""
    only_reads: bool = False
    """Whether this one call changes nothing although its tool can, as a preview does. It then runs as a read-only tool
    does, as long as it declares no write."""
    tentative: bool = False
    """Whether the call can be tried with its effects held back: it then runs without a question where nothing denies
    it, and asks for its outcome with `ToolContext.approve`. A tool that says this must try it so whenever
    `ToolContext.tentative` is true."""
    runs_alone: bool = False
    """Whether nothing else of a batch may run beside it, whatever it touches."""


NOTHING_SAID = CallInfo()
