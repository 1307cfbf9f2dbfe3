"""What a tool made without a class says of its calls (T6, T7)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.access import NOTHING, READS_ANYTHING, WRITES_ANYTHING, reads, writes
from ferrule.core.context import Session
from ferrule.core.errors import DefinitionError, ToolError
from ferrule.core.function_tool import tool
from ferrule.core.hooks import HookedTool
from ferrule.core.problems import InvalidParams, Problem
from ferrule.core.raw_tool import raw_tool
from ferrule.pipeline.run import Runtime

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def greet(arguments: dict[str, Any]) -> str:
    """Greet a city. Use it to be polite."""
    return f"Hello, {arguments['city']}"


def from_schema(**hooks: Any) -> HookedTool:
    return raw_tool("greet_city", CITY, greet, **hooks)


def from_function(**hooks: Any) -> HookedTool:
    @tool(**hooks)
    def greet_city(city: str) -> str:
        """Greet a city. Use it to be polite."""
        return f"Hello, {city}"

    return greet_city


either_way = pytest.mark.parametrize("make", [from_schema, from_function])
Make = Callable[..., HookedTool]


def city_of(params: Any) -> str:
    return params["city"] if isinstance(params, dict) else params.city


def test_a_tool_says_of_its_calls_what_it_is_told_to():
    """T6, T7: signature, rule, touches, own checks and rendering are given as functions."""
    tool = raw_tool(
        "greet_city",
        CITY,
        greet,
        touches=lambda arguments: [reads("city", arguments["city"])],
        signature=lambda arguments: arguments["city"],
        abstract_rule=lambda arguments: "greet_city:*",
        check=lambda arguments: [Problem(("city",), "value", "no such city")] if arguments["city"] == "X" else [],
        render=lambda value: value.upper(),
        output_schema={"type": "string"},
    )
    invocation = tool.build({"city": "Oslo"})
    assert invocation.touches == (reads("city", "Oslo"),)
    assert (invocation.signature, invocation.abstract_rule) == ("Oslo", "greet_city:*")
    assert tool.render("hi") == "HI"
    assert tool.output_schema == {"type": "string"}
    with pytest.raises(InvalidParams, match="no such city"):
        tool.build({"city": "X"})


def test_unsaid_it_is_as_careful_as_any_tool():
    tool = raw_tool("greet_city", CITY, greet)
    invocation = tool.build({"city": "Oslo"})
    assert invocation.touches == WRITES_ANYTHING
    assert (invocation.signature, invocation.abstract_rule) == ('{"city":"Oslo"}', "greet_city")
    assert tool.render("x") is None
    assert tool.output_schema is None


@either_way
def test_every_hook_serves_a_function_and_a_schema_alike(make: Make) -> None:
    """T6, T7."""
    made = make(
        touches=lambda params: [writes("city", city_of(params))],
        signature=city_of,
        abstract_rule=lambda params: f"greet_city:{city_of(params)[0]}*",
        render=lambda value: value.upper(),
        display=lambda value: value[:5],
    )
    invocation = made.build({"city": "Oslo"})
    assert invocation.touches == (writes("city", "Oslo"),)
    assert (invocation.signature, invocation.abstract_rule) == ("Oslo", "greet_city:O*")
    assert (made.render("hello, Oslo"), made.display("hello, Oslo")) == ("HELLO, OSLO", "hello")


@either_way
def test_a_tool_without_hooks_says_that_it_has_none(make: Make) -> None:
    """What it lacks is never called, so a plain tool pays nothing for it."""
    made = make()
    assert (made.has_check, made.has_touches, made.has_words) == (False, False, False)
    assert made.check(made.build({"city": "Oslo"}).params) == ()
    assert (made.render("x"), made.display("x")) == (None, None)


@pytest.mark.parametrize(
    ("hook", "has"),
    [
        ("check", (True, False, False)),
        ("touches", (False, True, False)),
        ("render", (False, False, True)),
        ("display", (False, False, True)),
        ("signature", (False, False, False)),
        ("abstract_rule", (False, False, False)),
    ],
)
@either_way
def test_a_tool_says_which_hooks_it_has(make: Make, hook: str, has: tuple[bool, bool, bool]) -> None:
    made = make(**{hook: lambda _: ()})
    assert (made.has_check, made.has_touches, made.has_words) == has
    assert make(**{hook: None}).__dict__.keys() == make().__dict__.keys(), "None is the same as not given"


@either_way
def test_none_is_the_same_as_no_hook(make: Make) -> None:
    made = make(touches=None, signature=None, abstract_rule=None, check=None, render=None, display=None)
    assert (made.has_check, made.has_touches, made.has_words) == (False, False, False)
    assert made.build({"city": "Oslo"}).touches == WRITES_ANYTHING


@either_way
def test_touches_may_be_the_same_for_every_call(make: Make) -> None:
    """T6: most tools touch one thing, whatever they are asked."""
    for fixed in (NOTHING, (reads("host", "example.org"),)):
        made = make(touches=fixed)
        assert made.build({"city": "Oslo"}).touches == fixed
        assert made.has_touches


@either_way
def test_touches_may_be_given_one_by_one(make: Make) -> None:
    """A generator is read once and kept: permission and schedule both ask."""

    def touches(params: Any):
        yield reads("city", city_of(params))
        yield writes("city", "Bergen")

    invocation = make(touches=touches).build({"city": "Oslo"})
    assert invocation.touches == (reads("city", "Oslo"), writes("city", "Bergen"))
    assert invocation.touches == (reads("city", "Oslo"), writes("city", "Bergen"))


@either_way
def test_what_it_touches_unsaid_follows_from_its_kind(make: Make) -> None:
    assert make(kind="readonly").build({"city": "Oslo"}).touches == READS_ANYTHING
    assert make(kind="write").build({"city": "Oslo"}).touches == WRITES_ANYTHING


@either_way
def test_a_check_of_its_own_is_as_detailed_as_the_schemas(make: Make) -> None:
    """T7: every problem with its place."""

    def check(params: Any):
        if city_of(params).islower():
            yield Problem(("city",), "value", "must begin with a capital")
            yield Problem((), "value", "no such place")

    made = make(check=check)
    assert made.build({"city": "Oslo"})
    with pytest.raises(InvalidParams) as caught:
        made.build({"city": "oslo"})
    assert str(caught.value) == "city: must begin with a capital; arguments: no such place"


@either_way
def test_a_check_is_not_asked_about_arguments_that_do_not_fit(make: Make) -> None:
    """T7: it may rely on what the schema promises."""
    asked: list[Any] = []
    made = make(check=lambda params: asked.append(params) or ())
    with pytest.raises(InvalidParams):
        made.build({"city": 5})
    assert asked == []


@either_way
@pytest.mark.parametrize(
    ("said", "problems"),
    [
        (None, []),
        ([], []),
        ((), []),
        (iter([]), []),
        (Problem(("city",), "value", "no such city"), ["city: no such city"]),
        ([Problem(("city",), "value", "no such city")], ["city: no such city"]),
        ("no such city", ["arguments: no such city"]),
        (["too far", "too cold"], ["arguments: too far", "arguments: too cold"]),
    ],
)
def test_a_check_says_what_it_found_in_any_plain_way(make: Make, said: Any, problems: list[str]) -> None:
    """T7: nothing means that all is well."""
    made = make(check=lambda params: said)
    found: list[str] = []
    try:
        made.build({"city": "Oslo"})
    except InvalidParams as invalid:
        found = str(invalid).split("; ")
    assert found == problems


async def checks_later(params: Any) -> None: ...


@either_way
@pytest.mark.parametrize(
    ("check", "words"),
    [
        (lambda params: True, "`greet_city`: its check returned True. Return or yield Problem(…), or nothing"),
        (lambda params: False, "`greet_city`: its check returned False"),
        (lambda params: {"city": "bad"}, "its check returned {'city': 'bad'}"),
        (lambda params: [5], "its check returned 5"),
        (checks_later, "its check returned a coroutine; it must not be async"),
    ],
)
def test_a_check_that_says_something_else_is_a_wrong_definition(make: Make, check: Any, words: str) -> None:
    """Told to its author with the tool and the hook; to a model, that the tool cannot be used."""
    made = make(check=check, kind="readonly")
    with pytest.raises(DefinitionError) as error:
        made.build({"city": "Oslo"})
    assert words in str(error.value)
    result = asyncio.run(Runtime([made]).run("greet_city", {"city": "Oslo"}))
    assert result.llm_content == snapshot(
        """\
Error (execution_error): The tool `greet_city` is defined wrongly and cannot be called.

Suggestion: Use another tool; its author has to mend this one.\
"""
    )
    assert result.error is not None
    assert words in (result.error.details or {})["reason"]


@either_way
def test_a_check_that_fails_says_so_and_not_that_the_arguments_are_wrong(make: Make) -> None:
    made = make(check=lambda params: params.no_such_thing, kind="readonly")
    result = asyncio.run(Runtime([made]).run("greet_city", {"city": "Oslo"}))
    assert "`greet_city` was not run: its own check of the arguments failed. AttributeError: " in result.llm_content
    assert result.error is not None
    assert result.error.kind == "execution_error"


@either_way
def test_a_check_may_raise_its_problem(make: Make) -> None:
    def check(params: Any) -> None:
        raise ToolError("There is nobody in Oslo.")

    with pytest.raises(InvalidParams, match=r"arguments: There is nobody in Oslo\."):
        make(check=check).build({"city": "Oslo"})


@either_way
@pytest.mark.parametrize("hook", ["check", "render", "display", "signature", "abstract_rule"])
def test_a_hook_is_a_function(make: Make, hook: str) -> None:
    with pytest.raises(DefinitionError, match=f"`greet_city`: {hook} must be a function, not 'always'"):
        make(**{hook: "always"})


@either_way
def test_an_option_that_is_neither_an_option_nor_a_hook_is_refused(make: Make) -> None:
    with pytest.raises(TypeError, match="rendr"):
        make(rendr=str)


@either_way
def test_a_tool_can_say_that_one_call_only_reads(make: Make):
    peeks = make(kind="write", only_reads=lambda params: city_of(params) == "Oslo", touches=())
    assert peeks.build({"city": "Oslo"}).only_reads is True
    assert peeks.build({"city": "Rome"}).only_reads is False
    assert make(kind="write", touches=()).build({"city": "Oslo"}).only_reads is False
    assert make(kind="write", only_reads=lambda params: True).build({"city": "Oslo"}).only_reads is False


@either_way
def test_a_hook_that_knows_the_session_comes_first(make: Make) -> None:
    """T6: what a rule is asked about may depend on where the call runs."""
    tool = make(
        signature_in=lambda params, session: f"{city_of(params)} in {session.id if session else 'no'}",
        abstract_rule_in=lambda params, session: f"greet_city:{session.id if session else '?'}",
    )
    invocation = tool.build({"city": "Oslo"})
    assert (invocation.signature, invocation.abstract_rule) == ("Oslo in no", "greet_city:?")
    assert (tool.signature(invocation.params), tool.abstract_rule(invocation.params)) == ("Oslo in no", "greet_city:?")
    invocation.session = Session(id="s1")
    assert (invocation.signature, invocation.abstract_rule) == ("Oslo in s1", "greet_city:s1")
    assert invocation.summary == "greet_city Oslo in s1"


@either_way
def test_a_tool_can_say_that_no_leave_would_help(make: Make) -> None:
    closed = ToolError("There is nobody in Oslo.")
    tool = make(refusal_in=lambda params, session: closed if city_of(params) == "Oslo" else None)
    session = Session()
    assert tool.refusal_in(tool.build({"city": "Oslo"}).params, session) is closed
    assert tool.refusal_in(tool.build({"city": "Rome"}).params, session) is None
    assert make().refusal_in(make().build({"city": "Oslo"}).params, session) is None
