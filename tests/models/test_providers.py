"""From `provider/name` to a model: addresses, keys, forms and what is said on a miss."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from ferrule.core.errors import MissingExtraError
from ferrule.core.model import ModelError, ModelFault
from ferrule.models.providers import Provider, all_providers, custom_provider, form_of, open_model, split_name

SECRET = "sk-0123456789abcdef"


def opened(name: str, environment: dict[str, str], *custom: Provider) -> Any:
    return open_model(name, all_providers(custom, environment), environment)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("openai/gpt-5", ("openai", "gpt-5")),
        ("openrouter/anthropic/claude-opus-4.5", ("openrouter", "anthropic/claude-opus-4.5")),
        ("OpenAI/gpt-5", ("openai", "gpt-5")),
        ("qwen/qwen3-max", ("dashscope", "qwen3-max")),
        ("google/gemini-3-pro", ("gemini", "gemini-3-pro")),
        ("claude-sonnet-5", ("anthropic", "claude-sonnet-5")),
        ("gpt-5.4-mini", ("openai", "gpt-5.4-mini")),
        ("o3", ("openai", "o3")),
        ("gemini-3-flash", ("gemini", "gemini-3-flash")),
        ("deepseek-chat", ("deepseek", "deepseek-chat")),
        ("llama4", ("", "llama4")),
        ("/x", ("", "/x")),
    ],
)
def test_names_are_split(name: str, expected: tuple[str, str]) -> None:
    assert split_name(name) == expected


def test_every_known_provider_can_be_opened() -> None:
    environment = {variable: SECRET for one in all_providers(environment={}).values() for variable in one.key_variables}
    for name, provider in all_providers(environment={}).items():
        model = opened(f"{name}/some-model", environment)
        assert model.name == f"{name}/some-model"
        assert SECRET not in repr(model)
        assert provider.base_url.startswith("http://127.0.0.1:" if not provider.needs_key else "https://")


def test_a_key_that_is_missing_is_named() -> None:
    with pytest.raises(ModelError) as caught:
        opened("anthropic/claude-sonnet-5", {})
    assert caught.value.fault is ModelFault.KEY
    assert "export ANTHROPIC_API_KEY=…" in caught.value.suggestion
    assert "keyring set ferrule anthropic" in caught.value.suggestion
    assert opened("ollama/qwen3", {}).name == "ollama/qwen3"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("antropic/claude", "Did you mean `anthropic/claude`?"),
        ("claud/x", "Did you mean `anthropic/x`?"),
        ("nobody/x", "[providers.nobody]"),
        ("llama4", "provider/name"),
        ("openai/", "`openai/NAME`"),
    ],
)
def test_a_miss_says_what_was_probably_meant(name: str, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        opened(name, {})
    assert caught.value.fault is ModelFault.NOT_FOUND
    assert words in caught.value.suggestion


@pytest.mark.parametrize(
    ("variable", "value", "provider", "base_url", "form"),
    [
        ("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1/", "openai", "http://127.0.0.1:8000/v1", "chat"),
        ("OPENAI_BASE_URL", "https://api.openai.com/v1", "openai", "https://api.openai.com/v1", "responses"),
        ("ANTHROPIC_BASE_URL", "https://proxy.example/v1", "anthropic", "https://proxy.example", "anthropic"),
        ("GEMINI_BASE_URL", "https://proxy.example", "gemini", "https://proxy.example/v1beta", "gemini"),
        ("DASHSCOPE_BASE_URL", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "dashscope",
         "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "chat"),
        ("OLLAMA_HOST", "10.0.0.5", "ollama", "http://10.0.0.5:11434/v1", "chat"),
        ("OLLAMA_HOST", "0.0.0.0:9999", "ollama", "http://127.0.0.1:9999/v1", "chat"),
        ("OLLAMA_HOST", "https://gpu.example:443", "ollama", "https://gpu.example:443/v1", "chat"),
        ("OLLAMA_HOST", "[::1]:7", "ollama", "http://[::1]:7/v1", "chat"),
        ("OLLAMA_HOST", "host:port", "ollama", "host:port", "chat"),
    ],
)  # fmt: skip
def test_addresses_of_the_environment_count(variable: str, value: str, provider: str, base_url: str, form: str) -> None:
    found = all_providers(environment={variable: value})[provider]
    assert (found.base_url, found.form) == (base_url, form)


def test_a_custom_provider_is_new_or_a_known_one_changed() -> None:
    house = custom_provider("house", base_url="http://10.0.0.2/v1", environment={})
    assert (house.form, house.needs_key, house.key_variables) == ("chat", False, ("HOUSE_API_KEY",))
    kept = custom_provider(
        "my-house", base_url="http://10.0.0.2/v1", form="anthropic", key_variable="MINE", environment={}
    )
    assert (kept.form, kept.needs_key, kept.key_variables) == ("anthropic", True, ("MINE",))
    openai = custom_provider("openai", form="chat", environment={})
    assert (openai.base_url, openai.form, openai.needs_key) == ("https://api.openai.com/v1", "chat", True)
    moved = custom_provider("openai", base_url="https://gateway.example/v1", headers={"x-team": "blue"}, environment={})
    assert (moved.base_url, moved.form, moved.headers) == ("https://gateway.example/v1", "chat", {"x-team": "blue"})
    with pytest.raises(ValueError, match="needs a `base_url`"):
        custom_provider("house", environment={})


def test_a_custom_context_counts() -> None:
    house = custom_provider("house", base_url="http://10.0.0.2/v1", context_tokens=9000, environment={})
    assert opened("house/x", {}, house).context_tokens == 9000


def test_accents_follow_the_provider() -> None:
    from ferrule.core.model import ModelRequest, ModelSettings, UserMessage

    request = ModelRequest([UserMessage("x")], settings=ModelSettings(max_output_tokens=5))
    known = all_providers(environment={})
    openai = custom_provider("openai", form="chat", environment={})
    assert "max_completion_tokens" in form_of(openai).body(request, "m")
    assert "max_tokens" in form_of(known["groq"]).body(request, "m")
    assert "stream_options" not in form_of(known["mistral"]).body(request, "m")


@pytest.mark.parametrize(
    ("name", "missing", "said"),
    [
        ("ollama/llama4", "httpx2", "Asking a model over HTTP needs an optional part of Ferrule. Install it: "),
        ("local", "xllamacpp", "Models on this machine need the extra `local`, which is not installed. Install it: "),
    ],
)
def test_a_model_whose_part_is_not_installed_is_refused_when_it_is_opened(
    monkeypatch: pytest.MonkeyPatch, name: str, missing: str, said: str
) -> None:
    """Not when it is first asked: a script would go on until then as if all were well."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises((ModelError, MissingExtraError)) as caught:
        opened(name, {})
    assert str(caught.value).startswith(said)


def test_what_is_no_name_of_a_model_is_refused() -> None:
    with pytest.raises(TypeError, match="A model is named as provider/name, not None"):
        open_model(None)  # type: ignore[arg-type]
