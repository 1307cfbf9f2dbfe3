"""What an intent does: forms, data operations, queries, tools and chains; others come by the entry point
`ferrule.intent_handlers`.

A handler runs inside an ordinary call, so who may run it, what asks first and what is recorded are decided where they
are for every tool. `{"$ref": "input.city"}` in its options stands for what the caller gave.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ferrule.core.access import NOTHING, reads, writes
from ferrule.core.call import CallInfo, RawCall
from ferrule.core.errors import ErrorKind, StoppedError, ToolError
from ferrule.core.nearest import nearest
from ferrule.core.result import Output
from ferrule.core.tool import Kind
from ferrule.pipeline.batch import INPUT, find_references, resolve
from ferrule.service.entities import MOST_ROWS, RowFilter, RowQuery, listed_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sqlalchemy import Connection

    from ferrule.core.context import ToolContext
    from ferrule.core.result import ToolResult
    from ferrule.registry.registry import ToolSource
    from ferrule.service.entities import Entity
    from ferrule.service.entity_catalog import EntityCatalog

logger = logging.getLogger("ferrule.service")

O = TypeVar("O", bound=BaseModel)  # noqa: E741 - options

ENTRY_POINTS = "ferrule.intent_handlers"
_MOST_STEPS = 20


class HandlerError(Exception):
    """A handler that cannot work as its intent describes it; says why."""


class HandlerOptions(BaseModel):
    """What stands beside `type` in an intent's `handler`. A name that nobody knows is a mistake."""

    model_config = ConfigDict(extra="forbid")


@dataclass(slots=True)
class IntentCall:
    """One run of an intent: what the caller gave, and what a handler may use."""

    code: str
    inputs: dict[str, Any]
    context: ToolContext
    entities: EntityCatalog
    roles: tuple[str, ...]
    tools: ToolSource
    """The tools of the caller; what is not among them does not exist for an intent of theirs either."""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def tenant(self) -> str:
        return self.context.caller.tenant or ""

    def entity(self, name: str) -> Entity:
        return self.entities.find(name, self.tenant, self.roles)

    def filled(self, template: Any) -> Any:
        """A template with the inputs put in. What was not given is left out, with the key that it stands under."""
        kept = without_absent(template, self.inputs)
        try:
            return resolve(kept, find_references(kept, [INPUT]), {INPUT: self.inputs})
        except StoppedError as stopped:
            raise ToolError(stopped.message, kind=stopped.kind, suggestion=stopped.suggestion) from None


class IntentHandler(Generic[O]):
    """Subclass it to add a kind of intent: name its `type` and `options`, and write `run`.

    `check` looks at an intent before it is stored. `describe` says what one run would do: permission rules and the
    question to an approver follow from it.
    """

    type: ClassVar[str]
    options: ClassVar[type[BaseModel]] = HandlerOptions
    asks_for_missing: ClassVar[bool] = False
    """Whether it may be run before all required inputs are there."""

    def kind(self, options: O) -> Kind | str:
        """What it does itself; what it calls is decided call by call."""
        return Kind.WRITE

    def calls_tools(self, options: O) -> bool:
        """Whether it calls tools: it is then never run again by itself after a crash."""
        return False

    def check(self, options: O, parameters: Mapping[str, Any], known: KnownThings) -> None:
        """Raise `HandlerError` or `ToolError` where it can never work."""

    def describe(self, options: O, code: str, inputs: Mapping[str, Any]) -> CallInfo:
        return CallInfo()

    async def run(self, options: O, call: IntentCall) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no `run`.")


@dataclass(slots=True, frozen=True)
class KnownThings:
    """What an intent may be about, as whoever makes it sees it."""

    tools: ToolSource
    entity: Callable[[str], Entity]
    handlers: Mapping[str, IntentHandler[Any]]


class QueryOptions(HandlerOptions):
    """Without `filters`, every input that names a field must equal it."""

    entity: str
    filters: list[RowFilter] | None = None
    order: list[str] = []
    limit: Annotated[int, Field(ge=1, le=MOST_ROWS)] | dict[str, str] = 50
    fields: list[str] = []


class QueryHandler(IntentHandler[QueryOptions]):
    """Reads rows of an entity in a transaction that cannot write."""

    type = "query"
    options = QueryOptions

    def kind(self, options: QueryOptions) -> Kind:
        return Kind.READONLY

    def check(self, options: QueryOptions, parameters: Mapping[str, Any], known: KnownThings) -> None:
        entity = known.entity(options.entity)
        named = [one.field for one in options.filters or ()] + [name.removeprefix("-") for name in options.order]
        for name in (*named, *options.fields):
            entity.field(name)
        _check_references(options.model_dump(), parameters)

    def describe(self, options: QueryOptions, code: str, inputs: Mapping[str, Any]) -> CallInfo:
        return CallInfo(reads("entity", options.entity), summary=f"Read `{options.entity}` ({code})")

    async def run(self, options: QueryOptions, call: IntentCall) -> Any:
        entity = call.entity(options.entity)
        fields = await call.entities.run(call.tenant, lambda: entity.fields)
        if options.filters is None:
            given = [RowFilter(field=name, value=value) for name, value in call.inputs.items() if name in fields]
        else:
            given = [
                RowFilter.model_validate(one)
                for one in call.filled([one.model_dump() for one in options.filters])
                if "value" in one or one["op"] == "is_null"
            ]
        try:
            query = RowQuery(
                filters=given, order=options.order, limit=call.filled({"n": options.limit}).get("n", 50),
                fields=options.fields,
            )  # fmt: skip
        except ValidationError:
            raise ToolError(f"`limit` must be 1 to {MOST_ROWS}.", kind=ErrorKind.VALIDATION) from None
        rows = await call.entities.read(entity, call.tenant, query, call.context)
        return Output(data={"rows": rows, "count": len(rows), "entity": entity.name}, llm_content=_rows_text(rows))


class DataOptions(HandlerOptions):
    """Without `values`, every input that names a field is one. Without `where`, the key is."""

    entity: str
    operation: Literal["create", "update", "delete"]
    values: dict[str, Any] | None = None
    where: list[RowFilter] | None = None
    most: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 1


class DataHandler(IntentHandler[DataOptions]):
    """Creates, changes or deletes rows in one transaction. It asks first unless a rule allows it."""

    type = "data"
    options = DataOptions

    def check(self, options: DataOptions, parameters: Mapping[str, Any], known: KnownThings) -> None:
        entity = known.entity(options.entity)
        entity.require_writable()
        for name in (*(options.values or ()), *(one.field for one in options.where or ())):
            entity.field(name)
        if options.operation == "create" and options.where is not None:
            raise HandlerError("`where` has no meaning for `create`. Leave it out.")
        if options.operation == "delete" and options.values is not None:
            raise HandlerError("`values` has no meaning for `delete`. Leave it out.")
        if options.operation != "create" and options.where is None:
            given: Any = parameters.get("properties", {})
            if not entity.key or not set(entity.key) <= set(given):
                keys = listed_names(entity.key) or "a key"
                said = f"Give `where`, or have {keys} among the parameters."
                raise HandlerError(f"It does not say which rows to {options.operation}. {said}")
        _check_references(options.model_dump(), parameters)

    def describe(self, options: DataOptions, code: str, inputs: Mapping[str, Any]) -> CallInfo:
        given = json.dumps(inputs, ensure_ascii=False, default=str)
        said = f"{options.operation.capitalize()} `{options.entity}` ({code}): {given}"
        return CallInfo(writes("entity", options.entity), summary=said)

    async def run(self, options: DataOptions, call: IntentCall) -> Any:
        entity = call.entity(options.entity)
        fields = await call.entities.run(call.tenant, lambda: entity.fields)
        if options.where is not None:
            filled = call.filled([one.model_dump() for one in options.where])
            where = [RowFilter.model_validate(one) for one in filled]
            if any("value" not in one and one["op"] != "is_null" for one in filled):
                raise ToolError("Not everything is known that says which rows are meant.", kind=ErrorKind.VALIDATION)
        else:
            where = [RowFilter(field=name, value=call.inputs[name]) for name in entity.key if name in call.inputs]
            if options.operation != "create" and len(where) < len(entity.key):
                raise ToolError(
                    f"Give {listed_names(entity.key) or 'a key'} to say which row is meant.", kind=ErrorKind.VALIDATION
                )
        if options.values is not None:
            values = cast("dict[str, Any]", call.filled(options.values))
        else:
            left_out = entity.key if options.operation != "create" else ()
            values = {name: one for name, one in call.inputs.items() if name in fields and name not in left_out}
        rows = await call.entities.change(
            entity, call.tenant, _change(entity, options, call, where, values), call.context
        )
        done = {"create": "Created", "update": "Updated", "delete": "Deleted"}[options.operation]
        count = f"{len(rows)} row{'' if len(rows) == 1 else 's'}"
        said = f"{done} {count} of `{entity.name}`:\n{_rows_text(rows)}"
        return Output(data={"operation": options.operation, "entity": entity.name, "rows": rows}, llm_content=said)


def _change(
    entity: Entity, options: DataOptions, call: IntentCall, where: list[RowFilter], values: dict[str, Any]
) -> Callable[[Connection], list[dict[str, Any]]]:
    if options.operation == "create":
        return lambda connection: [entity.create(connection, call.tenant, values)]
    if options.operation == "delete":
        return lambda connection: entity.delete(connection, call.tenant, where, options.most)
    if not values:
        raise ToolError(f"Nothing to change: give a field of `{entity.name}`.", kind=ErrorKind.VALIDATION)
    return lambda connection: entity.update(connection, call.tenant, where, values, options.most)


class ToolHandlerOptions(HandlerOptions):
    """Without `arguments` the inputs are the arguments."""

    tool: str
    arguments: dict[str, Any] | None = None


class _CallingHandler(IntentHandler[O]):
    """Only calls tools, each of which is decided and recorded by itself."""

    def kind(self, options: O) -> Kind:
        return Kind.READONLY

    def calls_tools(self, options: O) -> bool:
        return True

    def describe(self, options: O, code: str, inputs: Mapping[str, Any]) -> CallInfo:
        return CallInfo(NOTHING)


class ToolHandler(_CallingHandler[ToolHandlerOptions]):
    """Calls one tool, as the caller would."""

    type = "tool"
    options = ToolHandlerOptions

    def check(self, options: ToolHandlerOptions, parameters: Mapping[str, Any], known: KnownThings) -> None:
        _require_tool(known.tools, options.tool)
        _check_references(options.model_dump(), parameters)

    async def run(self, options: ToolHandlerOptions, call: IntentCall) -> Any:
        _require_tool(call.tools, options.tool)
        if options.arguments is None:
            return _passed_on(await call.context.call(options.tool, call.inputs))
        arguments = without_absent(options.arguments, call.inputs)
        one = RawCall(options.tool, arguments, id=f"{call.context.call_id}_1")
        (result,) = await call.context.batch([one], given={INPUT: call.inputs})
        return _passed_on(result)


class ChainStep(HandlerOptions):
    """One call of a chain. `{"$ref": "find.items[0].id"}` is what the step `find` gave."""

    id: Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[A-Za-z][A-Za-z0-9_]*$")]
    tool: str
    arguments: dict[str, Any] = {}


class ChainOptions(HandlerOptions):
    steps: Annotated[list[ChainStep], Field(min_length=1, max_length=_MOST_STEPS)]


class ChainHandler(_CallingHandler[ChainOptions]):
    """Several calls, each decided and recorded by itself; the last one's result is the intent's."""

    type = "chain"
    options = ChainOptions

    def check(self, options: ChainOptions, parameters: Mapping[str, Any], known: KnownThings) -> None:
        before: list[str] = []
        for step in options.steps:
            if step.id in before or step.id == INPUT:
                raise HandlerError(f"Every step needs an id of its own, other than `{INPUT}`; `{step.id}` is taken.")
            _require_tool(known.tools, step.tool)
            _check_references(step.arguments, parameters, before)
            before.append(step.id)

    async def run(self, options: ChainOptions, call: IntentCall) -> Any:
        for step in options.steps:
            _require_tool(call.tools, step.tool)
        ids = {step.id: f"{call.context.call_id}_{step.id}" for step in options.steps}
        calls = [
            RawCall(step.tool, renamed(without_absent(step.arguments, call.inputs), ids), id=ids[step.id])
            for step in options.steps
        ]
        results = await call.context.batch(calls, given={INPUT: call.inputs})
        for step, result in zip(options.steps, results, strict=True):
            if result.error is not None:
                raise _failed(f"Step `{step.id}` ({step.tool}) failed: {result.error.message}", result)
        return _passed_on(results[-1])


def _require_tool(tools: ToolSource, name: str) -> None:
    """The caller's tools decide: an intent opens nothing that its caller could not call."""
    if tools.get(name) is None:
        raise ToolError(f"There is no tool `{name}` for this caller.", kind=ErrorKind.NOT_FOUND)


def _passed_on(result: ToolResult) -> Any:
    if result.error is not None:
        raise _failed(result.error.message, result)
    return Output(result.data, result.llm_content, result.display_content, result.attachments)


def _failed(message: str, result: ToolResult) -> ToolError:
    assert result.error is not None  # noqa: S101 - both callers have looked
    return ToolError(message, kind=result.error.kind, suggestion=result.error.suggestion)


def renamed(value: Any, ids: Mapping[str, str]) -> Any:
    """References to steps, as references to the calls that they are."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        if (name := referred(fields)) is not None:
            head = name.partition(".")[0].partition("[")[0]
            return {"$ref": ids[head] + name[len(head) :]} if head in ids else fields
        return {key: renamed(item, ids) for key, item in fields.items()}
    return [renamed(item, ids) for item in cast("list[Any]", value)] if isinstance(value, list) else value


class FormOptions(HandlerOptions):
    """`submit` is another handler, which runs once every required input is there."""

    submit: dict[str, Any]
    title: str = ""


class FormHandler(IntentHandler[FormOptions]):
    """Asks for what is missing, then submits."""

    type = "form"
    options = FormOptions
    asks_for_missing = True

    def __init__(self, handlers: Mapping[str, IntentHandler[Any]]) -> None:
        self._handlers = handlers

    def _inner(self, options: FormOptions) -> tuple[IntentHandler[Any], BaseModel]:
        if options.submit.get("type") == self.type:
            raise HandlerError("A form cannot submit another form.")
        return read_handler(options.submit, self._handlers)

    def kind(self, options: FormOptions) -> Kind | str:
        handler, inner = self._inner(options)
        return handler.kind(inner)

    def calls_tools(self, options: FormOptions) -> bool:
        handler, inner = self._inner(options)
        return handler.calls_tools(inner)

    def check(self, options: FormOptions, parameters: Mapping[str, Any], known: KnownThings) -> None:
        handler, inner = self._inner(options)
        if not parameters.get("required"):
            raise HandlerError("A form asks for what is required, and `parameters` requires nothing.")
        handler.check(inner, parameters, known)

    def describe(self, options: FormOptions, code: str, inputs: Mapping[str, Any]) -> CallInfo:
        handler, inner = self._inner(options)
        return handler.describe(inner, code, inputs)

    async def run(self, options: FormOptions, call: IntentCall) -> Any:
        if missing := missing_inputs(call.parameters, call.inputs):
            listed = "\n".join(f"- `{one['name']}`: {one['description'] or one['type']}" for one in missing)
            said = f"{options.title or 'More is needed'}. Ask the user for:\n{listed}"
            return Output(data={"missing": missing, "inputs": call.inputs}, llm_content=said)
        handler, inner = self._inner(options)
        return await handler.run(inner, call)


def missing_inputs(parameters: Mapping[str, Any], inputs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What is required and not there, as a form shows it."""
    properties: dict[str, Any] = parameters.get("properties", {})
    return [
        {
            "name": name, "type": properties.get(name, {}).get("type", "any"),
            "title": properties.get(name, {}).get("title", name),
            "description": properties.get(name, {}).get("description", ""), "schema": properties.get(name, {}),
        }
        for name in parameters.get("required", ())
        if inputs.get(name) in (None, "")
    ]  # fmt: skip


def referred(value: Any) -> str | None:
    """What `{"$ref": …}` refers to; None for any other value."""
    if isinstance(value, dict) and len(fields := cast("dict[str, Any]", value)) == 1:
        name = fields.get("$ref")
        return name if isinstance(name, str) else None
    return None


def without_absent(template: Any, inputs: Mapping[str, Any]) -> Any:
    """A template without the places of inputs that were not given."""

    def is_absent(value: Any) -> bool:
        name = referred(value)
        return name is not None and _input_of(name) not in (None, *inputs)

    if isinstance(template, dict):
        fields = cast("dict[str, Any]", template)
        return {key: without_absent(item, inputs) for key, item in fields.items() if not is_absent(item)}
    if isinstance(template, list):
        return [without_absent(item, inputs) for item in cast("list[Any]", template) if not is_absent(item)]
    return template


def _input_of(reference: str) -> str | None:
    """The input that a reference is about; None where it is about something else."""
    head, dot, rest = reference.partition(".")
    return rest.partition(".")[0].partition("[")[0] if head == INPUT and dot else None


def _references(value: Any) -> Iterator[str]:
    if (name := referred(value)) is not None:
        yield name
    elif isinstance(value, dict):
        for item in cast("dict[str, Any]", value).values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _references(item)


def _check_references(template: Any, parameters: Mapping[str, Any], steps: list[str] | None = None) -> None:
    known: Any = parameters.get("properties", {})
    for name in _references(template):
        head = name.partition(".")[0].partition("[")[0]
        if head in (steps or ()):
            continue
        if (wanted := _input_of(name)) is None:
            raise HandlerError(f"`{name}` refers to nothing that is known there. Write `{INPUT}.NAME`.")
        if wanted not in known:
            raise HandlerError(f"`{name}` refers to the parameter `{wanted}`, which the intent does not have.")


def _rows_text(rows: list[dict[str, Any]]) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=False, default=str) for row in rows) or "No rows."


def read_handler(
    given: Mapping[str, Any], handlers: Mapping[str, IntentHandler[Any]]
) -> tuple[IntentHandler[Any], BaseModel]:
    """The handler that an intent names, and its options; raises `HandlerError`."""
    kind = given.get("type")
    handler = handlers.get(kind) if isinstance(kind, str) else None
    if handler is None:
        known = ", ".join(f"`{name}`" for name in sorted(handlers))
        raise HandlerError(f"`handler.type` must be one of {known}, not {kind!r}.")
    try:
        return handler, handler.options.model_validate({name: one for name, one in given.items() if name != "type"})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(["handler", *map(str, first["loc"])])
        if first["type"] == "extra_forbidden":
            close = nearest(str(first["loc"][-1]), handler.options.model_fields, most=1)
            hint = f" Did you mean `{close[0]}`?" if close else ""
            raise HandlerError(f"`{place}` means nothing to a handler of type `{kind}`.{hint}") from None
        raise HandlerError(f"`{place}`: {first['msg'].removeprefix('Value error, ')}.") from None


def all_handlers(*more: IntentHandler[Any]) -> dict[str, IntentHandler[Any]]:
    """The built-in handlers, `more`, and those of installed packages; one that cannot be loaded is reported and left
    out.
    """
    from importlib.metadata import entry_points

    handlers: dict[str, IntentHandler[Any]] = {}
    built_in = (QueryHandler(), DataHandler(), ToolHandler(), ChainHandler(), FormHandler(handlers))
    handlers.update({one.type: one for one in (*built_in, *more)})
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda one: one.name):
        try:
            made = point.load()()
            if not isinstance(made, IntentHandler):
                raise TypeError(f"{point.value} is not a subclass of IntentHandler")
            if handlers.setdefault(point.name, cast("IntentHandler[Any]", made)) is not made:
                raise ValueError(f"there is a handler `{point.name}` already")
        except Exception as error:  # noqa: BLE001 - a package may fail in any way, and must not take us along
            logger.warning("The intent handler %s (%s) was left out: %s", point.name, point.value, error)
    return handlers
