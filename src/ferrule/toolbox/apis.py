"""The tools of HTTP APIs: one for each operation, or three to find, describe and call them where there are many."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, TypedDict

from pydantic import Field

from ferrule import (
    NOTHING,
    CallInfo,
    Description,
    InvalidParamsError,
    Problem,
    Session,
    Tool,
    ToolContext,
    ToolError,
    Touch,
    raw_tool,
    tool,
)
from ferrule.extension import MOST_EDITABLE, SECONDS_TO_CHANGE, SchemaParams, files_of, nearest, phrase, touching
from ferrule.toolbox import http_client
from ferrule.toolbox.accounts import AccountCheck, Accounts, Api, Credential, named
from ferrule.toolbox.failures import invalid, not_found
from ferrule.toolbox.http_client import HttpClient, WebRequest
from ferrule.toolbox.openapi import ApiOperation, OpenApi, read_document
from ferrule.toolbox.openapi_request import files_in, request_of, signature_of
from ferrule.toolbox.web_address import parse_address

MOST_TOOLS = 30
"""Operations of one API that have a tool each."""
_LONGEST_NAME = 64
_SAVE_TO = {"type": "string", "description": "A file of the workspace to save the answer to."}
logger = logging.getLogger("ferrule.toolbox")


@dataclass
class LoadedApi:
    """An API of the settings with its document; the one place that turns calls into requests."""

    name: str
    api: Api
    accounts: Accounts
    client: HttpClient

    @cached_property
    def document(self) -> OpenApi:
        return OpenApi(read_document(self.api.spec), self.api.base_url)

    @cached_property
    def operations(self) -> dict[str, ApiOperation]:
        """The chosen ones by id; a `ToolError` for one that the document does not have."""
        every = {one.id: one for one in self.document.operations}
        if not self.api.operations:
            return every
        by_path = {f"{one.method} {one.path}": one for one in every.values()}
        chosen: dict[str, ApiOperation] = {}
        for wanted in self.api.operations:
            one = every.get(wanted) or by_path.get(wanted)
            if one is None:
                close = nearest(wanted, [*every, *by_path], most=1)
                raise not_found(
                    phrase("The API `{api}` has no operation `{name}`.", api=self.name, name=wanted),
                    phrase("Did you mean `{name}`?", name=close[0]) if close else None,
                )
            chosen[one.id] = one
        return chosen

    def find(self, name: str) -> ApiOperation:
        """The operation of this id, or `GET /path`."""
        for one in self.operations.values():
            if name in (one.id, f"{one.method} {one.path}"):
                return one
        close = ", ".join(f"`{one}`" for one in nearest(name, list(self.operations), most=3))
        raise not_found(
            phrase("The API `{api}` has no operation `{name}`.", api=self.name, name=name),
            phrase("Did you mean {names}? FindOperation looks for others.", names=close)
            if close
            else phrase("Look for it with FindOperation."),
        )

    def request(self, operation: ApiOperation, arguments: Mapping[str, Any], session: Session) -> WebRequest:
        files = files_of(session)

        def read_file(given: str) -> bytes:
            place = files.paths.find(given)
            if (found := files.paths.stat(place)) is not None and found.st_size > MOST_EDITABLE:
                raise invalid(phrase("`{file}` is too large to be sent.", file=given))
            return files.paths.read(place)

        request = request_of(operation, arguments, read_file)
        self.credential_for(request)
        return request

    def credential_for(self, request: WebRequest) -> Credential | None:
        name = self.api.credential
        return http_client.require_credential(self.accounts, name, request.address, self.client) if name else None

    def info(
        self, tool: str, operation: ApiOperation, arguments: Mapping[str, Any], save_to: str | None, session: Session
    ) -> CallInfo:
        """What a call would do. Files are read when it runs."""
        writes, refusal = not operation.only_reads, None
        try:
            request = request_of(operation, arguments, lambda _given: b"")
        except ToolError as error:
            return CallInfo((Touch("host:", writes),), f"{self.name} {operation.method} ?", refusal=error)
        try:
            self.credential_for(request)
        except ToolError as error:
            refusal = error
        touches = [Touch(f"host:{request.address.host}", writes)]
        signature = signature_of(self.name, operation, request)
        always = f"{tool}({self.name} {operation.method} {operation.path})"
        if operation.only_reads:
            always = f"WebFetch(domain:{request.address.host})"
        files = [touching(given, session) for given in files_in(operation, arguments)]
        if save_to is not None:
            files.append(touching(save_to, session, write=True))
            always = f"{always} into {http_client.each_touch(files[-1])[0].resource.rpartition('/')[0]}"
        for one in files:
            touches += http_client.each_touch(one)
            refusal = refusal or one.refusal
        return CallInfo(tuple(touches), signature, always, f"{operation.method} {request.address}", refusal)

    async def call(
        self, operation: ApiOperation, arguments: Mapping[str, Any], save_to: str | None, context: ToolContext
    ) -> http_client.HttpAnswer:
        import asyncio

        request = await asyncio.to_thread(self.request, operation, arguments, context.session)
        if (account := self.credential_for(request)) is not None:
            http_client.with_credential(request, account)
        await asyncio.to_thread(http_client.require_savable, context, save_to)
        reply = await self.client.send(request)
        return await asyncio.to_thread(http_client.answer_of, reply, context, save_to)


def api_tools(accounts: Accounts, client: HttpClient) -> list[Tool[Any]]:
    """The tools of all APIs; one whose document cannot be used has none, and is warned about."""
    made: list[Tool[Any]] = []
    many: dict[str, LoadedApi] = {}
    taken: set[str] = set()
    for name, api in accounts.apis.items():
        loaded = LoadedApi(name, api, accounts, client)
        try:
            if len(loaded.operations) > MOST_TOOLS:
                many[name] = loaded
                continue
        except ToolError as error:
            logger.warning("The API `%s` has no tools: %s", name, error.message)
            continue
        for operation in loaded.operations.values():
            try:
                made.append(_operation_tool(loaded, operation, _tool_name(name, operation, taken)))
            except ToolError as error:
                logger.warning("The API `%s`: %s", name, error.message)
    return [*made, *(_tools_for_many(many) if many else [])]


def _tool_name(api: str, operation: ApiOperation, taken: set[str]) -> str:
    """`api__petstore__listPets`: letters that every provider takes, at most 64, and no other tool's."""
    whole = f"api__{_letters(api)[:20]}__{_letters(operation.id)}"
    name = whole[:_LONGEST_NAME]
    # `__` and eight hex digits at the end would look like a name that was made to fit a provider.
    if name in taken or len(whole) > _LONGEST_NAME or re.search(r"__[0-9a-f]{8}\Z", name):
        digest = sha256(f"{api} {operation.method} {operation.path}".encode()).hexdigest()[:8]
        name = f"{name[: _LONGEST_NAME - 9].rstrip('_-')}-{digest}"
    taken.add(name)
    return name


def _letters(text: str) -> str:
    return re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_-]", "_", text)).strip("_-") or "x"


def _operation_tool(loaded: LoadedApi, operation: ApiOperation, name: str) -> Tool[Any]:
    details = operation.details
    schema = dict(details.schema)
    if details.gives_files:
        schema["properties"] = {**schema["properties"], "save_to": _SAVE_TO}

    def split(given: Any) -> tuple[dict[str, Any], str | None]:
        arguments = dict(given)
        return arguments, arguments.pop("save_to", None) if details.gives_files else None

    def describe(given: Any, session: Session) -> CallInfo:
        arguments, save_to = split(given)
        return loaded.info(name, operation, arguments, save_to, session)

    async def call(given: Any, context: ToolContext) -> http_client.HttpAnswer:
        arguments, save_to = split(given)
        return await loaded.call(operation, arguments, save_to, context)

    deprecated = "\n\nDeprecated by its API." if operation.deprecated else ""
    sends = f"Sends {operation.method} {operation.path} to the API {loaded.name}."
    return raw_tool(
        name,
        schema,
        call,
        description=Description(operation.summary, f"{operation.description}{deprecated}\n\n{sends}".strip()),
        kind="readonly" if operation.only_reads else "write",
        requires_permission=operation.only_reads,
        category="api",
        tags=("api", loaded.name),
        describe=describe,
        render=http_client.render_answer,
        display=http_client.display_answer,
        grace=SECONDS_TO_CHANGE if details.gives_files else None,
        idempotent=operation.only_reads,
    )


# Where there are too many operations to show them all


class FoundOperations(TypedDict):
    """Operations that fit, the best first."""

    operations: list[dict[str, str]]
    total: int


def _render_found(found: FoundOperations) -> str:
    if not found["operations"]:
        return f"Nothing fits, of {found['total']:,} operations. Try other words."
    return "\n".join(
        f"{one['api']} {one['id']}: {one['method']} {one['path']} - {one['summary']}" for one in found["operations"]
    )


def _tools_for_many(apis: Mapping[str, LoadedApi]) -> list[Tool[Any]]:
    listed = ", ".join(f"`{name}` ({one.document.title})" for name, one in apis.items())

    @tool(
        name="FindOperation",
        kind="readonly",
        category="api",
        tags=("api",),
        touches=NOTHING,
        doing="looking for `{query}`",
        render=_render_found,
        display=lambda found: phrase("{n} operations", n=len(found["operations"])),
        description=Description(
            "Find operations of an HTTP API.",
            f"Use this first; then DescribeOperation and CallOperation. The APIs: {listed}.",
        ),
    )
    async def find_operation(
        query: Annotated[str, Field(description="A few words about what to do, such as `create invoice`.")],
        api: Annotated[str | None, Field(description="The API to look in; all of them unless given.")] = None,
        limit: Annotated[int, Field(ge=1, le=50, description="How many to give at most.")] = 10,
    ) -> FoundOperations:
        chosen = [named(apis, api, "API")] if api is not None else list(apis.values())
        rows = [(one, operation) for one in chosen for operation in one.operations.values()]
        best = sorted(rows, key=lambda row: -_fit(query, row[1]))[:limit]
        return {
            "operations": [
                {"api": one.name, "id": operation.id, "method": operation.method, "path": operation.path,
                 "summary": operation.summary}
                for one, operation in best if _fit(query, operation) > 0
            ],
            "total": len(rows),
        }  # fmt: skip

    @tool(
        name="DescribeOperation",
        kind="readonly",
        category="api",
        tags=("api",),
        touches=NOTHING,
        doing="describing `{operation}`",
        description=Description(
            "Say what an operation of an HTTP API does and takes.",
            f"Use this before CallOperation. The APIs: {listed}.",
        ),
    )
    async def describe_operation(
        api: Annotated[str, Field(description="The API.")],
        operation: Annotated[str, Field(description="Its id, as FindOperation gives it, or `GET /path`.")],
    ) -> str:
        found = named(apis, api, "API").find(operation)
        schema = json.dumps(found.details.schema, ensure_ascii=False)
        return "\n".join(
            one for one in (f"{found.id}: {found.method} {found.path}", found.summary, found.description,
                            f"Arguments of CallOperation, as JSON Schema: {schema}") if one
        )  # fmt: skip

    def describe(params: Any, session: Session) -> CallInfo:
        try:
            loaded = named(apis, params.api, "API")
            operation = loaded.find(params.operation)
            return loaded.info("CallOperation", operation, params.arguments, params.save_to, session)
        except ToolError as error:
            return CallInfo((Touch("host:", write=True),), f"{params.api} ? {params.operation}", refusal=error)

    def check(params: Any) -> Iterable[Problem] | None:
        """Whether the arguments fit the operation; one that is not there is said when it is called."""
        try:
            operation = named(apis, params.api, "API").find(params.operation)
            SchemaParams(operation.id, operation.details.schema).load(json.dumps(params.arguments))
        except InvalidParamsError as error:
            return [replace(one, path=("arguments", *one.path)) for one in error.problems]
        except ToolError:
            return None
        return None

    @tool(
        name="CallOperation",
        kind="write",
        requires_permission=True,
        category="api",
        tags=("api",),
        doing="calling `{operation}`",
        describe=describe,
        check=check,
        render=http_client.render_answer,
        display=http_client.display_answer,
        grace=SECONDS_TO_CHANGE,
        description=Description(
            "Call an operation of an HTTP API.",
            f"Use this after DescribeOperation has said which arguments it takes. The APIs: {listed}.",
        ),
    )
    async def call_operation(
        api: Annotated[str, Field(description="The API.")],
        operation: Annotated[str, Field(description="Its id, as FindOperation gives it, or `GET /path`.")],
        context: ToolContext,
        arguments: Annotated[dict[str, Any], Field(description="What DescribeOperation says that it takes.")] = {},  # noqa: B006
        save_to: Annotated[str | None, Field(description="A file of the workspace to save the answer to.")] = None,
    ) -> http_client.HttpAnswer:
        loaded = named(apis, api, "API")
        return await loaded.call(loaded.find(operation), arguments, save_to, context)

    return [find_operation, describe_operation, call_operation]


def _fit(query: str, operation: ApiOperation) -> float:
    """How many of the words stand in an operation; in its id, path and summary they count more."""
    head = _stems(f"{operation.id} {operation.path} {operation.summary} {operation.method}")
    whole = _stems(operation.words)
    return (
        sum((3.0 if word in head else 1.0 if word in whole else 0.0) for word in set(_stems(query))) - len(head) / 1_000
    )


def _stems(text: str) -> list[str]:
    """Words in small letters without a plural's end; `listPets` is two."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return [word.removesuffix("s") for word in re.findall(r"\w+", split.replace("_", " ").lower())]


# `ferrule toolbox check`


async def check_apis(accounts: Accounts, client: HttpClient) -> list[AccountCheck]:
    """Whether each API's document can be used, and its server answers a request for nothing in particular."""
    import asyncio

    found: list[AccountCheck] = []
    for name, api in accounts.apis.items():
        what = f"API `{name}`"
        try:
            loaded = LoadedApi(name, api, accounts, client)
            operations = list((await asyncio.to_thread(getattr, loaded, "operations")).values())
            if not operations:
                raise ToolError(phrase("Its document has no operations."))
            if not (base := operations[0].details.base_url):
                raise ToolError(phrase("Its document names no server; set `base_url`."))
            address = parse_address(f"{base}/")
            if api.credential:
                http_client.require_credential(accounts, api.credential, address, client)
            status = (await client.send(WebRequest("HEAD", address))).status
        except ToolError as error:
            found.append(AccountCheck(what, False, error.message))
        else:
            words = phrase(
                "{n} operations; {host} answers with {status}", n=len(operations), host=address.host, status=status
            )
            found.append(AccountCheck(what, True, words))
    return found
