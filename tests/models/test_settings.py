"""Model settings in every provider's form; one that a provider lacks is refused before it is asked (M1)."""

from __future__ import annotations

import re
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from ferrule import tool
from ferrule.core.model import NO_SETTINGS, ModelError, ModelRequest, ModelSettings, UserMessage
from ferrule.models.providers import Provider, all_providers, form_of, open_model

from .endpoints.wire import FORMS, Says, ask, finished, reply, serving

SUN = Says(text=["Hello ", "there."])
SDK_TYPES: dict[str, Any] = {
    "chat": CompletionCreateParamsStreaming,
    "responses": ResponseCreateParamsStreaming,
    "anthropic": MessageCreateParamsStreaming,
}
HOSTS = {
    "chat": "https://api.openai.com/v1",
    "responses": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com/v1beta",
}
ASKED = {"temperature": 0.2, "max_output_tokens": 4096, "seed": 7, "stop": ["END"], "parallel_calls": False}


@tool(kind="readonly")
def look_up(word: str) -> str:
    """Look a word up. Use this for every word."""
    return word


def form(name: str) -> Any:
    return form_of(Provider("x", "X", name, HOSTS[name]))  # type: ignore[arg-type]


def sent(name: str, model: str = "m", **settings: Any) -> dict[str, Any]:
    """What a request has that it would not have without the settings."""
    request = ModelRequest([UserMessage("x")], "Be brief.", [look_up], ModelSettings(**settings))
    plain = form(name).body(ModelRequest([UserMessage("x")], "Be brief.", [look_up]), model)
    body = form(name).body(request, model)
    if name in SDK_TYPES:
        assert body.keys() <= SDK_TYPES[name].__annotations__.keys()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some of the SDKs' own fields shadow others
            TypeAdapter(SDK_TYPES[name]).validate_python(body)
    return {key: value for key, value in body.items() if plain.get(key) != value}


def has(name: str) -> dict[str, Any]:
    return {key: value for key, value in ASKED.items() if key not in form(name).lacks}


def test_numbers_and_texts_in_the_form_of_each_provider() -> None:
    assert sent("chat", **has("chat")) == {
        "temperature": 0.2,
        "max_completion_tokens": 4096,
        "seed": 7,
        "stop": ["END"],
        "parallel_tool_calls": False,
    }
    assert sent("responses", **has("responses")) == {
        "temperature": 0.2,
        "max_output_tokens": 4096,
        "parallel_tool_calls": False,
    }
    assert sent("anthropic", **has("anthropic")) == {
        "max_tokens": 4096,
        "stop_sequences": ["END"],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
    }
    assert sent("gemini", **has("gemini")) == {
        "generationConfig": {"maxOutputTokens": 4096, "temperature": 0.2, "seed": 7, "stopSequences": ["END"]}
    }


def test_effort_in_the_form_of_each_provider() -> None:
    assert sent("chat", effort="high") == {"reasoning_effort": "high"}
    assert sent("responses", effort="high") == {"reasoning": {"effort": "high", "summary": "auto"}}
    assert sent("anthropic", effort="low") == {"thinking": {"type": "enabled", "budget_tokens": 2048}}
    new = sent("gemini", "gemini-3-pro", effort="low")
    assert new == {"generationConfig": {"thinkingConfig": {"thinkingLevel": "low", "includeThoughts": True}}}
    old = sent("gemini", "gemini-2.5-pro", effort="medium")
    assert old == {"generationConfig": {"thinkingConfig": {"thinkingBudget": 8192, "includeThoughts": True}}}


@pytest.mark.parametrize(
    ("name", "none", "required", "named"),
    [
        ("chat", "none", "required", {"type": "function", "function": {"name": "look_up"}}),
        ("responses", "none", "required", {"type": "function", "name": "look_up"}),
        ("anthropic", {"type": "none"}, {"type": "any"}, {"type": "tool", "name": "look_up"}),
    ],
)
def test_which_tool_to_call(name: str, none: Any, required: Any, named: Any) -> None:
    assert sent(name, tool_choice="auto") == {}
    for choice, form in (("none", none), ("required", required), ("look_up", named)):
        assert sent(name, tool_choice=choice) == {"tool_choice": form}


def test_which_tool_to_call_in_geminis_form() -> None:
    assert sent("gemini", tool_choice="auto") == {}
    for choice, config in (
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("look_up", {"mode": "ANY", "allowedFunctionNames": ["look_up"]}),
    ):
        assert sent("gemini", tool_choice=choice) == {"toolConfig": {"functionCallingConfig": config}}


def test_one_call_at_a_time_goes_with_a_choice_in_anthropics_form() -> None:
    chosen = sent("anthropic", tool_choice="required", parallel_calls=False)["tool_choice"]
    assert chosen == {"type": "any", "disable_parallel_tool_use": True}


def test_how_long_a_prompt_is_cached() -> None:
    assert sent("chat", prompt_cache="24h") == {"prompt_cache_retention": "24h"}
    assert sent("responses", prompt_cache="24h") == {"prompt_cache_retention": "24h"}
    assert "cache_control" not in str(sent("anthropic", prompt_cache="off"))
    assert sent("anthropic", prompt_cache="1h")["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


def test_a_name_that_no_provider_takes_is_the_one_that_was_shown() -> None:
    @tool(name="house/look.up", kind="readonly")
    def odd(word: str) -> str:
        """Look a word up. Use this for every word."""
        return word

    request = ModelRequest([UserMessage("x")], tools=[odd], settings=ModelSettings(tool_choice="house/look.up"))
    body = form("chat").body(request, "m")
    assert body["tool_choice"]["function"]["name"] == body["tools"][0]["function"]["name"] != "house/look.up"


# What a provider lacks


@pytest.mark.parametrize(
    ("model", "settings", "says"),
    [
        ("openai/gpt-5", {"seed": 1}, "It has no `seed` setting."),
        ("openai/gpt-5", {"stop": ["x"]}, "It has no `stop` setting."),
        ("openai/gpt-5", {"prompt_cache": "1h"}, "It has no `prompt_cache='1h'` setting."),
        ("anthropic/claude-x", {"temperature": 0}, "It has no `temperature` setting."),
        ("anthropic/claude-x", {"effort": "low", "tool_choice": "required"}, "only with the tool choice `auto`"),
        ("anthropic/claude-x", {"effort": "low", "max_output_tokens": 500}, "at least 2048"),
        ("gemini/gemini-3-pro", {"parallel_calls": True}, "It has no `parallel_calls` setting."),
        ("gemini/gemini-2.0-flash", {"effort": "low"}, "It has no `effort` setting."),
        ("deepseek/deepseek-chat", {"seed": 1}, "It has no `seed` setting."),
        ("mistral/mistral-large", {"prompt_cache": "24h"}, "It has no `prompt_cache='24h'` setting."),
        ("local", {"temperature": 0.5}, "has no `temperature` setting."),
        ("local", {"tool_choice": "look_up"}, "has no `tool_choice='look_up'` setting."),
        ("openai/gpt-5", {"extra": {"stream": False}}, "The field `stream` of `extra` is one that Ferrule writes"),
    ],
)
def test_a_setting_that_a_provider_lacks_is_refused(model: str, settings: dict[str, Any], says: str) -> None:
    keys = {one.key_variables[0]: "k" for one in all_providers().values()}
    opened: Any = open_model(model, environment=keys)
    opened.check_settings(NO_SETTINGS)
    with pytest.raises(ModelError, match="setting") as caught:
        opened.check_settings(ModelSettings(**settings))
    assert says in caught.value.message
    assert caught.value.suggestion


@pytest.mark.parametrize("name", FORMS)
async def test_it_is_refused_before_anything_is_sent_also_without_an_agent(name: str) -> None:
    lacking: dict[str, Any] = {"chat": {"prompt_cache": "24h"}, "gemini": {"parallel_calls": True}}
    settings = ModelSettings(**lacking.get(name, {"seed": 1}))
    async with serving(reply(name, SUN), form=name) as (server, model):
        with pytest.raises(ModelError):
            await ask(model, ModelRequest([UserMessage("hello")], settings=settings))
    assert server.requests == []


@pytest.mark.parametrize("name", FORMS)
async def test_settings_and_a_providers_own_fields_arrive(name: str) -> None:
    given: dict[str, Any] = has(name) | {"extra": {"user_tag": "a", "metadata": {"team": "b"}}}
    settings = ModelSettings(**given)
    async with serving(reply(name, SUN), form=name) as (server, model):
        finished(await ask(model, ModelRequest([UserMessage("hello")], settings=settings)))
    got = server.requests[0].json
    assert (got["user_tag"], got["metadata"]) == ("a", {"team": "b"})
    assert any(got.get(key) == 4096 for key in ("max_tokens", "max_completion_tokens", "max_output_tokens")) or (
        got["generationConfig"]["maxOutputTokens"] == 4096
    )


async def test_extra_fields_are_merged_into_an_object_that_is_there() -> None:
    settings = ModelSettings(temperature=0.1, extra={"generationConfig": {"topK": 5}})
    async with serving(reply("gemini", SUN), form="gemini") as (server, model):
        await ask(model, ModelRequest([UserMessage("hello")], settings=settings))
    assert server.requests[0].json["generationConfig"] == {"temperature": 0.1, "topK": 5}


def test_openrouter_may_not_leave_a_setting_out() -> None:
    router = form_of(all_providers()["openrouter"])
    asked = router.body(ModelRequest([UserMessage("x")], settings=ModelSettings(seed=1)), "m")
    assert asked["provider"] == {"require_parameters": True}
    assert "provider" not in router.body(ModelRequest([UserMessage("x")]), "m")


def test_a_server_that_refuses_a_setting_by_name_is_not_asked_without_it() -> None:
    settings = {"temperature", "reasoning_effort", "reasoning", "thinking", "seed", "stop", "tool_choice"}
    for name in FORMS:
        assert form(name).optional_fields.isdisjoint(settings)


def test_the_guide_says_what_each_provider_has() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/agent-control.md").read_text(encoding="utf-8")
    rows = [[one.strip() for one in line.split("|")[1:-1]] for line in guide.splitlines() if line.startswith("| `")]
    known = all_providers()
    assert {row[0].strip("`") for row in rows} == {one.name for one in fields(ModelSettings)}
    for setting, *cells in ((row[0].strip("`"), *row[1:]) for row in rows):
        for name, cell in zip(("responses", "anthropic", "gemini"), cells, strict=False):
            if setting == "prompt_cache":
                assert set(re.findall(r"`(\w+)`", cell)) == form(name).caches
            else:
                assert cell.startswith(("no", "through")) == (setting in form(name).lacks), (setting, name)
        lacking = {one.label for one in known.values() if one.form == "chat" and setting in form_of(one).lacks}
        assert set(cells[3].partition("not ")[2].split(", ")) - {""} == lacking, setting


# The settings themselves


def test_settings_of_a_run_come_before_those_of_the_agent() -> None:
    agent = ModelSettings(temperature=0.1, seed=1, extra={"a": 1, "b": 1})
    run = ModelSettings(temperature=0, extra={"b": 2})
    assert agent | run == ModelSettings(temperature=0, seed=1, extra={"a": 1, "b": 2})
    assert agent | NO_SETTINGS is agent
    assert NO_SETTINGS | run is run


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -1},
        {"temperature": float("nan")},
        {"temperature": "0.5"},
        {"max_output_tokens": 0},
        {"max_output_tokens": True},
        {"seed": 1.5},
        {"stop": "END"},
        {"stop": [""]},
        {"effort": "huge"},
        {"prompt_cache": "2h"},
        {"parallel_calls": "no"},
        {"extra": [("a", 1)]},
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_when_it_is_written(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=f"ModelSettings: `{next(iter(wrong))}`"):
        ModelSettings(**wrong)
