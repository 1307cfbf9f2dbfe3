"""Views (R3, R4): the same tools, fewer of them or under other names, always live."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import FunctionTool, RawCall, Registry, Runtime, tool


def make(name: str, kind: str = "readonly", **options: Any) -> FunctionTool:
    def body() -> str:
        return name

    return tool(body, name=name, kind=kind, **options)  # pyright: ignore[reportArgumentType]


def registry() -> Registry:
    return Registry([make("read"), make("write", "write"), make("run", "execute"), make("admin", roles=("admin",))])


def test_plan_mode_shows_only_read_only_tools() -> None:
    assert registry().for_mode("plan").names() == ["read", "admin"]
    assert registry().read_only().names() == ["read", "admin"]
    assert registry().writing().names() == ["write", "run"]
    assert registry().for_mode("default").names() == registry().names()


def test_an_agents_list_names_its_tools_and_all_means_every_tool() -> None:
    assert registry().only(["run", "read", "gone"]).names() == ["read", "run"]
    assert registry().only("read").names() == ["read"]
    assert registry().only(["all"]).names() == registry().names()
    assert registry().only([]).names() == []
    assert registry().without(["read"]).names() == ["write", "run", "admin"]


def test_a_role_sees_the_tools_it_may_use() -> None:
    assert "admin" in registry().for_role("admin")
    assert "admin" not in registry().for_role("guest")
    assert "admin" not in registry().for_role(None)
    assert "read" in registry().for_role(None)


def test_what_a_view_does_not_show_it_does_not_give() -> None:
    view = registry().read_only()
    assert view.get("write") is None
    assert view.get("read") is not None
    assert len(view) == 2
    assert not view.has("write")


def test_a_view_changes_as_its_source_does() -> None:
    source = registry()
    view = source.read_only().without(["admin"])
    source.register(make("find"))
    assert view.names() == ["read", "find"]
    source.disable("read")
    assert view.names() == ["find"]
    assert view.revision == source.revision


def test_disabled_tools_are_never_shown() -> None:
    source = registry()
    source.disable("read")
    for view in (source.only("all"), source.read_only(), source.prefixed("x_"), source.for_role("admin")):
        assert not any(name.endswith("read") for name in view.names())


def test_a_prefix_goes_before_every_name() -> None:
    view = registry().prefixed("fs_")
    assert view.names() == ["fs_read", "fs_write", "fs_run", "fs_admin"]
    found = view.get("fs_read")
    assert found is not None
    assert found.name == "fs_read"
    assert view.get("read") is None


def test_some_tools_can_have_other_names() -> None:
    view = registry().renamed({"read": "open_file"})
    assert view.names() == ["open_file", "write", "run", "admin"]
    assert view.get("read") is None
    assert view.get("write") is not None


def test_two_names_can_be_swapped() -> None:
    view = registry().renamed({"read": "write", "write": "read"})
    assert (view.get("write") or make("x")).kind == "readonly"


def test_two_tools_cannot_have_one_name() -> None:
    with pytest.raises(ValueError, match="Two tools"):
        registry().renamed({"read": "x", "write": "x"})
    with pytest.raises(ValueError, match="is the name of another tool"):
        registry().renamed({"read": "write"})


def test_a_renamed_tool_is_the_same_object_each_time() -> None:
    view = registry().prefixed("fs_")
    assert view.get("fs_read") is view.get("fs_read")
    assert view.tools()[0] is view.get("fs_read")


def test_an_alias_shows_the_one_shown_name() -> None:
    source = Registry()
    source.register(make("read"), aliases=["cat"])
    view = source.prefixed("fs_")
    assert view.get("fs_cat") is view.get("fs_read")
    renamed = source.renamed({"read": "open"})
    assert (renamed.get("cat") or make("x")).name == "open"


def test_views_can_be_viewed_again() -> None:
    view = registry().prefixed("a_").prefixed("b_").only(["b_a_read"])
    assert view.names() == ["b_a_read"]
    assert (view.get("b_a_read") or make("x")).name == "b_a_read"


def test_calls_run_through_a_view_under_the_shown_name() -> None:
    async def main() -> list[Any]:
        runtime = Runtime(registry().prefixed("fs_"))
        good = await runtime.run("fs_read")
        bad = await runtime.run("read")
        return [good.tool, good.data, bad.success, bad.llm_content]

    tool_name, data, found, words = asyncio.run(main())
    assert (tool_name, data, found) == ("fs_read", "read", False)
    assert "Did you mean `fs_read`?" in words


def test_versions_can_be_pinned_through_a_view() -> None:
    source = Registry([make("read", version="1"), make("read", version="2")])

    async def main() -> list[bool]:
        runtime = Runtime(source.prefixed("fs_"))
        return [(await runtime.run(RawCall("fs_read", version=version))).success for version in ("1", "2", "3")]

    assert asyncio.run(main()) == [True, True, False]
