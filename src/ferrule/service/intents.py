"""Intents of a tenant: what they are, how they are stored, and each as a tool among the caller's.

Because an intent is a tool, one function decides whether it is shown and run, the same rules apply to it
(`intent__refund`), and its runs are stored, approved, limited and recorded as all calls are.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
from contextvars import ContextVar
from time import time
from typing import TYPE_CHECKING, Annotated, Any, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import delete, func, insert, select, update

from ferrule.core.call import CallInfo
from ferrule.core.description import Description
from ferrule.core.errors import DefinitionError, ErrorKind, ToolError
from ferrule.core.lint import lint_tool
from ferrule.core.problems import InvalidParamsError
from ferrule.core.schema_params import SchemaParams
from ferrule.core.tool import Kind, Style, Tool
from ferrule.service.directory import CALLER_GONE, DirectoryProblem, current_call, find_role, note_change
from ferrule.service.documents import shown_time, storable
from ferrule.service.intent_handlers import HandlerError, IntentCall, KnownThings, missing_inputs, read_handler
from ferrule.service.messages import PRINTED, IntentBody, IntentCode, Name
from ferrule.service.tables import intents

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection, Row

    from ferrule.core.context import Session, ToolContext
    from ferrule.core.params import Params
    from ferrule.service.access import Access, Allowed
    from ferrule.service.database import Database
    from ferrule.service.directory import Directory, Principal
    from ferrule.service.entity_catalog import EntityCatalog
    from ferrule.service.intent_handlers import IntentHandler
    from ferrule.service.writer import GroupWriter

logger = logging.getLogger("ferrule.service")

PREFIX = "intent__"
MOST_INTENTS = 500
"""Intents of one tenant: every model is shown all that its user may use."""
MOST_DEEP = 2
"""Intents within intents. A chain has up to 20 steps, so that each level more is twenty times the calls."""
_depth: ContextVar[int] = ContextVar("intents_deep", default=0)
_MOST_KEPT = 5_000
_IGNORED_RULES = frozenset({"F002", "F003", "F013", "F031"})
"""An intent is named by its business, not by a verb, and its handler says what it touches."""


def tool_name(code: str) -> str:
    """What an intent is called among the tools."""
    return PREFIX + code


def _digest(body: IntentBody) -> str:
    """Part of the version that approvals and answers are for: one deleted and made anew is the first version again."""
    return hashlib.sha256(body.model_dump_json(exclude={"enabled"}).encode()).hexdigest()[:8]


class IntentTool(Tool[Any]):
    """One intent of a tenant."""

    def __init__(self, code: str, version: int, body: IntentBody, world: IntentWorld) -> None:
        self.code = code
        self.body = body
        self._world = world
        self._handler, self._chosen = read_handler(body.handler, world.handlers)
        kind = Kind(self._handler.kind(self._chosen))
        self.calls_tools = self._handler.calls_tools(self._chosen)
        """Whether it calls tools, so that it is not run again by itself after a crash."""
        self.answers_may_be_kept = body.cache and kind is Kind.READONLY
        """Whether an answer made of it may be used again; of what it calls the tools themselves say so."""
        notes = tuple(f"For example: {example}" for example in body.examples)
        self._settle(
            tool_name(code),
            {
                "kind": kind, "version": f"{version}.{_digest(body)}", "category": "intents",
                "display_name": body.name or code,
                "description": Description(body.description, usage_notes=notes), "roles": body.roles,
                "may_block": False,
            },
            Style.ASYNC,
        )  # fmt: skip
        self._intent_params = SchemaParams(self.name, self._schema())

    def _schema(self) -> dict[str, Any]:
        """What the model and the pipeline hold inputs to; a form takes what there is so far."""
        schema: dict[str, Any] = {
            "type": "object",
            "properties": {},
            "additionalProperties": False,
            **self.body.parameters,
        }
        if self._handler.asks_for_missing:
            schema.pop("required", None)
        return schema

    def _compile(self) -> Params[Any]:
        return self._intent_params

    def _try_out(self) -> None:
        super()._try_out()
        self._intent_params.compile()

    @property
    def is_form(self) -> bool:
        return self._handler.asks_for_missing

    def missing(self, inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
        return missing_inputs(self.body.parameters, inputs) if self.is_form else []

    def accepts(self, inputs: Mapping[str, Any]) -> bool:
        """Whether inputs fit its parameters, as far as they are there."""
        try:
            self._intent_params.load(json.dumps(inputs))
        except InvalidParamsError:
            return False
        return True

    def describe(self, params: Any, session: Session) -> CallInfo:
        if self.missing(params):
            return CallInfo((), only_reads=True)
        return self._handler.describe(self._chosen, self.code, params)

    async def run(self, params: Any, context: ToolContext) -> Any:
        depth = _depth.get() + 1
        if depth > MOST_DEEP:
            raise ToolError(f"Intents call intents at most {MOST_DEEP} deep.", suggestion="Call the tools themselves.")
        _depth.set(depth)
        allowed = await self._world.allowed()
        call = IntentCall(
            self.code, dict(params), context, self._world.entities, allowed.roles, allowed.tools, self.body.parameters
        )
        return await self._handler.run(self._chosen, call)

    def check_handler(self, known: KnownThings) -> None:
        """Raise where the handler can never work for whoever makes the intent."""
        self._handler.check(self._chosen, self.body.parameters, known)

    def _check_parameters(self) -> None:
        """A form's tool requires nothing, so that what its parameters say is looked at by itself."""
        given = self.body.parameters
        if given.get("type", "object") != "object":
            raise HandlerError('`parameters` must describe an object: {"type": "object", "properties": …}.')
        SchemaParams(self.name, given).compile()
        known: Any = given.get("properties", {})
        if lost := [name for name in given.get("required", ()) if name not in known]:
            raise HandlerError(f"`parameters` requires `{lost[0]}`, which is not among its properties.")

    def lint(self) -> list[str]:
        """What a model may stumble over; raises `HandlerError` for what cannot work."""
        self._check_parameters()
        named = copy.copy(self)
        named.name = self.code
        ignored = _IGNORED_RULES | {"F030"} if self.calls_tools else _IGNORED_RULES
        findings = lint_tool(named, ignore=ignored)
        if wrong := next((one for one in findings if one.severity == "error"), None):
            raise HandlerError(f"{wrong.message}. {wrong.suggestion}")
        return [f"{one.where}: {one.message}. {one.suggestion}" for one in findings]


class IntentWorld:
    """What the intents of this instance work with, and the tools that they are."""

    directory: Directory
    writer: GroupWriter
    access: Access
    """Set by whoever opens the service, before any call."""

    def __init__(self, database: Database, entities: EntityCatalog, handlers: Mapping[str, IntentHandler[Any]]) -> None:
        self.database = database
        self.entities = entities
        self.handlers = handlers
        self._tools: dict[Any, IntentTool | None] = {}

    async def allowed(self) -> Allowed:
        """The rights of the call that a tool runs for, as they are now."""
        principal = await self.directory.of_call(current_call.get())
        if principal is None:
            raise ToolError(CALLER_GONE, kind=ErrorKind.PERMISSION)
        return self.access.of(principal)

    def tools_of(self, principal: Principal) -> list[Tool[Any]]:
        """The current intents of a tenant. One whose handler is no longer there is left out."""
        if len(self._tools) > _MOST_KEPT:
            self._tools.clear()
        found: list[Tool[Any]] = []
        for row in principal.intents:
            key = tuple(row)
            if key not in self._tools:
                self._tools[key] = self._made(row)
            if (tool := self._tools[key]) is not None:
                found.append(tool)
        return found

    def _made(self, row: Row[Any]) -> IntentTool | None:
        try:
            return IntentTool(row.code, row.version, IntentBody.model_validate_json(row.definition), self)
        except (HandlerError, DefinitionError, ValidationError) as error:
            logger.warning("tenant=%s: the intent %s was left out: %s", row.tenant, row.code, error)
            return None

    async def make(self, code: str, body: IntentBody, allowed: Allowed, tenant: str, user: str) -> dict[str, Any]:
        """Check an intent and store it as the current version, for every instance; gives its document."""
        try:
            tool = IntentTool(code, 1, body, self)
            warnings = await self.entities.run(tenant, lambda: self._checked(tool, allowed, tenant))
        except (HandlerError, DefinitionError) as error:
            raise DirectoryProblem("invalid", str(error)) from None
        except ToolError as error:
            raise DirectoryProblem("invalid", f"{error.message} {error.suggestion or ''}".strip()) from None
        return await self.store(code, body, tenant, user, warnings)

    async def store(
        self, code: str, body: IntentBody, tenant: str, user: str, warnings: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Make a checked intent the current version, for every instance; gives its document."""

        def change(connection: Connection) -> Row[Any]:
            made = put_intent(connection, tenant, code, body, user)
            note_change(connection, self.database)
            return made

        row = await self.writer.change(tenant, change)
        self.directory.forget()
        return intent_document(row, warnings)

    def _checked(self, tool: IntentTool, allowed: Allowed, tenant: str) -> list[str]:
        known = KnownThings(allowed.tools, lambda name: self.entities.find(name, tenant, allowed.roles), self.handlers)
        if fault := tool.fault:
            raise HandlerError(fault)
        warnings = tool.lint()
        tool.check_handler(known)
        return warnings


def put_intent(connection: Connection, tenant: str, code: str, body: IntentBody, user: str) -> Row[Any]:
    """Store a new version of an intent, and make it the current one."""
    for role in body.roles:
        find_role(connection, tenant, role)
    mine = (intents.c.tenant == tenant) & (intents.c.code == code)
    last = connection.execute(select(func.max(intents.c.version)).where(mine)).scalar()
    if last is None:
        count = select(func.count(intents.c.code.distinct())).where(intents.c.tenant == tenant)
        if connection.execute(count).scalar_one() >= MOST_INTENTS:
            raise DirectoryProblem("conflict", f"A tenant has at most {MOST_INTENTS} intents. Delete one first.")
    connection.execute(update(intents).where(mine).values(current=False))
    version = (last or 0) + 1
    connection.execute(
        insert(intents).values(
            tenant=tenant, code=code, version=version, definition=storable(body.model_dump_json(exclude={"enabled"})),
            current=True, enabled=body.enabled, created_by=user, created=time(),
        )
    )  # fmt: skip
    return find_intent(connection, tenant, code)


def find_intent(connection: Connection, tenant: str, code: str, version: int | None = None) -> Row[Any]:
    wanted = intents.c.current if version is None else intents.c.version == version
    found = connection.execute(
        select(intents).where(intents.c.tenant == tenant, intents.c.code == code, wanted)
    ).first()
    if found is None:
        which = f"version {version} of the intent `{code}`" if version is not None else f"intent `{code}`"
        raise DirectoryProblem("not_found", f"There is no {which}.")
    return found


def list_intents(connection: Connection, tenant: str) -> Sequence[Row[Any]]:
    """The current version of each, disabled ones included."""
    query = select(intents).where(intents.c.tenant == tenant, intents.c.current).order_by(intents.c.code)
    return connection.execute(query).all()


def change_intent(
    connection: Connection, tenant: str, code: str, *, enabled: bool | None = None, version: int | None = None
) -> Row[Any]:
    """Switch an intent off or on, or go back to another version of it."""
    found = find_intent(connection, tenant, code, version)
    mine = (intents.c.tenant == tenant) & (intents.c.code == code)
    if version is not None:
        connection.execute(update(intents).where(mine).values(current=False))
        connection.execute(update(intents).where(mine, intents.c.version == version).values(current=True))
    if enabled is not None:
        this = mine & (intents.c.version == found.version)
        connection.execute(update(intents).where(this).values(enabled=enabled))
    return find_intent(connection, tenant, code)


def delete_intent(connection: Connection, tenant: str, code: str) -> None:
    """Remove an intent with all its versions."""
    find_intent(connection, tenant, code)
    connection.execute(delete(intents).where(intents.c.tenant == tenant, intents.c.code == code))


def intent_document(row: Row[Any], warnings: Sequence[str] = ()) -> dict[str, Any]:
    return {
        **json.loads(row.definition), "code": row.code, "version": row.version, "enabled": row.enabled,
        "tool": tool_name(row.code), "created_by": row.created_by, "created_at": shown_time(row.created),
        "warnings": list(warnings),
    }  # fmt: skip


class NewIntentParams(BaseModel):
    """The same as over HTTP, with the code that the sources of this tool call `intentCode`."""

    model_config = ConfigDict(extra="forbid")

    intentCode: IntentCode = Field(description="How requests name it, such as `refund_order`.")  # noqa: N815 - theirs
    name: str = Field("", max_length=200, pattern=PRINTED, description="A title for users.")
    description: str = Field(min_length=1, max_length=2000, description="What it does, and when to use it.")
    examples: list[Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        default=[], max_length=20, description="Requests in words that mean it."
    )
    parameters: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object", "properties": {}},
        description='JSON Schema of its inputs: {"type": "object", "properties": …, "required": […]}.',
    )
    handler: dict[str, Any] = Field(
        description='What it does: {"type": "query", "entity": …, "filters": […], "order": […], "limit": 20}, '
        '{"type": "data", "operation": "create" | "update" | "delete", "entity": …}, '
        '{"type": "tool", "tool": …, "arguments": {…}}, {"type": "chain", "steps": [{"id": …, "tool": …}]} or '
        '{"type": "form", "submit": {another handler}}. {"$ref": "input.NAME"} stands for an input.'
    )
    roles: list[Name] = Field(default=[], description="The roles that it is for; empty: all of the tenant.")


class CreateIntent(Tool[NewIntentParams]):
    """Add an intent that users can then ask for, or a new version of one.

    Use this when the user wants a request that comes again and again to be handled in a fixed way. It is checked first,
    and can be used at once. Query the schema of an entity before you write a handler about it.
    """

    name = "create_new_intent"
    category = "intents"
    kind = Kind.WRITE
    needs = frozenset({"tenant", "user"})
    may_block = False
    doing = "adding the intent `{intentCode}`"

    def __init__(self, world: IntentWorld) -> None:
        super().__init__()
        self._world = world

    def describe(self, params: NewIntentParams, session: Session) -> CallInfo:
        said = f"Add the intent `{params.intentCode}`: {params.description}"
        try:
            IntentTool(params.intentCode, 1, _body_of(params), self._world).lint()
        except (HandlerError, DefinitionError, ValidationError) as error:
            return CallInfo(summary=said, refusal=_not_added(params, str(error)))
        return CallInfo(summary=said)

    async def run(self, params: NewIntentParams, context: ToolContext) -> dict[str, Any]:
        tenant, user = context.caller.tenant or "", context.caller.user or ""
        allowed = await self._world.allowed()
        if not allowed.administers("intents"):
            said = "Your roles do not allow `Admin(intents)`, or your key is not for `admin`."
            raise ToolError(said, kind=ErrorKind.PERMISSION)
        try:
            return await self._world.make(params.intentCode, _body_of(params), allowed, tenant, user)
        except DirectoryProblem as problem:
            raise _not_added(params, problem.message) from None

    def render(self, value: Any) -> str:
        said = f"Version {value['version']} of the intent `{value['code']}` can be used now."
        return "\n".join([said, *(f"- {warning}" for warning in value["warnings"])])


def _body_of(params: NewIntentParams) -> IntentBody:
    return IntentBody.model_validate(params.model_dump(exclude={"intentCode"}))


def _not_added(params: NewIntentParams, why: str) -> ToolError:
    return ToolError(f"The intent `{params.intentCode}` was not added. {why}", kind=ErrorKind.VALIDATION)


class EntitySchemaParams(BaseModel):
    model_config = ConfigDict(extra="forbid")

    entity: str = Field("", description="Its name. Left out, the entities that there are.")


class QueryEntitySchema(Tool[EntitySchemaParams]):
    """Tell the fields of an entity: their names and types, which are required, and what the key is.

    Use this before you write a query or a data operation about an entity.
    """

    name = "query_entity_schema"
    category = "intents"
    kind = Kind.READONLY
    needs = frozenset({"tenant", "user"})
    may_block = False
    doing = "reading the schema of `{entity}`"

    def __init__(self, world: IntentWorld) -> None:
        super().__init__()
        self._world = world

    async def run(self, params: EntitySchemaParams, context: ToolContext) -> dict[str, Any]:
        tenant, entities = context.caller.tenant or "", self._world.entities
        allowed = await self._world.allowed()
        if params.entity:
            found = entities.find(params.entity, tenant, allowed.roles)
            return await entities.run(tenant, lambda: found.document)
        return {"entities": [{"name": one.name, "description": one.description} for one in
                             entities.all(tenant, allowed.roles)]}  # fmt: skip

    def render(self, value: Any) -> str:
        if "entities" in value:
            lines = [f"- `{one['name']}`: {one['description'] or 'no description'}" for one in value["entities"]]
            return "\n".join(lines) or "There are no entities."
        lines = [f"`{value['name']}`: {value['description'] or 'no description'}"]
        for field in cast("list[dict[str, Any]]", value["fields"]):
            said = [str(field["type"])]
            said += ["key"] * field["key"] + ["required"] * field["required"] + ["may be null"] * field["nullable"]
            about = f": {field['description']}" if field["description"] else ""
            lines.append(f"- `{field['name']}` ({', '.join(said)}){about}")
        lines.append("Rows can be created, updated and deleted." if value["writable"] else "It is read-only.")
        return "\n".join(lines)
