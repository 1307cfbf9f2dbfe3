"""What a tool says of one call (T6, T7): once, by `describe` or in simple forms."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from pydantic import BaseModel

from ferrule import CallInfo, DefinitionError, Kind, RawCall, RulePolicy, Runtime, ToolContext
from ferrule.core.access import NOTHING, READS_ANYTHING, WRITES_ANYTHING, reads, writes
from ferrule.core.context import Session
from ferrule.core.errors import ToolError
from ferrule.core.function_tool import raw_tool, tool
from ferrule.core.problems import InvalidParamsError, Problem
from ferrule.core.tool import Tool

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def greet(arguments: dict[str, Any]) -> str:
    """Greet a city. Use it to be polite."""
    return f"Hello, {arguments['city']}"


def from_schema(**hooks: Any) -> Tool[Any]:
    return raw_tool("greet_city", CITY, greet, **hooks)


def from_function(**hooks: Any) -> Tool[Any]:
    def greet_city(city: str) -> str:
        """Greet a city. Use it to be polite."""
        return f"Hello, {city}"

    return tool(greet_city, **hooks)


either_way = pytest.mark.parametrize("make", [from_schema, from_function])
Make = Callable[..., Tool[Any]]


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
        always_rule=lambda arguments: "greet_city:*",
        check=lambda arguments: [Problem(("city",), "value", "no such city")] if arguments["city"] == "X" else [],
        render=lambda value: value.upper(),
        output_schema={"type": "string"},
    )
    invocation = tool.build({"city": "Oslo"})
    assert invocation.touches == (reads("city", "Oslo"),)
    assert (invocation.signature, invocation.always_rule) == ("Oslo", "greet_city:*")
    assert tool.render("hi") == "HI"
    assert tool.output_schema == {"type": "string"}
    with pytest.raises(InvalidParamsError, match="no such city"):
        tool.build({"city": "X"})


def test_unsaid_it_is_as_careful_as_any_tool():
    tool = raw_tool("greet_city", CITY, greet)
    invocation = tool.build({"city": "Oslo"})
    assert invocation.touches == WRITES_ANYTHING
    assert (invocation.signature, invocation.always_rule) == ('{"city":"Oslo"}', "greet_city")
    assert tool.render("x") is None
    assert tool.output_schema is None


@either_way
def test_every_hook_serves_a_function_and_a_schema_alike(make: Make) -> None:
    """T6, T7."""
    made = make(
        touches=lambda params: [writes("city", city_of(params))],
        signature=city_of,
        always_rule=lambda params: f"greet_city:{city_of(params)[0]}*",
        render=lambda value: value.upper(),
        display=lambda value: value[:5],
    )
    invocation = made.build({"city": "Oslo"})
    assert invocation.touches == (writes("city", "Oslo"),)
    assert (invocation.signature, invocation.always_rule) == ("Oslo", "greet_city:O*")
    assert (made.render("hello, Oslo"), made.display("hello, Oslo")) == ("HELLO, OSLO", "hello")


@either_way
def test_a_tool_without_hooks_says_that_it_has_none(make: Make) -> None:
    """What it lacks is never called, so a plain tool pays nothing for it."""
    made = make()
    assert (made.has_check, made.has_touches, made.has_words) == (False, False, False)
    assert made.check(made.build({"city": "Oslo"}).params) is None
    assert (made.render("x"), made.display("x")) == (None, None)


@pytest.mark.parametrize(
    ("hook", "has"),
    [
        ("check", (True, False, False)),
        ("touches", (False, True, False)),
        ("render", (False, False, True)),
        ("display", (False, False, True)),
        ("signature", (False, False, False)),
        ("always_rule", (False, False, False)),
    ],
)
@either_way
def test_a_tool_says_which_hooks_it_has(make: Make, hook: str, has: tuple[bool, bool, bool]) -> None:
    made = make(**{hook: lambda _: ()})
    assert (made.has_check, made.has_touches, made.has_words) == has
    assert make(**{hook: None}).__dict__.keys() == make().__dict__.keys(), "None is the same as not given"


@either_way
def test_none_is_the_same_as_no_hook(make: Make) -> None:
    made = make(touches=None, signature=None, always_rule=None, check=None, render=None, display=None)
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
    with pytest.raises(InvalidParamsError) as caught:
        made.build({"city": "oslo"})
    assert str(caught.value) == "city: must begin with a capital; arguments: no such place"


@either_way
def test_a_check_is_not_asked_about_arguments_that_do_not_fit(make: Make) -> None:
    """T7: it may rely on what the schema promises."""
    asked: list[Any] = []
    made = make(check=lambda params: asked.append(params) or ())
    with pytest.raises(InvalidParamsError):
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
    except InvalidParamsError as invalid:
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
Error (execution_error): The tool `greet_city` is not defined correctly and cannot be called.

Suggestion: Use another tool; its author has to fix this one.\
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

    with pytest.raises(InvalidParamsError, match=r"arguments: There is nobody in Oslo\."):
        make(check=check).build({"city": "Oslo"})


@either_way
@pytest.mark.parametrize("hook", ["check", "render", "display", "describe"])
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
def test_describe_says_all_of_a_call_at_once_and_knows_its_session(make: Make) -> None:
    """T6: what a rule is asked about may depend on where the call runs."""
    closed = ToolError("There is nobody in Oslo.")

    def describe(params: Any, session: Session) -> CallInfo:
        return CallInfo(
            touches=[writes("city", city_of(params))],
            signature=f"{city_of(params)} in {session.id}",
            always_rule=f"greet_city:{session.id}",
            refusal=closed if city_of(params) == "Oslo" else None,
        )

    made = make(describe=describe)
    assert (made.has_touches, made.has_signature) == (True, True)
    invocation = made.build({"city": "Oslo"})
    invocation.session = Session(id="s1")
    assert (invocation.signature, invocation.always_rule) == ("Oslo in s1", "greet_city:s1")
    assert invocation.summary == "greet_city Oslo in s1"
    assert invocation.touches == (writes("city", "Oslo"),)
    assert invocation.info.refusal is closed
    invocation.session = Session(id="s2")
    assert invocation.signature == "Oslo in s2"
    assert make().build({"city": "Oslo"}).info.refusal is None


@either_way
def test_a_call_is_described_once(make: Make) -> None:
    asked: list[Any] = []

    def describe(params: Any, session: Session) -> CallInfo:
        asked.append(params)
        return CallInfo(signature="x", touches=NOTHING)

    made = make(describe=describe, kind="write")
    policy = RulePolicy(allow=["greet_city(x)"], deny=["greet_city(y)"])
    assert asyncio.run(Runtime([made], policy=policy).run("greet_city", {"city": "Oslo"})).success
    assert len(asked) == 1
    results = asyncio.run(Runtime([made], policy=policy).batch([RawCall("greet_city", {"city": "Bonn"})] * 3))
    assert [one.success for one in results] == [True] * 3
    assert len(asked) == 4


@either_way
def test_simple_forms_name_parameters_in_braces(make: Make) -> None:
    made = make(
        kind="write",
        touches=writes("city", "{city}"),
        signature="{city}!",
        always_rule="greet_city:{city}",
        summary="Greet {city}",
    )
    invocation = made.build({"city": "Oslo {city}"})
    assert invocation.touches == (writes("city", "Oslo {city}"),)
    assert invocation.signature == "Oslo {city}!"
    assert invocation.always_rule == "greet_city:Oslo {city}"
    assert invocation.summary == "Greet Oslo {city}"


def test_a_declared_path_is_the_real_one_from_the_sessions_folder(tmp_path: Path) -> None:
    """T6: two names of one file are one resource, for the schedule and for rules."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    made = from_function(kind="write", touches=(reads("path", "/etc/motd"), writes("path", "{city}")))
    invocation = made.build({"city": "link/../link/a"})
    invocation.session = Session(workspace=tmp_path)
    assert invocation.touches == (reads("path", "/etc/motd"), writes("path", tmp_path / "real/a"))


def test_a_class_describes_its_calls_in_either_way() -> None:
    class City(BaseModel):
        city: str

    class Greet(Tool[City]):
        name = "greet"
        kind = Kind.WRITE
        signature = "{city}"
        touches = NOTHING

        def run(self, params: City, context: ToolContext) -> str:
            return params.city

    class Shout(Greet):
        def describe(self, params: City, session: Session) -> CallInfo:
            return CallInfo(signature=params.city.upper(), summary="Shout")

    assert (Greet().has_touches, Greet().has_signature) == (True, True)
    assert Greet().build({"city": "Oslo"}).signature == "Oslo"
    assert Greet().build({"city": "Oslo"}).touches == NOTHING
    assert Shout().build({"city": "Oslo"}).signature == "OSLO"
    assert Shout().build({"city": "Oslo"}).summary == "Shout"


@pytest.mark.parametrize(
    ("hooks", "words"),
    [
        ({"describe": lambda params, session: "Oslo"}, "`describe` must return a CallInfo, not str"),
        ({"describe": lambda params, session: 1 / 0}, "`describe` raised ZeroDivisionError"),
        ({"touches": lambda params: ["path:/a"]}, "`touches` must be made with reads(…) and writes(…)"),
        ({"touches": lambda params: "path:/a"}, "`touches` must be made with reads(…) and writes(…)"),
        ({"signature": lambda params: 5}, "`signature` must be text, not int"),
        ({"signature": "{town}"}, "names `{town}`, and there is no such parameter"),
    ],
)
@either_way
def test_a_description_that_makes_no_sense_names_the_tool_and_the_hook(
    make: Make, hooks: dict[str, Any], words: str
) -> None:
    made = make(kind="write", **hooks)
    invocation = made.build({"city": "Oslo"})
    with pytest.raises(DefinitionError, match="`greet_city`") as caught:
        _ = invocation.info
    assert words in str(caught.value)
    ran = asyncio.run(Runtime([made], policy=RulePolicy(allow=["greet_city"])).run("greet_city", {"city": "Oslo"}))
    assert ran.error is not None
    assert ran.error.message == "The tool `greet_city` cannot say what this call would do, so it was not run."
    assert words in ran.error.details["reason"]  # type: ignore[index]


@either_way
def test_describing_nothing_is_the_same_as_no_description(make: Make) -> None:
    made = make(kind="readonly", describe=lambda params, session: None)
    assert made.build({"city": "Oslo"}).touches == READS_ANYTHING
    assert make(touches=lambda params: reads("city", "x")).build({"city": "Oslo"}).touches == (reads("city", "x"),)
    assert make(touches=lambda params: None, kind="write").build({"city": "Oslo"}).touches == WRITES_ANYTHING
