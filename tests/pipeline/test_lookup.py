"""Stage one (P2): which tool is meant, or what to say when it is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import RawCall, Registry, Runtime, StoppedError, tool
from ferrule.pipeline.validate import lookup


def named(name: str, **options: Any) -> Any:
    def body() -> str:
        return name

    return tool(body, name=name, kind="readonly", **options)


REGISTRY = Registry([named("read_file"), named("write_file"), named("list_files")])


def refusal(source: Any, name: Any, version: str | None = None) -> str:
    with pytest.raises(StoppedError) as stopped:
        lookup(source, RawCall(name, version=version))
    assert stopped.value.kind == "not_found_error"
    return f"{stopped.value.message} {stopped.value.suggestion}"


def test_a_known_name_gives_its_tool() -> None:
    assert lookup(REGISTRY, RawCall("read_file")).name == "read_file"


def test_an_unknown_tool_is_answered_with_the_nearest_names() -> None:
    assert refusal(REGISTRY, "readFile") == snapshot("There is no tool `readFile`. Did you mean `read_file`?")


def test_a_name_near_to_none_is_answered_with_the_names_there_are() -> None:
    assert refusal(REGISTRY, "zzz") == snapshot(
        "There is no tool `zzz`. The tools are: `read_file`, `write_file`, `list_files`."
    )


def test_too_many_names_are_only_counted() -> None:
    many = Registry(named(f"tool_{number}_with_a_long_name") for number in range(30))
    assert refusal(many, "zzz") == snapshot("There is no tool `zzz`. Choose one of the 30 tools you were given.")


def test_where_there_are_no_tools_that_is_said() -> None:
    assert refusal(Registry(), "zzz") == snapshot("There is no tool `zzz`. No tools are available.")


def test_a_tool_that_is_switched_off_says_so() -> None:
    registry = Registry([named("read")])
    registry.disable("read")
    assert refusal(registry, "read") == snapshot(
        "The tool `read` is switched off. Use another tool, or go on without it."
    )


def test_a_version_that_is_not_there_is_answered_with_the_current_one() -> None:
    """T12: a caller can pin a version."""
    registry = Registry([named("read", version="1.0.0"), named("read", version="2.0.0")])
    assert lookup(registry, RawCall("read", version="2.0.0")).version == "2.0.0"
    assert refusal(registry, "read", "3") == snapshot(
        'The tool `read` has no version "3". Its current version is 1.0.0.'
    )


@pytest.mark.parametrize("name", [None, 5, ["read"], {"a": 1}, True, b"read", "", " ", "a\nb", "x" * 10_000, "\ud800"])
def test_a_name_of_any_sort_is_answered(name: Any) -> None:
    """P2: models send anything; also through a view, and in a batch beside good calls."""
    for source in (REGISTRY, REGISTRY.prefixed("fs_"), REGISTRY.read_only()):
        assert len(refusal(source, name)) < 400

    async def main() -> None:
        runtime = Runtime(REGISTRY)
        alone = await runtime.run(RawCall(name))
        together = await runtime.batch([RawCall(name), RawCall("read_file")])
        assert [alone.success, *(result.success for result in together)] == [False, False, True]
        alone.llm_content.encode()
        assert isinstance(alone.tool, str)

    asyncio.run(main())
