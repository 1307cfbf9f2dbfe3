"""The server that the official conformance suite talks to: Ferrule's own, with the tools and the rest that it asks for.

Tools are ordinary Ferrule tools in a registry. Prompts, resources and the like are no business of Ferrule's, so they
are added to the SDK's server that `McpServer` shows as `sdk`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import warnings
from typing import Any

from mcp import types
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.subscriptions import PromptsListChanged

from ferrule import Output, Registry, Runtime, ToolContext, ToolError, raw_tool, tool
from ferrule.core.result import Attachment
from ferrule.mcp_server.asking import LACKING, Peer, current_peer
from ferrule.mcp_server.http import ListenAddress, serve_http
from ferrule.mcp_server.opening import TASKS
from ferrule.mcp_server.server import McpServer
from ferrule.mcp_server.sessions import LONG_RUNNING

warnings.simplefilter("ignore", MCPDeprecationWarning)  # logging and sampling are old, and asked for all the same

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
registry = Registry()


def peer() -> Peer:
    found = current_peer()
    assert found is not None
    return found


async def sample(params: types.CreateMessageRequestParams, key: str | None = None) -> types.CreateMessageResult:
    """Have the client's model answer."""
    peer().must(peer().capabilities.sampling is not None, "sampling")
    return await peer().request(types.CreateMessageRequest(params=params), types.CreateMessageResult, key)


async def client_roots(key: str | None = None) -> types.ListRootsResult:
    """The folders that the client works in."""
    peer().must(peer().capabilities.roots is not None, "roots")
    return await peer().request(types.ListRootsRequest(), types.ListRootsResult, key)


def served(**options: Any) -> Any:
    """A tool that needs nobody's leave, in the registry."""

    def register(function: Any) -> Any:
        made = tool(function, kind="readonly", **options)
        registry.register(made)
        return made

    return register


# Content


@served()
async def test_simple_text() -> str:
    """Give a text."""
    return "This is a simple text response for testing."


@served()
async def test_image_content() -> Output:
    """Give a picture."""
    return Output(llm_content="", attachments=[Attachment("image/png", PNG)])


@served()
async def test_audio_content() -> Output:
    """Give a sound."""
    return Output(llm_content="", attachments=[Attachment("audio/wav", WAV)])


@served()
async def test_embedded_resource() -> Output:
    """Give a resource."""
    resource = Attachment("text/plain", b"This is an embedded resource content.", uri="test://embedded-resource")
    return Output(llm_content="", attachments=[resource])


@served()
async def test_multiple_content_types() -> Output:
    """Give a text, a picture and a resource."""
    resource = Attachment("application/json", b'{"test":"data","value":123}', uri="test://mixed-content-resource")
    return Output(llm_content="Multiple content types test:", attachments=[Attachment("image/png", PNG), resource])


@served()
async def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


# While it runs


@served()
async def test_tool_with_progress(context: ToolContext) -> str:
    """Report progress."""
    for done in (0, 50, 100):
        context.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "done"


async def _log(message: str) -> None:
    context = peer().context
    session: Any = context.session
    await session.send_log_message("info", message, related_request_id=context.request_id)


@served()
async def test_tool_with_logging() -> str:
    """Log."""
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await _log(message)
        await asyncio.sleep(0.05)
    return "Tool with logging executed successfully"


@served()
async def test_logging_tool() -> str:
    """Log, where the request asks for it."""
    await _log("a line of the log")
    return "logged"


# Asking the client, in either era


def _question(text: str) -> types.CreateMessageRequestParams:
    content = types.TextContent(type="text", text=text)
    return types.CreateMessageRequestParams(
        messages=[types.SamplingMessage(role="user", content=content)], max_tokens=100
    )


def _form(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


NAME = _form(name={"type": "string"})


@served()
async def test_sampling(prompt: str) -> str:
    """Have the client's model answer."""
    said = await sample(_question(prompt))
    return f"LLM response: {_text(said)}"


def _text(said: types.CreateMessageResult) -> str:
    content = said.content[0] if isinstance(said.content, list) else said.content
    return content.text if isinstance(content, types.TextContent) else ""


async def _elicit(message: str, schema: dict[str, Any]) -> str:
    said = await peer().elicit(message, schema)
    return f"User response: action={said.action}, content={json.dumps(dict(said.content))}"


@served()
async def test_elicitation(message: str) -> str:
    """Ask the person."""
    return await _elicit(message, _form(username={"type": "string"}, email={"type": "string"}))


@served()
async def test_elicitation_sep1034_defaults() -> str:
    """Ask the person with a form that has defaults."""
    properties = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return await _elicit("Please review", {"type": "object", "properties": properties, "required": []})


@served()
async def test_elicitation_sep1330_enums() -> str:
    """Ask the user to choose."""
    options, titles = ["option1", "option2", "option3"], ["First Option", "Second Option", "Third Option"]
    titled = [{"const": f"value{at + 1}", "title": title} for at, title in enumerate(titles)]
    properties = {
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": titles},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return await _elicit("Please choose", {"type": "object", "properties": properties, "required": []})


@served()
async def test_missing_capability() -> str:
    """Need the client's model."""
    return _text(await sample(_question("Hello")))


@served()
async def test_streaming_elicitation() -> str:
    """Ask the person in the middle of a call."""
    return await _elicit("Go on?", _form(ok={"type": "boolean"}))


@served()
async def test_input_required_result_elicitation() -> str:
    """Greet the person."""
    said = await peer().elicit("What is your name?", NAME, "user_name")
    return f"Hello, {said.content.get('name')}!"


@served()
async def test_input_required_result_sampling() -> str:
    """Ask the client's model."""
    return _text(await sample(_question("What is the capital of France?"), "capital_question"))


@served()
async def test_input_required_result_list_roots() -> str:
    """Ask for the client's folders."""
    found = await client_roots("client_roots")
    return ", ".join(str(root.uri) for root in found.roots)


@served()
async def test_input_required_result_request_state() -> str:
    """Ask the person, and keep a state meanwhile."""
    await peer().elicit("Please confirm", _form(ok={"type": "boolean"}), "confirm")
    return "state-ok"


@served()
async def test_input_required_result_tampered_state() -> str:
    """Ask the person, with a state that cannot be forged."""
    await peer().elicit("Please confirm", _form(ok={"type": "boolean"}), "confirm")
    return "confirmed"


@served()
async def test_input_required_result_multiple_inputs() -> str:
    """Ask the person, the model and for folders at once."""
    name, greeting, roots = await asyncio.gather(
        peer().elicit("What is your name?", NAME, "user_name"),
        sample(_question("Generate a greeting"), "greeting"),
        client_roots("client_roots"),
    )
    return f"{_text(greeting)} {name.content.get('name')} {len(roots.roots)}"


@served()
async def test_input_required_result_multi_round() -> str:
    """Ask twice."""
    name = await peer().elicit("Step 1: What is your name?", NAME, "step1")
    colour = await peer().elicit("Step 2: What is your favorite color?", _form(color={"type": "string"}), "step2")
    return f"{name.content.get('name')} likes {colour.content.get('color')}"


@served()
async def test_input_required_result_capabilities() -> str:
    """Ask only what the client can do."""
    asked: list[Any] = []
    if peer().can_elicit:
        asked.append(peer().elicit("What is your name?", NAME, "user_name"))
    if peer().capabilities.sampling is not None:
        asked.append(sample(_question("Hello"), "greeting"))
    return f"{len(await asyncio.gather(*asked))} answers"


# Changes of the lists


@served()
async def test_trigger_tool_change() -> str:
    """Add a tool, or take it away again."""
    if not registry.unregister("added_later"):
        registry.register(tool(test_simple_text.function, name="added_later", kind="readonly"))
    return "changed"


@served()
async def test_trigger_prompt_change() -> str:
    """Say that the prompts changed."""
    for server in servers:
        await server.bus.publish(PromptsListChanged())
    return "changed"


# Schemas

registry.register(
    raw_tool(
        "json_schema_2020_12_tool",
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "$anchor": "addressDef",
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                }
            },
            "properties": {
                "name": {"type": "string"},
                "address": {"$ref": "#/$defs/address"},
                "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                "phone": {"type": "string"},
                "email": {"type": "string"},
            },
            "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
            "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
            "then": {"required": ["phone"]},
            "else": {"required": ["email"]},
            "additionalProperties": False,
        },
        lambda arguments: arguments,
        kind="readonly",
        description="Take arguments with a whole JSON Schema.",
    )
)
registry.register(
    raw_tool(
        "test_custom_headers",
        {
            "type": "object",
            "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
            "required": ["region"],
        },
        lambda arguments: f"region {arguments['region']}",
        kind="readonly",
        description="Take an argument that is a header, too.",
    )
)


# Tasks


@served()
async def greet(name: str) -> str:
    """Greet at once."""
    return f"Hello, {name}!"


@served(tags=(LONG_RUNNING,))
async def slow_compute(seconds: float = 1, label: str = "") -> str:
    """Take a while."""
    await asyncio.sleep(seconds)
    return f"Computed {label} in {seconds} seconds"


@served(tags=(LONG_RUNNING,))
async def failing_job() -> str:
    """Fail after a while."""
    if TASKS not in (peer().capabilities.extensions or {}):
        raise ToolError("Only as a task.", details={LACKING: {"extensions": {TASKS: {}}}})
    await asyncio.sleep(1)
    raise ToolError("The job failed.")


@served(tags=(LONG_RUNNING,))
async def protocol_error_job() -> str:
    """Need what no client has, after a while."""
    await asyncio.sleep(0.3)
    raise ToolError("It cannot go on.", details={LACKING: {"experimental": {"nothing": {}}}})


@served(tags=(LONG_RUNNING,))
async def confirm_delete(filename: str = "") -> str:
    """Ask for leave in the middle of a task."""
    await asyncio.sleep(0.3)
    said = await peer().elicit(f"Delete {filename}?", _form(confirm={"type": "boolean"}))
    return f"Deleted {filename}" if said.action == "accept" else "Kept"


@served(tags=(LONG_RUNNING,))
async def multi_input() -> str:
    """Ask two things at once in a task."""
    await asyncio.sleep(0.3)
    both = await asyncio.gather(
        peer().elicit("Your name?", NAME), peer().elicit("Your age?", _form(age={"type": "integer"}))
    )
    return " ".join(json.dumps(dict(one.content)) for one in both)


@served(tags=(LONG_RUNNING,))
async def test_tool_with_task() -> str:
    """Ask first, then take a while."""
    said = await peer().elicit("What is your name?", NAME, "user_name")
    await asyncio.sleep(0.5)
    return f"Hello, {said.content.get('name')}!"


# What is not tools

servers: list[McpServer] = []
Params = types.RequestParams
RESOURCES = {
    "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": base64.b64encode(PNG).decode()},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}
DONE = {"resultType": "complete"}
FRESH = {**DONE, "ttlMs": 0, "cacheScope": "private"}


async def list_resources(_context: Any, _params: Any) -> dict[str, Any]:
    listed = [{"uri": uri, "name": uri, "mimeType": one["mimeType"]} for uri, one in RESOURCES.items()]
    return {**FRESH, "resources": listed}


async def list_templates(_context: Any, _params: Any) -> dict[str, Any]:
    return {**FRESH, "resourceTemplates": [{"uriTemplate": "test://template/{id}/data", "name": "template"}]}


async def read_resource(context: Any, params: types.ReadResourceRequestParams) -> dict[str, Any]:
    uri = str(params.uri)
    found = RESOURCES.get(uri)
    if uri.startswith("test://template/"):
        which = uri.removeprefix("test://template/").removesuffix("/data")
        text = json.dumps({"id": which, "templateTest": True, "data": f"Data for ID: {which}"})
        found = {"mimeType": "application/json", "text": text}
    if found is None:
        old = context.protocol_version < "2026"
        raise MCPError(-32002 if old else types.INVALID_PARAMS, f"There is no resource {uri}.", {"uri": uri})
    return {**FRESH, "contents": [{"uri": uri, **found}]}


async def acknowledge(_context: Any, _params: Any) -> dict[str, Any]:
    return {}


def _says(*contents: dict[str, Any]) -> dict[str, Any]:
    return {**DONE, "messages": [{"role": "user", "content": content} for content in contents]}


def _words(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _arguments(*names: str) -> dict[str, Any]:
    return {"arguments": [{"name": name, "required": True} for name in names]} if names else {}


PROMPTS = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}


async def list_prompts(_context: Any, _params: Any) -> dict[str, Any]:
    prompts = [{"name": name, "description": "A prompt.", **_arguments(*names)} for name, names in PROMPTS.items()]
    return {**FRESH, "prompts": prompts}


async def get_prompt(_context: Any, params: types.GetPromptRequestParams) -> dict[str, Any]:
    given = params.arguments or {}
    if params.name == "test_simple_prompt":
        return _says(_words("This is a simple prompt for testing."))
    if params.name == "test_prompt_with_arguments":
        return _says(_words(f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"))
    if params.name == "test_prompt_with_embedded_resource":
        resource = {"uri": given["resourceUri"], "mimeType": "text/plain", "text": "Embedded resource content."}
        return _says({"type": "resource", "resource": resource}, _words("Please process the embedded resource above."))
    if params.name == "test_prompt_with_image":
        image = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}
        return _says(image, _words("Please analyze the image above."))
    if params.name == "test_input_required_result_prompt":
        return _prompt_with_context(params)
    raise MCPError(types.INVALID_PARAMS, f"There is no prompt {params.name}.")


def _prompt_with_context(params: types.GetPromptRequestParams) -> dict[str, Any]:
    said = (params.input_responses or {}).get("user_context")
    if isinstance(said, types.ElicitResult):
        return _says(_words(f"With the context: {(said.content or {}).get('context')}"))
    form = _form(context={"type": "string"})
    asked = {"mode": "form", "message": "What context should the prompt use?", "requestedSchema": form}
    request = {"method": "elicitation/create", "params": asked}
    return {"resultType": "input_required", "inputRequests": {"user_context": request}}


async def complete(_context: Any, _params: Any) -> dict[str, Any]:
    return {**DONE, "completion": {"values": ["paris", "park"], "total": 2, "hasMore": False}}


HANDLERS: Any = (
    ("resources/list", types.PaginatedRequestParams, list_resources),
    ("resources/templates/list", types.PaginatedRequestParams, list_templates),
    ("resources/read", types.ReadResourceRequestParams, read_resource),
    ("resources/subscribe", types.SubscribeRequestParams, acknowledge),
    ("resources/unsubscribe", types.UnsubscribeRequestParams, acknowledge),
    ("prompts/list", types.PaginatedRequestParams, list_prompts),
    ("prompts/get", types.GetPromptRequestParams, get_prompt),
    ("logging/setLevel", types.SetLevelRequestParams, acknowledge),
    ("completion/complete", types.CompleteRequestParams, complete),
)


class ConformanceServer(McpServer):
    """Ferrule's server with all that the suite asks for."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **{**options, "name": "ferrule-conformance", "portable": False})
        for method, params_type, handler in HANDLERS:
            self.sdk.add_request_handler(method, params_type, handler)
        servers.append(self)


if __name__ == "__main__":
    server = ConformanceServer(Runtime(registry))
    asyncio.run(
        serve_http(server, ListenAddress("127.0.0.1", 0), ready=lambda port: print(port, file=sys.stdout, flush=True))
    )
