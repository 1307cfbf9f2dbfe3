"""What goes over the wire: every request and every answer, declared once for the service, its client and OpenAPI."""

from __future__ import annotations

import re
from dataclasses import fields
from datetime import datetime  # noqa: TC003 - read at run time by pydantic
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from ferrule.app.service_settings import LIMITS, ToolLimitSettings
from ferrule.core.access import Mode  # noqa: TC001 - read at run time by pydantic
from ferrule.service.vocabulary import FINISHED, SCOPES, ApprovalDecision, ApprovalScope, ApprovalStatus, Scope, Status

NAME = r"^[a-z0-9][a-z0-9._-]{0,62}$"
_NAME = re.compile(NAME)
PRINTED = r"^[^\x00-\x1f\x7f]*$"

MOST_BATCH = 100
LONGEST_WAIT = 55.0
"""Seconds that one request may wait for its call; balancers commonly cut a request at 60."""


def check_name(name: str) -> str:
    """The name of a tenant, user or role: it is part of paths and of audit rows."""
    if not _NAME.fullmatch(name) or ".." in name or name.endswith("."):
        raise ValueError(
            "must be 1 to 63 lower-case letters, digits, `.`, `_` or `-`, and start with a letter or digit"
        )
    return name


def check_audit_days(days: float) -> float:
    if 0 < days < 1:
        raise ValueError("must be 0 to keep all, or 1 or more")
    return days


Name = Annotated[
    str,
    AfterValidator(check_name),
    WithJsonSchema({"type": "string", "minLength": 1, "maxLength": 63, "pattern": NAME}),
]
Label = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]


class Sent(BaseModel):
    """A request body. Unknown keys are refused: a misspelt limit must not be a limit that does not hold. Nor is a
    `false` read as 0, or a text as a number.
    """

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, strict=True)


class Received(BaseModel):
    """An answer. A newer service may say more than this client knows."""

    model_config = ConfigDict(extra="ignore")


def _list_of(name: str, **items: type[Received]) -> type[Received]:
    """An answer that holds a list alone."""
    fields: dict[str, Any] = {one: (list[item], ...) for one, item in items.items()}
    return create_model(name, __base__=Received, **fields)


def _page_of(name: str, **items: type[Received]) -> type[Received]:
    """A page of a longer list."""
    following = Field(description="Give it as `cursor` to read on; null at the end.")
    return create_model(name, __base__=_list_of(name, **items), next=(str | None, following))


# Calls


class CallRequest(Sent):
    tool: Annotated[str, Field(min_length=1, max_length=256)]
    version: Annotated[str, Field(max_length=64, pattern=r"^[\w.+-]+$")] | None = None
    arguments: dict[str, Any] | str = Field(default_factory=dict, description="An object, or JSON text of one.")
    session: Label | None = Field(default=None, description="Calls of one session share a shell and what was read.")
    timeout: Annotated[float, Field(gt=0, le=86_400)] | None = Field(default=None, description="Seconds it may run.")
    metadata: Annotated[dict[str, Annotated[str, Field(max_length=1000)]], Field(max_length=32)] = Field(
        default_factory=dict
    )


class BatchCall(Sent):
    id: Label | None = Field(default=None, description='Its name for others: `{"$ref": "ID.path"}` is its data.')
    tool: Annotated[str, Field(min_length=1, max_length=256)]
    version: Annotated[str, Field(max_length=64, pattern=r"^[\w.+-]+$")] | None = None
    arguments: dict[str, Any] | str = Field(default_factory=dict)


class BatchRequest(Sent):
    calls: Annotated[list[BatchCall], Field(min_length=1, max_length=MOST_BATCH)]
    session: Label | None = None


class CallError(Received):
    type: str
    message: str
    details: Any = None
    suggestion: str | None = None


class CallResult(Received):
    success: bool
    llm_content: str
    display_content: str
    data: Any = None
    error: CallError | None = None
    metadata: dict[str, Any] = {}
    attachments: list[dict[str, Any]] = []


class StoredCall(Received):
    id: str
    tool: str
    version: str | None
    status: Status
    user: str
    session: str | None
    batch: str | None
    approval: str | None = Field(description="The approval that it waits for, or waited for.")
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    metadata: dict[str, str]
    result: CallResult | None

    @property
    def finished(self) -> bool:
        return self.status in FINISHED


class Batch(Received):
    id: str
    calls: list[StoredCall]


class CallPage(Received):
    calls: list[StoredCall]
    next: str | None = Field(description="Give it as `cursor` to read on; null at the end.")


Happening: TypeAlias = Literal[
    "call.created", "call.awaiting_approval", "call.awaiting_result", "approval.decided", "approval.expired",
    "call.started", "call.succeeded", "call.failed", "call.cancelled", "call.expired", "call.lost", "reset",
]  # fmt: skip
"""What both the events of one call and those of a tenant tell of."""


class Event(Received):
    """One server-sent event of a call; `id` is what `Last-Event-ID` resumes after."""

    id: int
    type: Literal[Happening, "call.progress", "call.output"]
    call: str
    at: datetime
    data: dict[str, Any]


class FeedEvent(Received):
    """One server-sent event of `/v1/events`; `id` is what `Last-Event-ID` resumes after."""

    id: str
    type: Literal[Happening, "tools.changed"]
    call: str | None
    user: str | None = Field(description="Whose call it is.")
    at: datetime
    data: dict[str, Any]


class ToolSummary(Received):
    name: str
    display_name: str
    kind: Literal["readonly", "write", "execute"]
    version: str
    category: str
    tags: list[str]
    description: str
    enabled: bool


class ToolList(Received):
    tools: list[ToolSummary]
    switched_off: list[str] = Field(
        default=[], description="Tools that are switched off for the tenant, listed for users with `Admin(tools)`."
    )


class ToolDetail(ToolSummary):
    parameters: dict[str, Any]
    long_description: str
    roles: list[str] = Field(default=[], description="Whom it is for; empty: all.")
    versions: list[str] = Field(default=[], description="All that there are, the oldest first.")
    definition: Any = Field(default=None, description="In the form of the dialect that was asked for.")


class DefinitionList(Received):
    dialect: str
    tools: list[dict[str, Any]]


class ToolSwitch(Sent):
    enabled: bool


# Approvals


class ApprovalRecord(Received):
    id: str
    call: str
    tool: str
    tool_version: str
    user: str
    arguments: Any
    args_hash: str
    summary: str
    reason: str
    warning: str | None
    rule: str = Field(description="What `always` would allow from then on; empty where only `once` is possible.")
    covers: str = Field(default="", description="A call that `rule` would allow.")
    not_covers: str = Field(default="", description="A similar call that would still ask.")
    preview: str = Field(default="", description="What the call would change, as a diff or a sentence, where known.")
    effects: Any = Field(
        description="What a command did when it was tried with its effects held back. `lines` sums it up, and `files` "
        "names every file, removals first. A list of approvals leaves out `more_files` of them; a single one has all."
    )
    status: ApprovalStatus
    scope: ApprovalScope | None
    decided_by: str | None
    decision_reason: str | None
    created_at: datetime
    expires_at: datetime
    decided_at: datetime | None


ApprovalPage = _list_of("ApprovalPage", approvals=ApprovalRecord)


class DecisionRequest(Sent):
    decision: ApprovalDecision
    args_hash: Annotated[str, Field(min_length=64, max_length=64)]
    scope: ApprovalScope = "once"
    reason: Annotated[str, Field(max_length=2000)] = ""


# Who


def _describe_limits(schema: dict[str, Any]) -> None:
    for one in fields(ToolLimitSettings):
        schema["properties"][one.name]["anyOf"][0]["minimum"] = 0
        schema["properties"][one.name].update(one.metadata)


class ToolLimitValues(Sent, ToolLimitSettings):
    """0 is no limit."""

    model_config = ConfigDict(json_schema_extra=_describe_limits)

    @field_validator(*LIMITS)
    @classmethod
    def _check_limit(cls, limit: float | None) -> float | None:
        if limit is not None and limit < 0:
            raise PydanticKnownError("greater_than_equal", {"ge": 0})
        return limit


class LimitValues(ToolLimitValues):
    """Limits of a tenant, a user or a key; each holds by itself. `tools` are for calls of one tool, by its name."""

    tools: Annotated[dict[Annotated[str, Field(max_length=256)], ToolLimitValues], Field(max_length=500)] | None = None


AuditDays = Annotated[float, Field(ge=0, le=36_500), AfterValidator(check_audit_days)]


class TenantRequest(Sent):
    name: Name
    display_name: Annotated[str, Field(max_length=200, pattern=PRINTED)] = ""
    limits: LimitValues = LimitValues()


class TenantChange(Sent):
    display_name: Annotated[str, Field(max_length=200, pattern=PRINTED)] | None = None
    limits: LimitValues | None = None
    enabled: bool | None = None
    audit_days: AuditDays | None = Field(default=None, description="How long audit rows are kept; 0 keeps all.")


class Tenant(Received):
    name: str
    display_name: str
    operator: bool = Field(description="Its administrators may manage tenants.")
    enabled: bool
    limits: LimitValues
    disabled_tools: list[str]
    audit_days: float | None = Field(description="How long audit rows are kept; null as the service does, 0 for ever.")
    created_at: datetime


TenantList = _page_of("TenantList", tenants=Tenant)


class UserRequest(Sent):
    name: Name
    roles: Annotated[list[Name], Field(min_length=1, max_length=16)] = ["member"]
    limits: LimitValues = LimitValues()


class UserChange(Sent):
    roles: Annotated[list[Name], Field(min_length=1, max_length=16)] | None = None
    limits: LimitValues | None = None
    enabled: bool | None = None
    allow: list[str] | None = Field(default=None, description="Rules that approvals with `always` have added.")


class User(Received):
    name: str
    roles: list[str]
    enabled: bool
    limits: LimitValues
    allow: list[str]
    created_at: datetime


UserList = _page_of("UserList", users=User)


class RoleBody(Sent):
    """Rules as in `ferrule.toml`, over tools and, as `Admin(…)`, over administration."""

    mode: Mode | None = None
    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []


class TenantRole(Received):
    name: str
    mode: str | None
    allow: list[str]
    ask: list[str]
    deny: list[str]


RoleList = _list_of("RoleList", roles=TenantRole)


class KeyRequest(Sent):
    user: Name
    name: Annotated[str, Field(max_length=100, pattern=PRINTED)] = ""
    scopes: Annotated[list[Scope], Field(min_length=1)] = list(SCOPES)
    expires_in: Annotated[float, Field(gt=0, le=10 * 365 * 86_400)] | None = Field(default=None, description="Seconds.")
    limits: LimitValues = LimitValues()
    tenant: Name | None = Field(default=None, description="Another tenant; for administrators of tenants alone.")


class RotateRequest(Sent):
    overlap: Annotated[float, Field(ge=0, le=30 * 86_400)] = Field(
        default=0, description="Seconds that the old secret still works."
    )


class ApiKey(Received):
    id: str
    user: str
    name: str
    scopes: list[Scope]
    hint: str = Field(description="How the secret begins.")
    limits: LimitValues
    created_at: datetime
    expires_at: datetime | None
    revoked: bool


class NewApiKey(ApiKey):
    secret: str = Field(description="Shown once; the service keeps a hash alone.")


KeyList = _page_of("KeyList", keys=ApiKey)


# Records


class AuditPage(Received):
    rows: list[dict[str, Any]]
    next: int | None


class AuditVerification(Received):
    ok: bool
    rows: int
    first_bad_seq: int | None
    why: str
    head: str
    removed_to: int = Field(description="The last row that retention removed; 0 where all are there.")


class CallReport(Received):
    """A call with all that is on record of it."""

    call: StoredCall
    arguments: Any
    attempts: int = Field(description="How often it was begun; above 1 after a crash.")
    cost: float
    cancelling: bool = Field(description="Whether somebody has asked for its end.")
    events: list[Event] = Field(description="The first 500.")
    rows: list[dict[str, Any]] = Field(description="Audit rows of the call and of those that it made, by `parent`.")


class StatisticsFigures(Received):
    calls: int
    failed: int = Field(description="With those that were denied, expired or lost.")
    denied: int
    cost: float
    p50: float | None = Field(description="Seconds, of calls that ran.")
    p95: float | None
    waited: float | None = Field(description="Seconds from the request to the start, on average; approvals included.")


class StatisticsPoint(StatisticsFigures):
    at: datetime


class NamedStatistics(StatisticsFigures):
    name: str


class CallStatistics(Received):
    period: str
    by: str
    step: float = Field(description="Seconds between two points.")
    since: datetime
    total: StatisticsFigures
    points: list[StatisticsPoint]
    names: list[NamedStatistics] = Field(description="The hundred with most calls.")


class RuleTest(Sent):
    """A call, and roles or rules that are not stored yet to judge it by."""

    tool: Annotated[str, Field(min_length=1, max_length=256)]
    arguments: dict[str, Any] = {}
    roles: Annotated[list[Name], Field(max_length=16)] = []
    mode: Mode | None = None
    allow: list[str] = []
    ask: list[str] = []
    deny: list[str] = []


class RuleVerdictPart(Received):
    what: str
    verdict: Literal["allow", "ask", "deny"]
    because: str


class RuleVerdict(Received):
    verdict: Literal["allow", "ask", "deny"]
    reason: str
    rule: str | None
    parts: list[RuleVerdictPart]
    needed: str = Field(description="What would let it run without a question; empty when it runs.")


class ServerRecord(Received):
    name: str
    kind: Literal["mcp", "plugin"]
    address: str = Field(description="Its program or host, without what may be secret.")
    trusted: bool
    problem: str
    tools: list[str]


class ServerList(Received):
    servers: list[ServerRecord]
    notes: list[str] = Field(description="What the operator should know, such as servers that are not trusted.")


class DailyUsage(Received):
    """Calls of one day, in UTC."""

    day: str
    calls: int
    by_tool: dict[str, int]
    cost: float = Field(description="What the calls that ended on that day said they cost.")
    cost_by_tool: dict[str, float]


class Identity(Received):
    """Who a key speaks for, and what it may do."""

    tenant: str
    user: str
    roles: list[str]
    scopes: list[Scope]
    key: str
    operator: bool = Field(default=False, description="Whether the tenant manages the others.")
    areas: list[str] = Field(default=[], description="What the roles let the caller administer, as in `Admin(…)`.")


# Intents


IntentCode = Annotated[str, Field(min_length=1, max_length=48, pattern=r"^[A-Za-z][A-Za-z0-9_-]*$")]


class IntentBody(Sent):
    """What an intent is. `handler` is `{"type": "query" | "data" | "form" | "tool" | "chain" | …, …}`."""

    name: Annotated[str, Field(max_length=200, pattern=PRINTED)] = ""
    description: Annotated[str, Field(min_length=1, max_length=2000)]
    examples: Annotated[list[Annotated[str, Field(min_length=1, max_length=500)]], Field(max_length=20)] = []
    parameters: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}}, description="JSON Schema of the inputs."
    )
    handler: dict[str, Any]
    roles: Annotated[list[Name], Field(max_length=16)] = Field(default=[], description="Whom it is for; empty: all.")
    cache: bool = Field(default=False, description="Whether answers made of it may be used again for a while.")
    enabled: bool = True


class IntentChange(Sent):
    enabled: bool | None = None
    version: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = Field(
        default=None, description="Make this version the current one."
    )


class IntentRecord(Received):
    code: str
    version: int
    name: str
    description: str
    examples: list[str]
    parameters: dict[str, Any]
    handler: dict[str, Any]
    roles: list[str]
    cache: bool
    enabled: bool
    tool: str = Field(description="Its name among the tools, and in rules.")
    created_by: str
    created_at: datetime
    warnings: list[str] = Field(default=[], description="What a model may stumble over.")


IntentList = _list_of("IntentList", intents=IntentRecord)


class EntityFieldRecord(Received):
    name: str
    type: str
    required: bool
    nullable: bool
    key: bool
    description: str


class EntityRecord(Received):
    name: str
    description: str
    source: Literal["model", "database"]
    writable: bool
    key: list[str]
    fields: list[EntityFieldRecord]


EntityList = _list_of("EntityList", entities=EntityRecord)


# Requests


def check_time_zone(name: str) -> str:
    """A time zone that is known here."""
    from zoneinfo import ZoneInfo

    try:
        return name if name == "UTC" else ZoneInfo(name).key
    except (OSError, ValueError, KeyError):
        raise ValueError("must be a time zone such as `Europe/Berlin`, or UTC") from None


TimeZone = Annotated[str, AfterValidator(check_time_zone), Field(max_length=64)]


class RequestBody(Sent):
    """A request in words (`text`), or an explicit `intent` with its `inputs`."""

    text: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    intent: IntentCode | None = None
    inputs: dict[str, Any] = {}
    session: Label | None = Field(default=None, description="Requests of one session are one conversation.")
    locale: Annotated[str, Field(max_length=35, pattern=r"^[A-Za-z0-9_-]*$")] = Field(
        default="", description="The language to answer in, such as `en` or `zh-CN`."
    )
    time_zone: TimeZone = Field(
        default="UTC", description="Where the user is, such as `Europe/Berlin`: it says which day `today` is."
    )
    cache: bool = Field(default=True, description="Whether an answer from before will do.")
    stream: bool = Field(default=False, description="Answer with server-sent events.")

    @model_validator(mode="after")
    def _one_of_both(self) -> RequestBody:
        if (self.text is None) == (self.intent is None):
            raise ValueError("give either `text` or `intent`")
        if self.text is not None and self.inputs:
            raise ValueError("`inputs` belong to an `intent`")
        if self.text is not None and not self.text.strip():
            raise ValueError("`text` is empty")
        return self


class MissingInput(Received):
    name: str
    type: Any
    title: str
    description: str


class CachedAnswer(Received):
    """An answer from before, and the question that it was an answer to."""

    question: str
    answer: str
    asked_at: datetime
    match: Literal["exact", "confirmed", "similar"] = Field(
        description="`exact`: the same question; `confirmed`: the model said that both ask the same; `similar`: a "
        "suggestion alone, which may be about something else."
    )


class RequestCall(Received):
    id: str
    tool: str
    success: bool


class WaitingRequestCall(Received):
    """A call in a request that waits, for its `result` from elsewhere or for an `approval`."""

    id: str
    tool: str
    arguments: Any
    kind: Literal["result", "approval"]
    summary: str
    reason: str
    details: Any = Field(default=None, description="What the tool says of it, such as the number of a ticket.")
    approval: str | None = Field(default=None, description="The approval that it waits for.")


class ResultError(Sent):
    """Why a call that was made elsewhere has no result."""

    message: str = Field(min_length=1, description="What went wrong, for the model.")
    suggestion: str | None = Field(default=None, description="What the model can do.")


class RequestResults(Sent):
    """What calls of a request gave that were made elsewhere, by the ids of the calls in `waiting`."""

    results: Annotated[dict[str, Any], Field(max_length=MOST_BATCH)] = Field(default={}, description="Values.")
    errors: Annotated[dict[str, ResultError], Field(max_length=MOST_BATCH)] = Field(
        default={}, description="Of calls that failed."
    )

    @model_validator(mode="after")
    def _each_once(self) -> RequestResults:
        if not self.results and not self.errors:
            raise ValueError("give `results`, `errors` or both")
        if both := self.results.keys() & self.errors.keys():
            raise ValueError(f"`{min(both)}` has a result and an error")
        return self


class RequestAnswer(Received):
    id: str
    status: Literal[Status, "needs_input"]
    route: Literal["intent", "cache", "tool", "words"] | None = Field(description="How it was answered.")
    intent: str | None
    answer: str = Field(description="In words.")
    data: Any = None
    missing: list[MissingInput] = Field(default=[], description="What a form still needs, with `needs_input`.")
    cache: CachedAnswer | None = Field(default=None, description="Where the answer is one from before.")
    similar: CachedAnswer | None = Field(
        default=None, description="An answer to a similar question; not an answer to this one."
    )
    calls: list[RequestCall] = []
    waiting: list[WaitingRequestCall] = Field(default=[], description="What it waits for, where a call of it waits.")
    approval: str | None = Field(default=None, description="The approval that it waits for, or waited for.")
    error: CallError | None = None
    created_at: datetime
    finished_at: datetime | None

    @property
    def finished(self) -> bool:
        return self.status in FINISHED or self.status == "needs_input"


class Removed(Received):
    removed: int


class ProblemError(Received):
    pointer: str
    detail: str


class ProblemDetails(Received):
    """RFC 9457: why a request could not be taken. What a tool or a rule decides is a call instead."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    request_id: str
    errors: list[ProblemError] = []
    suggestion: str | None = None
