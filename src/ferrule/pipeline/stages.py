"""What the stages of a call pass on: the call itself, the decision about it, and its record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from ferrule.core.errors import Stage

if TYPE_CHECKING:
    from ferrule.core.call import RawCall
    from ferrule.core.context import Caller, Session, ToolContext
    from ferrule.core.tool import Invocation


_LOOKUP = Stage.LOOKUP  # an enum's member takes long to look up


class Verdict(StrEnum):
    """What a policy says about a call: run it, ask the user first, or refuse it."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@dataclass(slots=True, frozen=True)
class Decision:
    """A verdict with its reason, and the rule that gave it if one did."""

    verdict: Verdict
    reason: str
    rule: str | None = None
    tentative: bool = False
    """With `allow`: the call may only be tried, with its effects held back until they are approved."""
    tried: Literal["", "first", "approved"] = ""
    """With `ask`: whether the call is tried with its effects held back, and asks about those. Either `first`, in place
    of a question that would only say the same in advance, or once this question is `approved`."""
    warning: str = ""
    """With `ask`: what the user should know besides the reason; a whole sentence."""
    opens: tuple[str, ...] = ()
    """With `ask`: the hosts that approval lets the call reach, as the question says; `*` is every public one."""
    deferred: bool = False
    """With `ask`: the approval is given elsewhere and later, so that an agent's turn pauses for it."""


@dataclass(slots=True)
class CallRecord:
    """What happened to one call.

    `arguments` is what came in, or what a hook replaced it with; redact it before you store or show it. `verdict` is
    `allow`, `ask` or `deny`, or empty when the call never got that far. `stage` is where the call ended (`record` when
    it went all the way) and `outcome` is `success` or an error type such as `timeout_error`.

    `duration` is the call's own time in seconds. Not included are `waited`, for the user's answers to a confirmation or
    to questions of the tool, and `queued`, for its turn where the tool runs one call at a time.
    """

    call_id: str
    parent_id: str | None
    session_id: str
    caller: Caller
    tool: str
    version: str
    kind: str
    arguments: Any
    started: float
    duration: float = 0.0
    waited: float = 0.0
    queued: float = 0.0
    verdict: str = ""
    reason: str = ""
    rule: str | None = None
    answer: str | None = None
    box: str | None = None
    """The box that a command ran in: `look` with its effects held back, `work` for real. None for other tools."""
    effects: dict[str, Any] | None = None
    """What a tried call would change, whether or not it was approved (`Effects.as_data`)."""
    stage: str = "record"
    outcome: str = "success"
    error: str | None = None
    result_length: int = 0
    cached: bool = False
    abandoned: bool = False
    repairs: tuple[str, ...] = ()


class Call:
    """One call on its way through the stages. Each stage reads what the ones before it have added.

    `raw`, `session`, `parent`, `timeout` and `record` are there from the start; `invocation` from stage two on,
    `decision` from stage three on, and `context` and `seconds` when the tool is about to run.
    """

    __slots__ = (
        "_deps", "blocked", "context", "decided", "decision", "invocation", "parent", "raw", "record", "seconds",
        "session", "stage", "timeout",
    )  # fmt: skip

    invocation: Invocation
    decision: Decision
    decided: tuple[Invocation, Decision] | None
    """A decision that was made before stage three. It is valid for that invocation only: a hook may replace it."""
    context: ToolContext | None
    """What the tool is given; None if nothing needs it."""
    seconds: float
    """How long the tool may run."""
    stage: Stage
    """The stage it is in: what its record says if it ends here. From `format` on, the tool has run."""
    blocked: float
    """How many seconds the tool blocked its event loop, if that is worth noting."""

    def __init__(
        self,
        raw: RawCall,
        session: Session,
        parent: ToolContext | None = None,
        timeout: float | None = None,
        deps: Any = None,
    ) -> None:
        self.raw = raw
        self.session = session
        self.parent = parent
        self.timeout = timeout
        self._deps = deps
        self.stage = _LOOKUP
        self.blocked = 0.0
        self.decided = None
        self.record = CallRecord(
            raw.id, parent.call_id if parent is not None else None, session.id, session.caller,
            raw.name, "", "", raw.arguments, 0.0,
        )  # fmt: skip

    @property
    def deps(self) -> Any:
        """What its tool gets as `ToolContext.deps`: its own, or those of the call that made it, or of the session."""
        if self._deps is not None:
            return self._deps
        above = self.parent.deps if self.parent is not None else None
        return above if above is not None else self.session.deps
