"""The registry (R1, R2, R5, R8, T12): tools by name and version, safe under threads and tasks."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import FunctionTool, NameTakenError, Registry, RegistryEvent, tool


def make(name: str, version: str = "1", **options: Any) -> FunctionTool:
    def body() -> str:
        """Does something."""
        return f"{name} {version}"

    return tool(body, name=name, version=version, kind="readonly", **options)


def test_a_registered_tool_is_found() -> None:
    one = make("read")
    registry = Registry([one])
    assert registry.get("read") is one
    assert registry.has("read")
    assert "read" in registry
    assert (registry.size, len(registry)) == (1, 1)
    assert list(registry) == [one]


def test_an_absent_tool_is_none() -> None:
    registry = Registry()
    assert registry.get("read") is None
    assert registry.get("read", "1") is None
    assert not registry.has("read")
    assert 5 not in registry


def test_a_taken_name_is_refused_and_nothing_changes() -> None:
    """R2."""
    first = make("read")
    registry = Registry([first])
    with pytest.raises(NameTakenError, match="A tool `read` 1 is registered already"):
        registry.register(make("read"))
    assert registry.get("read") is first
    assert registry.revision == 1


def test_a_taken_name_is_replaced_when_asked_per_call_or_per_registry() -> None:
    second = make("read")
    asked = Registry([make("read")])
    asked.register(second, replace=True)
    registry = Registry([make("read")], replace=True)
    registry.register(second)
    assert asked.get("read") is registry.get("read") is second
    with pytest.raises(NameTakenError):
        registry.register(make("read"), replace=False)


def test_what_is_no_tool_is_refused_with_a_hint() -> None:
    with pytest.raises(TypeError, match=r"`print` is a function, not a tool: write @tool above it, or tool\(print\)"):
        Registry().register(print)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Make one with @tool"):
        Registry().register("print")  # type: ignore[arg-type]


def test_unregistering_removes_and_says_whether_there_was_one() -> None:
    registry = Registry([make("read")])
    assert registry.unregister("read")
    assert not registry.unregister("read")
    assert registry.get("read") is None
    assert registry.size == 0


def test_another_version_stands_beside_and_does_not_take_over() -> None:
    """T12."""
    registry = Registry([make("read", "1"), make("read", "2")])
    assert (registry.get("read") or make("x")).version == "1"
    assert registry.versions("read") == ["1", "2"]
    assert registry.size == 1
    registry.make_current("read", "2")
    assert (registry.get("read") or make("x")).version == "2"
    registry.register(make("read", "3"), current=True)
    assert (registry.get("read") or make("x")).version == "3"
    with pytest.raises(KeyError):
        registry.make_current("read", "9")


def test_without_its_current_version_the_newest_left_is_current() -> None:
    registry = Registry([make("read", "1"), make("read", "2"), make("read", "3")])
    assert registry.unregister("read", "1")
    assert (registry.get("read") or make("x")).version == "3"
    assert not registry.unregister("read", "1")
    registry.unregister("read")
    assert registry.versions("read") == []


def test_replacing_a_version_that_is_not_current_leaves_the_current_one() -> None:
    registry = Registry([make("read", "1"), make("read", "2")])
    registry.register(make("read", "2"), replace=True)
    assert (registry.get("read") or make("x")).version == "1"


def test_an_alias_finds_the_current_version() -> None:
    registry = Registry()
    registry.register(make("read", "1"), aliases=["cat", "read"])
    registry.register(make("read", "2"), current=True)
    found = registry.get("cat")
    assert found is registry.get("read")
    assert found is not None
    assert found.version == "2"
    assert registry.get("cat", "1") is not None
    assert registry.names() == ["read"]
    assert registry.size == 1
    registry.unregister("read")
    assert registry.get("cat") is None
    registry.register(make("cat"))


def test_an_alias_and_a_name_cannot_be_the_same() -> None:
    registry = Registry([make("read"), make("write")])
    with pytest.raises(NameTakenError):
        registry.register(make("read", "2"), aliases=["write"])
    registry.register(make("open"), aliases=["show"])
    with pytest.raises(NameTakenError):
        registry.register(make("show"))
    with pytest.raises(NameTakenError):
        registry.register(make("print"), aliases=["show"])
    assert registry.versions("read") == ["1"]


def test_many_are_registered_or_none() -> None:
    """R1."""
    registry = Registry([make("b")])
    heard: list[RegistryEvent] = []
    registry.subscribe(heard.append)
    for bad in ([make("a"), make("b")], [make("a"), make("c"), make("c")], [make("a"), 5]):
        with pytest.raises((NameTakenError, TypeError)):
            registry.register_many(bad)  # type: ignore[arg-type]
        assert registry.names() == ["b"]
    assert heard == []
    registry.register_many([make("a"), make("c")], origin="plugin")
    assert [event.name for event in heard] == ["a", "c"]
    registry.register_many([make("a"), make("b")], replace=True)


def test_a_disabled_tool_is_kept_but_not_shown() -> None:
    """T2, R4."""
    registry = Registry()
    registry.register(make("read"), aliases=["cat"])
    registry.disable("cat")
    assert registry.tools() == []
    assert registry.size == 1
    assert [info.enabled for info in registry.list()] == [False]
    registry.enable("read")
    assert registry.names() == ["read"]
    for switch in (registry.enable, registry.disable):
        with pytest.raises(KeyError):
            switch("nothing")


def test_a_tool_that_starts_disabled_is_not_shown() -> None:
    assert Registry([make("read", enabled=False)]).names() == []


def test_the_list_tells_what_there_is() -> None:
    registry = Registry()
    registry.register(make("read", category="files", tags=["b", "a"], display_name="Read"), origin="builtin")
    assert [tuple(info) for info in registry.list()] == [
        ("read", "Read", "readonly", "1", "files", ("a", "b"), "Does something.", "builtin", True)
    ]


def test_every_change_is_an_event_with_its_origin() -> None:
    """R5, R8."""
    registry = Registry()
    heard: list[RegistryEvent] = []
    unsubscribe = registry.subscribe(heard.append)
    registry.register(make("read"), origin="mcp")
    registry.register(make("read"), replace=True, origin="plugin")
    registry.disable("read")
    registry.enable("read")
    registry.unregister("read")
    unsubscribe()
    registry.register(make("read"))
    assert [(event.change, event.name, event.version, event.origin) for event in heard] == [
        ("registered", "read", "1", "mcp"),
        ("replaced", "read", "1", "plugin"),
        ("disabled", "read", "1", "plugin"),
        ("enabled", "read", "1", "plugin"),
        ("unregistered", "read", "1", "plugin"),
    ]


def test_a_listener_that_fails_is_logged_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry()
    heard: list[str] = []

    def fails(event: RegistryEvent) -> None:
        raise RuntimeError

    registry.subscribe(fails)
    registry.subscribe(lambda event: heard.append(event.name))
    with caplog.at_level(logging.ERROR, "ferrule.registry"):
        registry.register(make("read"))
    assert heard == ["read"]
    assert "A registry listener failed" in caplog.text


def test_a_listener_that_makes_changes_does_not_turn_the_order_around() -> None:
    registry = Registry()
    heard: list[str] = []

    def adds(event: RegistryEvent) -> None:
        if event.name == "first":
            registry.register(make("second"))

    registry.subscribe(adds)
    registry.subscribe(lambda event: heard.append(event.name))
    registry.register(make("first"))
    assert heard == ["first", "second"]


def test_looking_up_takes_the_same_time_however_many_there_are() -> None:
    """R1: constant-time with 10,000 tools; O5: under a millisecond."""

    def seconds(registry: Registry) -> float:
        best = 1.0
        for _ in range(5):
            began = time.perf_counter()
            for _ in range(2000):
                registry.get("tool_5")
            best = min(best, time.perf_counter() - began)
        return best / 2000

    few = Registry(make(f"tool_{n}") for n in range(10))
    many = Registry(make(f"tool_{n}") for n in range(10_000))
    assert seconds(many) < max(5 * seconds(few), 0.0001)


# Laws


class Model:
    """What the events say there is."""

    def __init__(self) -> None:
        self.versions: dict[str, list[str]] = {}
        self.enabled: dict[str, bool] = {}

    def hear(self, event: RegistryEvent) -> None:
        held = self.versions.setdefault(event.name, [])
        if event.change == "registered" and event.version not in held:
            held.append(event.version)
        elif event.change == "replaced":
            assert event.version in held
        elif event.change == "unregistered":
            held.remove(event.version)
        if not held:
            del self.versions[event.name]


def check_laws(registry: Registry) -> None:
    names = [name for name, _ in registry.entries()]
    assert registry.size == len(names) == len(set(names))
    for name in names:
        current = registry.get(name)
        assert current is not None
        assert current.name == name
        assert current.version in registry.versions(name)
        for version in registry.versions(name):
            pinned = registry.get(name, version)
            assert pinned is not None
            assert pinned.version == version
    assert set(registry.names()) == {name for name, entry in registry.entries() if entry.enabled}


operations = st.lists(
    st.tuples(
        st.sampled_from(
            ["register", "replace", "unregister", "unregister one", "current", "enable", "disable", "many"]
        ),
        st.sampled_from("abc"),
        st.sampled_from("12"),
    ),
    max_size=30,
)


def apply(registry: Registry, operation: str, name: str, version: str) -> None:
    one = make(name, version)
    try:
        if operation == "register":
            registry.register(one, current=version == "2")
        elif operation == "replace":
            registry.register(one, replace=True)
        elif operation == "unregister":
            registry.unregister(name)
        elif operation == "unregister one":
            registry.unregister(name, version)
        elif operation == "current":
            registry.make_current(name, version)
        elif operation == "enable":
            registry.enable(name)
        elif operation == "disable":
            registry.disable(name)
        else:
            registry.register_many([one, make(name + "x", version)])
    except (NameTakenError, KeyError):
        pass


@settings(max_examples=100)
@given(operations)
def test_any_operations_keep_the_laws_and_their_events_tell_it_all(todo: list[tuple[str, str, str]]) -> None:
    registry, model = Registry(), Model()
    registry.subscribe(model.hear)
    for step in todo:
        before = registry.revision
        names, versions = registry.names(), {name: registry.versions(name) for name, _ in registry.entries()}
        apply(registry, *step)
        after = {name: registry.versions(name) for name, _ in registry.entries()}
        assert registry.revision >= before
        if (registry.names(), after) != (names, versions):
            assert registry.revision > before
        check_laws(registry)
        assert {name: sorted(held) for name, held in model.versions.items()} == {
            name: sorted(held) for name, held in after.items()
        }


def test_operations_from_many_threads_keep_the_laws() -> None:
    registry, model = Registry(), Model()
    registry.subscribe(model.hear)
    stop = threading.Event()
    failures: list[BaseException] = []

    def change(seed: int) -> None:
        rng = random.Random(seed)
        kinds = ["register", "replace", "unregister", "unregister one", "current", "enable", "disable", "many"]
        try:
            for _ in range(150):
                apply(registry, rng.choice(kinds), rng.choice("abc"), rng.choice("12"))
        except BaseException as error:
            failures.append(error)

    def look() -> None:
        last = 0
        try:
            while not stop.is_set():
                revision = registry.revision
                assert revision >= last
                last = revision
                for name in "abc":
                    found = registry.get(name)
                    assert found is None or found.name == name
                assert all(one is not None for one in registry.tools())
                registry.search("a")
                registry.by_category("general")
        except BaseException as error:
            failures.append(error)

    readers = [threading.Thread(target=look) for _ in range(2)]
    writers = [threading.Thread(target=change, args=(seed,)) for seed in range(6)]
    for thread in readers + writers:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in readers:
        thread.join()
    assert failures == []
    check_laws(registry)
    after = {name: sorted(registry.versions(name)) for name, _ in registry.entries()}
    assert {name: sorted(held) for name, held in model.versions.items()} == after


def test_one_name_raced_for_by_many_threads_is_given_once() -> None:
    for _ in range(20):
        registry = Registry()
        won: list[int] = []
        start = threading.Barrier(8)

        def race(number: int, registry: Registry = registry, start: Any = start, won: list[int] = won) -> None:
            start.wait()
            try:
                registry.register_many([make("x"), make(f"own_{number}")])
                won.append(number)
            except NameTakenError:
                pass

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(won) == 1
        assert sorted(registry.names()) == sorted(["x", f"own_{won[0]}"])


def test_tools_come_and_go_while_calls_run() -> None:
    """R8: no restart; a call gets the tool or a clear refusal, never a crash."""
    from ferrule import Runtime

    async def main() -> set[str]:
        registry = Registry()
        runtime = Runtime(registry)
        kinds: set[str] = set()

        async def churn() -> None:
            for _ in range(100):
                registry.register(make("read"))
                await asyncio.sleep(0)
                registry.unregister("read")
                await asyncio.sleep(0)

        async def call() -> None:
            for _ in range(100):
                result = await runtime.run("read")
                kinds.add("success" if result.success else result.error.kind.value if result.error else "?")
                await asyncio.sleep(0)

        await asyncio.gather(churn(), call(), call())
        return kinds

    assert asyncio.run(main()) <= {"success", "not_found_error"}


@pytest.mark.parametrize("name", ["raed", "Read", "read "])
def test_a_misspelt_tool_that_is_to_be_off_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match="did you mean `read`"):
        Registry([make("read")], disabled=[name])


def test_one_tool_that_is_to_be_off_needs_no_list() -> None:
    assert Registry([make("read"), make("write")], disabled="read").names() == ["write"]


def test_replacing_a_tool_that_is_switched_off_leaves_it_off() -> None:
    """R4."""
    registry = Registry([make("a")])
    registry.disable("a")
    registry.register(make("a"), replace=True)
    assert registry.names() == []


# Tools that are loaded when they are first looked at


class Shelf:
    """Tools to be registered later, and how often they were fetched."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.tools = {name: make(name, **options) for name in names}
        self.fetched = 0

    def load(self) -> list[FunctionTool]:
        self.fetched += 1
        return list(self.tools.values())


def test_tools_that_come_later_are_known_by_name_and_fetched_when_looked_up() -> None:
    """P3."""
    shelf = Shelf("read", "write")
    registry = Registry([make("first")])
    registry.register_later(shelf.tools, shelf.load, origin="builtin")
    registry.register(make("last"))
    assert registry.known_names() == ["first", "read", "write", "last"]
    assert ("read" in registry, registry.has("write"), registry.has("gone"), len(registry)) == (True, True, False, 4)
    assert registry.get("first") is not None
    assert shelf.fetched == 0
    assert registry.get("read") is shelf.tools["read"]
    assert registry.get("write", "1") is shelf.tools["write"]
    assert shelf.fetched == 1
    assert registry.names() == ["first", "read", "write", "last"]
    assert [entry.origin for _, entry in registry.entries()] == ["dynamic", "builtin", "builtin", "dynamic"]


def test_nobody_hears_of_a_tool_when_it_is_fetched() -> None:
    """R5: a client that lists the tools is not told that they have changed by that."""
    shelf, registry, heard = Shelf("read"), Registry(), list[RegistryEvent]()
    registry.register_later(shelf.tools, shelf.load)
    registry.subscribe(heard.append)
    before = registry.revision
    assert registry.names() == ["read"]
    assert (heard, registry.revision) == ([], before)
    registry.disable("read")
    assert [event.change for event in heard] == ["disabled"]
    assert registry.names() == []


def test_a_list_fetches_what_comes_later() -> None:
    shelves = [Shelf("read"), Shelf("write")]
    registry = Registry()
    for shelf in shelves:
        registry.register_later(shelf.tools, shelf.load)
    assert registry.names() == ["read", "write"]
    assert registry.read_only().names() == ["read", "write"]
    assert [shelf.fetched for shelf in shelves] == [1, 1]


def test_the_name_of_a_tool_that_comes_later_is_taken() -> None:
    """R2."""
    shelf = Shelf("read")
    registry = Registry([make("write")])
    registry.register_later(shelf.tools, shelf.load)
    with pytest.raises(NameTakenError, match="A tool `read` 1 is registered already"):
        registry.register(make("read"))
    with pytest.raises(NameTakenError, match="The alias `read` is the name of another tool"):
        registry.register(make("open"), aliases=["read"])
    with pytest.raises(NameTakenError, match="A tool `write` is registered already; none was added"):
        registry.register_later(["edit", "write"], Shelf("edit", "write").load)
    assert registry.names() == ["write", "read"]
    registry.register(make("read", "2"))
    assert registry.get("read") is shelf.tools["read"]


@pytest.mark.parametrize("change", ["disable", "unregister", "versions"])
def test_a_tool_that_comes_later_can_be_managed_before_it_is_looked_at(change: str) -> None:
    """R1, R4."""
    shelf = Shelf("read")
    registry = Registry()
    registry.register_later(shelf.tools, shelf.load)
    assert getattr(registry, change)("read") in (None, True, ["1"])
    assert registry.names() == (["read"] if change == "versions" else [])


def test_a_tool_that_comes_later_may_be_switched_off_before() -> None:
    """R4."""
    shelf = Shelf("read")
    registry = Registry(disabled=["read"])
    registry.register_later(shelf.tools, shelf.load)
    assert (registry.names(), "read" in registry) == ([], True)


def test_threads_that_look_up_a_tool_that_comes_later_all_get_it() -> None:
    """R1, P3."""
    for _ in range(50):
        shelf, registry = Shelf("read"), Registry()
        registry.register_later(shelf.tools, shelf.load)
        start, found = threading.Barrier(4), list[object]()

        def look(registry: Registry = registry, start: threading.Barrier = start, found: list[object] = found) -> None:
            start.wait()
            found.append(registry.get("read"))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [shelf.tools["read"]] * 4
