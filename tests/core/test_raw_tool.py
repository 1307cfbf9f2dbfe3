"""Tools made from a JSON Schema that is known only at run time (T4)."""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import subprocess
import sys
import threading
from typing import Any

import pytest

from ferrule.core import schema_compile
from ferrule.core.errors import DefinitionError
from ferrule.core.function_tool import RawTool, raw_tool
from ferrule.core.tool import Kind, Style

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CONTEXT: Any = object()


def greet(arguments: dict[str, Any]) -> str:
    """Greet a city. Use it to be polite."""
    return f"Hello, {arguments['city']}"


def test_a_schema_and_a_handler_are_a_tool():
    """T4: the third way to make a tool."""
    tool = raw_tool("greet_city", CITY, greet, kind="readonly", tags=["fun"], version="2.0.0")
    invocation = tool.build('{"city": "Oslo"}')
    assert isinstance(tool, RawTool)
    assert tool.start(invocation.params, None) == "Hello, Oslo"
    assert (tool.kind, tool.tags, tool.version) == (Kind.READONLY, {"fun"}, "2.0.0")
    assert tool.description.short == "Greet a city. Use it to be polite."


def test_the_schema_goes_out_untouched():
    """T4: a provider is shown the very schema that was given."""
    schema = {**CITY, "x-vendor": {"keep": [1, 2]}, "title": "City"}
    before = repr(schema)
    tool = raw_tool("greet_city", schema, greet)
    tool.build({"city": "Oslo"})
    assert tool.input_schema is schema
    assert repr(schema) == before


def test_what_the_schema_said_at_definition_counts():
    schema = {**CITY}
    tool = raw_tool("greet_city", schema, greet)
    schema["required"] = ["country"]
    assert tool.build({"city": "Oslo"}).params == {"city": "Oslo"}


async def _async(arguments: Any) -> Any:
    return arguments


async def _async_stream(arguments: Any):
    yield arguments


def _stream(arguments: Any):
    yield arguments


@pytest.mark.parametrize(
    ("handler", "style"),
    [
        (greet, Style.SYNC),
        (_async, Style.ASYNC),
        (_stream, Style.SYNC_STREAM),
        (_async_stream, Style.ASYNC_STREAM),
        (functools.partial(_async), Style.ASYNC),
    ],
)
def test_a_handler_may_be_written_in_any_style(handler: Any, style: Style):
    """T4: sync, async or a generator."""
    assert raw_tool("greet_city", CITY, handler).style is style


def test_the_context_goes_to_a_handler_that_takes_it():
    """T8: a second parameter, whatever its name, gets the context."""
    with_context = raw_tool("greet_city", CITY, lambda arguments, ctx: (arguments, ctx))
    without = raw_tool("greet_city", CITY, lambda arguments: arguments)
    assert with_context.wants_context
    assert with_context.start({"city": "Oslo"}, CONTEXT) == ({"city": "Oslo"}, CONTEXT)
    assert not without.wants_context
    assert without.start({"city": "Oslo"}, CONTEXT) == {"city": "Oslo"}


def test_an_async_handler_with_context_runs():
    async def handler(arguments: Any, context: Any) -> Any:
        return arguments["city"], context

    assert asyncio.run(raw_tool("greet_city", CITY, handler).start({"city": "Oslo"}, CONTEXT)) == (
        "Oslo",
        CONTEXT,
    )


@pytest.mark.parametrize("handler", [lambda: 1, lambda a, b, c: 1, lambda a, *, key: 1, "not a function"])
def test_a_handler_that_cannot_be_called_so_is_refused(handler: Any):
    with pytest.raises(DefinitionError, match="handler"):
        raw_tool("greet_city", CITY, handler)


def test_it_is_compiled_once_however_many_ask(monkeypatch: pytest.MonkeyPatch):
    """P3: sixteen threads at once share one compilation."""
    made: list[int] = []
    real = schema_compile.CompiledSchema.__init__

    def counting(self: Any, *args: Any) -> None:
        made.append(1)
        real(self, *args)

    monkeypatch.setattr(schema_compile.CompiledSchema, "__init__", counting)
    tool = raw_tool("greet_city", CITY, greet)
    assert not made, "a tool that is never called is never compiled"
    gate = threading.Barrier(16)
    results: list[Any] = []

    def call() -> None:
        gate.wait()
        results.append(tool.params.load('{"city": "Oslo"}'))

    threads = [threading.Thread(target=call) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [{"city": "Oslo"}] * 16
    assert len(made) == 1


def test_the_validator_is_imported_only_when_it_is_needed():
    """O5: defining tools costs no import; jsonschema-rs alone takes some 50 ms."""
    assert importlib.util.find_spec("jsonschema_rs") is not None
    code = (
        "import sys; from ferrule.core.function_tool import raw_tool\n"
        "tool = raw_tool('greet', {'type': 'object'}, lambda a: a)\n"
        "assert 'jsonschema_rs' not in sys.modules\n"
        "tool.compile(); assert 'jsonschema_rs' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
