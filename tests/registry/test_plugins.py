"""A plugin in a registry: started before its tools are there, cleaned up once they are gone (R7, R8)."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ferrule import NameTakenError, Plugin, Registry, tool


@tool(kind="readonly")
def read_one() -> int:
    """Read one. Use this to test."""
    return 1


def noting(registry: Registry, heard: list[str], **changes: Any) -> Plugin:
    """A plugin that notes its steps, and whether its tool is there then."""

    async def initialise() -> None:
        heard.append(f"initialise {'read_one' in registry}")

    def clean_up() -> None:  # both may be async or not
        heard.append(f"clean_up {'read_one' in registry}")

    given: dict[str, Any] = {"name": "mine", "tools": [read_one], "initialise": initialise, "clean_up": clean_up}
    return Plugin(**(given | changes))


async def test_a_plugin_starts_before_its_tools_come_and_ends_after_they_are_gone() -> None:
    """R5, R7: every step is an event too."""
    registry, heard = Registry(), list[str]()
    registry.subscribe(lambda event: heard.append(f"{event.change} {event.name} of a {event.origin}"))
    await registry.add_plugin(noting(registry, heard))
    assert await registry.remove_plugin("mine")
    assert heard == [
        "initialise False", "registered read_one of a plugin", "unregistered read_one of a plugin", "clean_up False",
    ]  # fmt: skip
    assert not await registry.remove_plugin("mine")


async def test_a_plugin_that_cannot_start_brings_no_tools_and_can_be_added_again() -> None:
    registry = Registry()

    async def fail() -> None:
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        await registry.add_plugin(noting(registry, [], initialise=fail))
    assert registry.names() == []
    await registry.add_plugin(noting(registry, []))
    assert registry.names() == ["read_one"]


async def test_a_plugin_whose_tool_has_a_taken_name_is_cleaned_up_and_adds_nothing() -> None:
    registry, heard = Registry([read_one]), list[str]()
    other = tool(lambda: 2, name="read_two")
    with pytest.raises(NameTakenError, match=r"`read_one` 1.0.0 is registered already; none was added"):
        await registry.add_plugin(noting(registry, heard, tools=[other, tool(lambda: 1, name="read_one")]))
    assert (registry.tools(), heard) == ([read_one], ["initialise True", "clean_up True"])


async def test_two_plugins_cannot_have_one_name() -> None:
    registry, heard = Registry(), list[str]()
    await registry.add_plugin(noting(registry, heard))
    with pytest.raises(NameTakenError, match="`mine` is in the registry already"):
        await registry.add_plugin(noting(registry, heard, tools=[]))
    assert heard == ["initialise False"]


async def test_a_tool_that_took_the_place_of_a_plugins_stays_when_the_plugin_goes() -> None:
    registry = Registry()
    await registry.add_plugin(noting(registry, []))
    own = tool(lambda: 3, name="read_one")
    registry.register(own, replace=True)
    await registry.remove_plugin("mine")
    assert registry.tools() == [own]
    assert not registry.unregister(read_one), "it is not the one that has the name"
    assert registry.unregister(own)


async def test_a_registry_takes_plugins_alone() -> None:
    with pytest.raises(TypeError, match=r"`ferrule.tools.load_plugin` makes one of it"):
        await Registry().add_plugin(cast("Any", "my_tools"))
