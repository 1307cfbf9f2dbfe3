"""R3: search over name, display name and description."""

from __future__ import annotations

from ferrule import Registry, tool


@tool(kind="readonly", display_name="Open a document", category="files", tags=["disk"])
def read_file() -> None:
    """Read a text from the workspace."""


@tool(kind="readonly")
def read() -> None:
    """Read anything."""


@tool(kind="readonly")
def fetch() -> None:
    """Read a page of the web."""


@tool(kind="write")
def save() -> None:
    """Store a file."""


REGISTRY = Registry([fetch, save, read_file, read])


def names(query: str, most: int = 20) -> list[str]:
    return [one.name for one in REGISTRY.search(query, most)]


def test_the_exact_name_comes_first_then_names_then_descriptions() -> None:
    assert names("read") == ["read", "read_file", "fetch"]


def test_every_word_must_be_there_in_any_order_and_case() -> None:
    assert names("WEB page") == ["fetch"]
    assert names("page nothing") == []


def test_display_names_tags_and_categories_count() -> None:
    assert names("document") == ["read_file"]
    assert names("disk") == ["read_file"]
    assert names("files") == ["read_file"]


def test_an_empty_query_finds_nothing() -> None:
    assert names("") == names("  ") == []


def test_no_more_than_asked_for() -> None:
    assert names("read", most=1) == ["read"]
    assert names("read", most=0) == []


def test_disabled_tools_are_not_found_and_new_ones_are() -> None:
    registry = Registry([read])
    assert registry.search("save") == []
    registry.register(save)
    assert [one.name for one in registry.search("save")] == ["save"]
    registry.disable("save")
    assert registry.search("save") == []
    assert [one.name for one in registry.prefixed("x_").search("x_read")] == ["x_read"]
