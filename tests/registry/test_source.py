"""R3: what a registry and its views all answer: indexes by category and tag, kept until something changes."""

from __future__ import annotations

from typing import Any

from ferrule import FunctionTool, Registry, tool


def make(name: str, **options: Any) -> FunctionTool:
    def body() -> None: ...

    return tool(body, name=name, kind="readonly", **options)


REGISTRY = Registry(
    [
        make("read", category="files", tags=("disk", "text")),
        make("list", category="files", tags=("disk",)),
        make("get", category="web"),
    ]
)


def names(tools: list[Any]) -> list[str]:
    return [one.name for one in tools]


def test_tools_are_found_by_category_and_tag() -> None:
    assert names(REGISTRY.by_category("files")) == ["read", "list"]
    assert names(REGISTRY.by_tag("text")) == ["read"]
    assert REGISTRY.by_category("nothing") == REGISTRY.by_tag("nothing") == []
    assert REGISTRY.categories() == ["files", "web"]
    assert REGISTRY.tags() == ["disk", "text"]


def test_a_view_has_its_own_indexes() -> None:
    view = REGISTRY.only(["get"])
    assert view.categories() == ["web"]
    assert view.tags() == []


def test_what_is_given_out_can_be_changed_without_harm() -> None:
    REGISTRY.by_category("files").clear()
    REGISTRY.by_tag("disk").clear()
    assert names(REGISTRY.by_category("files")) == ["read", "list"]
    assert names(REGISTRY.by_tag("disk")) == ["read", "list"]


def test_indexes_follow_every_change() -> None:
    registry = Registry([make("read", category="files")])
    assert names(registry.by_category("files")) == ["read"]
    registry.register(make("list", category="files", tags=("new",)))
    assert names(registry.by_category("files")) == ["read", "list"]
    registry.disable("read")
    assert names(registry.by_category("files")) == ["list"]
    registry.unregister("list")
    assert registry.categories() == registry.tags() == []


def test_the_list_of_tools_is_made_once_until_something_changes() -> None:
    registry = Registry([make("read")])
    first = registry.tools()
    assert registry.tools() is first
    registry.register(make("list"))
    assert registry.tools() is not first


def test_any_test_can_filter() -> None:
    assert names(REGISTRY.filtered(lambda one: "disk" in one.tags).tools()) == ["read", "list"]
    assert names(list(REGISTRY)) == ["read", "list", "get"]
