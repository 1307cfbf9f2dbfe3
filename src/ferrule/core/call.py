"""A call as a model asked for it, and the same call once it is known to be sound."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.access import READS_ANYTHING, WRITES_ANYTHING, Touch, Touches
from ferrule.core.errors import DefinitionError, ToolError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.context import Session
    from ferrule.core.tool import Tool

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


class Invocation:
    """A tool with validated parameters, ready to be authorised and run."""

    __slots__ = ("_info", "_session", "call_id", "params", "repairs", "tool")

    def __init__(self, tool: Tool[Any], params: Any, call_id: str, repairs: tuple[str, ...] = ()) -> None:
        self.tool = tool
        self.params = params
        self.call_id = call_id
        self.repairs = repairs
        self._session: Session | None = None
        self._info: CallInfo | None = None

    @property
    def session(self) -> Session | None:
        """Where it will run, once that is known; a relative path means nothing without it."""
        return self._session

    @session.setter
    def session(self, session: Session) -> None:
        if session is not self._session:
            self._session, self._info = session, None

    @property
    def info(self) -> CallInfo:
        """The tool's description of this call; the tool is asked once."""
        if self._info is None:
            self._info = self.described_now()
        return self._info

    def described_now(self) -> CallInfo:
        """The same asked anew: a link may lead elsewhere by now. Raises `DefinitionError` when the tool cannot say."""
        tool, session = self.tool, self._session
        if session is None:
            from ferrule.core.context import Session

            session = Session()
        try:
            said = tool.describe(self.params, session)
        except ToolError as error:
            said = CallInfo(refusal=error)
        except DefinitionError:
            raise
        except Exception as error:
            raise DefinitionError(f"`{tool.name}`: `describe` raised {type(error).__name__}: {error}") from error
        return _checked(tool, said)

    @property
    def touches(self) -> Touches:
        """What running it reads and writes."""
        said = self.info.touches
        if said is None:
            return READS_ANYTHING if self.tool.read_only else WRITES_ANYTHING
        return cast("Touches", said)

    @property
    def only_reads(self) -> bool:
        """Whether running it changes nothing: the tool says so of this call, and declares no write either."""
        return self.info.only_reads and not any(touch.write for touch in self.touches)

    @property
    def runs_alone(self) -> bool:
        """Whether nothing else of a batch may run beside it."""
        return self.info.runs_alone or not self.tool.concurrency_safe

    @property
    def signature(self) -> str:
        """What a permission rule is matched against: the command, the real path, …"""
        said = self.info.signature
        return self.tool.params.dump(self.params).decode() if said is None else said

    @property
    def always_rule(self) -> str:
        """What "always allow" would remember."""
        said = self.info.always_rule
        return self.tool.name if said is None else said

    @property
    def summary(self) -> str:
        """One short line for the user: what is about to happen."""
        said = self.info.summary
        return f"{self.tool.display_name} {self.signature}" if said is None else said

    def __repr__(self) -> str:
        return f"Invocation({self.tool.name!r}, {self.params!r}, call_id={self.call_id!r})"


def _checked(tool: Tool[Any], said: object) -> CallInfo:
    """What a tool said of a call, where that can be used; raises `DefinitionError` otherwise."""
    if said is None or said is NOTHING_SAID:
        return NOTHING_SAID
    if not isinstance(said, CallInfo):
        raise DefinitionError(f"`{tool.name}`: `describe` must return a CallInfo, not {type(said).__name__}.")
    for word in ("signature", "always_rule", "summary"):
        if not isinstance(value := getattr(said, word), (str, type(None))):
            raise DefinitionError(f"`{tool.name}`: `{word}` must be text, not {type(value).__name__}.")
    touches: Any = said.touches
    if touches is None:
        return said
    if isinstance(touches, Touch):
        return replace(said, touches=(touches,))
    several = isinstance(touches, Iterable) and not isinstance(touches, str)
    listed: Touches = tuple(cast("Any", touches)) if several else cast("Any", (touches,))
    if not all(isinstance(one, Touch) for one in cast("tuple[object, ...]", listed)):
        raise DefinitionError(f"`{tool.name}`: `touches` must be made with reads(…) and writes(…), not {touches!r}.")
    return said if listed is touches else replace(said, touches=listed)
