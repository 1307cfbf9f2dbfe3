"""One bad tool harms nobody (P1, R6): whoever goes through many tools leaves it out, says so, and goes on."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import logging
import warnings
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule import RawCall, Registry, RulePolicy, Runtime, Tool
from ferrule.agent.calling import bounded, doing
from ferrule.core.lint import lint_tool
from ferrule.core.result import ToolResult
from ferrule.dialects import Exporter
from ferrule.mcp_server.shown_tools import Definitions
from ferrule.models.local.pick_call import CallPicker
from tests.core.bad_tools import BAD, ODD, greet_person

EVERY = [*BAD[:6], greet_person, *BAD[6:], *ODD]
USABLE = [greet_person.name, *(one.name for one in ODD)]
bad_one = pytest.mark.parametrize("bad", BAD, ids=lambda one: one.name)


def test_what_is_wrong_with_each_is_said_in_a_sentence() -> None:
    assert {one.name: one.fault for one in BAD if one.name != "use_depth"} == snapshot(
        {
            "call_back": "`call_back`: `callback` is a Callable, which has no JSON form, and a model can only send JSON. Give it another type, or leave it out of the parameters.",
            "make_type": "`make_type`: `kind` is a type, which has no JSON form, and a model can only send JSON. Give it another type, or leave it out of the parameters.",
            "use_socket": "`use_socket`: `connection` is a socket, which has no JSON form, and a model can only send JSON. Give it another type, or leave it out of the parameters.",
            "use_unknown": "`use_unknown`: a parameter's type is not known here: name 'Nowhere' is not defined. Define it above the function, or import it at run time, not only for type checkers.",
            "use_broken": "`use_broken`: its parameters cannot be read: KeyError: 'boom'.",
            "use_broken_form": "`use_broken_form`: `thing` has no JSON Schema: ZeroDivisionError: boom.",
            "CallClass": "`CallClass`: `callback` is a Callable, which has no JSON form, and a model can only send JSON. Give it another type, or leave it out of the parameters.",
            "LookUpWithoutWords": "`LookUpWithoutWords` cannot be shown: RuntimeError: no words.",
            "take_wrong_type": '`take_wrong_type`: its schema is not a valid JSON Schema. properties.word.type: expected "array", "boolean", "integer", "null", "number", "object", "string" or array, got string "strin".',
            "take_wrong_reference": "`take_wrong_reference`: its schema refers to '#/$defs/gone', which is not there.",
            "take_wrong_pattern": '`take_wrong_pattern`: its schema is not a valid JSON Schema. properties.word.pattern: must be a regular expression like "^[a-z]+$"; got string "(".',
        }
    )
    assert [one.fault for one in (greet_person, *ODD)] == [None] * (len(ODD) + 1)


@pytest.mark.parametrize("dialect", ["openai", "openai-responses", "anthropic", "gemini", "mcp"])
def test_a_provider_is_shown_the_others(dialect: str) -> None:
    """T10: what is left out stands among the losses."""
    exporter = Exporter(dialect)
    shown = [one.get("function", one)["name"] for one in exporter.definitions(EVERY)]
    assert shown == USABLE
    left_out = {loss.tool: loss.what for loss in exporter.losses if loss.keyword == "definition"}
    assert list(left_out) == [one.name for one in BAD]
    assert all(what.startswith("left out: ") for what in left_out.values())


@settings(max_examples=20, deadline=None)
@given(st.permutations(EVERY), st.integers(0, len(EVERY)))
def test_whatever_the_mixture_the_sound_ones_are_shown_in_order(mixture: list[Tool[Any]], most: int) -> None:
    chosen = mixture[:most]
    exporter = Exporter("anthropic")
    assert [one["name"] for one in exporter.definitions(chosen)] == [one.name for one in chosen if one not in BAD]
    left_out = [loss.tool for loss in exporter.losses if loss.keyword == "definition"]
    assert left_out == [one.name for one in chosen if one in BAD]


def test_what_is_left_out_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A model is shown its tools at every step; nobody wants to read it at every step."""
    from ferrule import tool

    def call_something(callback: type) -> None: ...

    bad = tool(call_something)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            Exporter("openai").definitions([bad, greet_person])
    assert [record.getMessage() for record in caplog.records] == snapshot(
        [
            "The tool call_something is not shown to models: `call_something`: `callback` is a type, which has no JSON form, and a model can only send JSON. Give it another type, or leave it out of the parameters."
        ]
    )


def test_an_mcp_client_is_offered_the_others() -> None:
    """O7."""
    assert [one["name"] for one in Definitions(Registry(EVERY)).all()] == sorted(USABLE)


def test_lists_and_searches_hold_them_all() -> None:
    """R1, R3."""
    registry = Registry(EVERY)
    assert [info.name for info in registry.list()] == [one.name for one in EVERY]
    assert registry.search("greet") == [greet_person]
    assert next(one.name for one in registry.search("without words")) == "LookUpWithoutWords"


def test_a_small_model_chooses_among_the_others() -> None:
    form = CallPicker(EVERY).pick('greet the person "Ann"')
    assert form is not None
    assert form.tool is greet_person


@bad_one
def test_the_linter_has_an_error_for_it(bad: Tool[Any]) -> None:
    """T11."""
    assert {"F014", "F020"} & {finding.rule for finding in lint_tool(bad)}


@bad_one
def test_a_call_of_it_fails_in_words_and_the_others_of_its_batch_run(bad: Tool[Any]) -> None:
    """P1."""
    runtime = Runtime(EVERY, policy=RulePolicy(mode="bypass"))
    calls = [RawCall(bad.name, {"nothing": 1}), RawCall("greet_person", {"name": "Ada"})]
    wrong, right = asyncio.run(runtime.batch(calls))
    assert right.data == "Hello, Ada!"
    assert wrong.error is not None
    assert wrong.error.message.startswith((f"The tool `{bad.name}` is not defined correctly", "The arguments of"))


@bad_one
def test_an_agent_that_calls_it_all_the_same_goes_on(bad: Tool[Any]) -> None:
    bad.doing = "using {nothing}"
    assert doing(bad, RawCall(bad.name))[0] == f"calling `{bad.name}`"
    assert bounded(ToolResult("1", bad.name, True, "x" * 1000, ""), 100, bad).llm_content.endswith(
        "for the part you need.]"
    )


@pytest.mark.parametrize("odd", ODD, ids=lambda one: one.name)
def test_what_is_only_odd_works(odd: Tool[Any]) -> None:
    arguments = {"take_tree": {"node": {"children": [{"value": 2}]}}, "LookUpWithoutSchema": {"word": "x"}}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = asyncio.run(Runtime([odd]).run(odd.name, arguments.get(odd.name, {"name": "x"})))
        assert Exporter("mcp").definitions([odd])
    assert result.success, result.llm_content
