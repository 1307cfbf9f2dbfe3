"""P7: a result may be used again for the same tool, version, parameters, caller and place."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field, SecretStr

from ferrule import Caller, DefinitionError, RawCall, Registry, Runtime, Session, ToolError, tool
from ferrule.pipeline import format as cache_module
from ferrule.pipeline.format import ResultCache


class Counter:
    """A tool that counts its runs."""

    def __init__(self, version: str = "1.0.0", cache: bool | float = True) -> None:
        self.runs = 0

        @tool(kind="readonly", name="look", cache=cache, version=version)
        async def look(what: str, times: int = 1) -> int:
            self.runs += 1
            if what == "fail":
                raise ToolError("no")
            return self.runs

        self.tool = look


def runs(*calls: tuple[dict[str, Any], Session], **options: Any) -> int:
    counter = Counter(**options)

    async def main() -> None:
        runtime = Runtime([counter.tool])
        for arguments, session in calls:
            await runtime.run("look", arguments, session=session)

    asyncio.run(main())
    return counter.runs


HERE = Session(workspace=Path("/ws"), caller=Caller("t", "u", "r"))


def test_the_same_call_runs_once() -> None:
    assert runs(({"what": "a"}, HERE), ({"what": "a"}, HERE)) == 1


def test_equal_arguments_written_differently_are_the_same_call() -> None:
    assert runs(({"what": "a", "times": 1}, HERE), ({"times": 1, "what": "a"}, HERE), ({"what": "a"}, HERE)) == 1


@pytest.mark.parametrize(
    "other",
    [
        Session(workspace=Path("/ws"), caller=Caller("other", "u", "r")),
        Session(workspace=Path("/ws"), caller=Caller("t", "other", "r")),
        Session(workspace=Path("/ws"), caller=Caller("t", "u", "other")),
        Session(workspace=Path("/other"), caller=HERE.caller),
        Session(workspace=Path("/ws"), working_directory=Path("/ws/sub"), caller=HERE.caller),
    ],
)
def test_another_caller_or_place_is_another_call(other: Session) -> None:
    """O4: tenants are isolated."""
    assert runs(({"what": "a"}, HERE), ({"what": "a"}, other)) == 2


def test_other_parameters_are_another_call() -> None:
    assert runs(({"what": "a"}, HERE), ({"what": "b"}, HERE), ({"what": "a", "times": 2}, HERE)) == 3


def test_failures_are_never_kept() -> None:
    assert runs(({"what": "fail"}, HERE), ({"what": "fail"}, HERE)) == 2


def test_a_tool_that_does_not_allow_it_always_runs() -> None:
    assert runs(({"what": "a"}, HERE), ({"what": "a"}, HERE), cache=False) == 2


def test_only_a_read_only_tool_may_be_cached() -> None:
    with pytest.raises(DefinitionError, match="only a read-only tool may be cached"):
        tool(lambda: None, name="save", kind="write", cache=True)


def test_another_version_or_a_replaced_tool_starts_afresh() -> None:
    async def main() -> tuple[int, int, int]:
        first, second, third = Counter("1"), Counter("2"), Counter("1")
        registry = Registry([first.tool, second.tool])
        runtime = Runtime(registry)
        for version in ("1", "2"):
            await runtime.run(RawCall("look", {"what": "a"}, version=version))
        registry.register(third.tool, replace=True)
        await runtime.run(RawCall("look", {"what": "a"}))
        return first.runs, second.runs, third.runs

    assert asyncio.run(main()) == (1, 1, 1)


def test_a_kept_result_says_so_and_answers_its_own_call() -> None:
    async def main() -> None:
        runtime = Runtime([Counter().tool])
        first = await runtime.run(RawCall("look", {"what": "a"}, id="one"))
        second = await runtime.run(RawCall("look", {"what": "a"}, id="two"))
        assert (first.call_id, first.metadata) == ("one", {})
        assert (second.call_id, second.metadata) == ("two", {"cached": True})
        assert second.data == first.data

    asyncio.run(main())


def test_what_was_mended_in_one_call_is_not_said_of_another() -> None:
    async def main() -> list[dict[str, Any]]:
        runtime = Runtime([Counter().tool])
        calls: list[Any] = [{"what": "a", "times": "1"}, {"what": "a", "times": 1}, {"what": "a", "times": 1.0}]
        return [(await runtime.run("look", arguments)).metadata for arguments in calls]

    mended, whole, other = asyncio.run(main())
    assert mended == {"repairs": ['`times`: "1" read as 1']}
    assert whole == {"cached": True}
    assert other == {"cached": True, "repairs": ["`times`: 1.0 read as 1"]}


def test_a_result_is_kept_as_long_as_its_tool_says(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(cache_module, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now)}))

    async def main() -> list[int]:
        nonlocal now
        counter = Counter(cache=True)
        runtime = Runtime([counter.tool])
        seen: list[int] = []
        for wait in (0, 299, 2):
            now += wait
            await runtime.run("look", {"what": "a"})
            seen.append(counter.runs)
        return seen

    assert asyncio.run(main()) == [1, 1, 2]  # five minutes by default
    assert time.monotonic() != now


def test_the_cache_keeps_the_newest_used_and_no_more_than_its_size() -> None:
    async def main() -> list[int]:
        counter = Counter()
        runtime = Runtime([counter.tool], cache=ResultCache(size=2))
        seen: list[int] = []
        for what in ("a", "b", "a", "c", "a", "b"):
            await runtime.run("look", {"what": what})
            seen.append(counter.runs)
        return seen

    assert asyncio.run(main()) == [1, 2, 2, 3, 3, 4]


def test_a_cleared_cache_knows_nothing() -> None:
    async def main() -> int:
        counter = Counter()
        runtime = Runtime([counter.tool])
        await runtime.run("look", {"what": "a"})
        runtime.cache.clear()
        await runtime.run("look", {"what": "a"})
        return counter.runs

    assert asyncio.run(main()) == 2


def test_changing_what_was_given_does_not_change_what_is_kept() -> None:
    """P7."""

    @tool(kind="readonly", cache=True)
    def list_names() -> list[str]:
        """List."""
        return ["a"]

    async def go() -> None:
        runtime = Runtime([list_names])
        for _ in range(3):
            result = await runtime.run("list_names")
            assert result.data == ["a"]
            result.data.append("b")

    asyncio.run(go())


def test_parameters_that_a_model_would_hide_still_tell_calls_apart() -> None:
    """P7, P4: neither the cache nor the person's question goes by what a serializer leaves out."""

    @tool(kind="readonly", cache=True)
    def log_in(word: SecretStr, place: Annotated[str, Field(exclude=True)]) -> str:
        """Log in."""
        return f"{word.get_secret_value()} {place}"

    async def go() -> list[Any]:
        runtime = Runtime([log_in])
        calls = [("a", "x"), ("b", "x"), ("a", "y")]
        return [(await runtime.run("log_in", {"word": word, "place": place})).data for word, place in calls]

    assert asyncio.run(go()) == ["a x", "b x", "a y"]
    invocation = log_in.build({"word": "a", "place": "/etc"})
    assert invocation.signature == '{"word":"a","place":"/etc"}'
