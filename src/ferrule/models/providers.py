"""The providers that are known by name, those from the settings, and the way from `provider/name` to a model."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from ferrule.core.model import ModelError, ModelFault
from ferrule.core.nearest import nearest
from ferrule.core.phrases import phrase
from ferrule.models.faults import Endpoint, host_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ferrule.core.model import Model, ModelPrice
    from ferrule.models.wire_form import WireForm


EMBEDDED = "local"
"""The model on this machine, in place of a provider's name."""
Form = Literal["chat", "responses", "anthropic", "gemini"]


@dataclass(slots=True, frozen=True)
class Provider:
    """Who serves models: where, in which form, and which variables hold its key and another address."""

    name: str
    label: str
    form: Form
    base_url: str
    key_variables: tuple[str, ...] = ()
    url_variables: tuple[str, ...] = ()
    needs_key: bool = True
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    context_tokens: int | None = None

    @property
    def is_local(self) -> bool:
        """Whether it runs on this machine."""
        return _endpoint(self, None).is_local


def _endpoint(provider: Provider, key: Key | None) -> Endpoint:
    secret, found_in = (key.secret, key.found_in) if key else ("", "")
    return Endpoint(provider.name, provider.label, provider.base_url, secret, found_in, provider.headers)


def _hosted(name: str, label: str, form: Form, base_url: str, *keys: str) -> Provider:
    variable = name.upper()
    return Provider(name, label, form, base_url, keys or (f"{variable}_API_KEY",), (f"{variable}_BASE_URL",))


def _local(name: str, label: str, port: int) -> Provider:
    variable = name.upper()
    return Provider(
        name, label, "chat", f"http://127.0.0.1:{port}/v1", (f"{variable}_API_KEY",), (f"{variable}_BASE_URL",), False
    )


_OPENAI_HOST = "api.openai.com"
_KNOWN = (
    _hosted("anthropic", "Anthropic", "anthropic", "https://api.anthropic.com"),
    _hosted("openai", "OpenAI", "responses", "https://api.openai.com/v1"),
    _hosted(
        "gemini", "Google Gemini", "gemini", "https://generativelanguage.googleapis.com/v1beta",
        "GEMINI_API_KEY", "GOOGLE_API_KEY",
    ),
    _hosted("openrouter", "OpenRouter", "chat", "https://openrouter.ai/api/v1"),
    _hosted("deepseek", "DeepSeek", "chat", "https://api.deepseek.com"),
    _hosted("dashscope", "Qwen (DashScope)", "chat", "https://dashscope.aliyuncs.com/compatible-mode/v1"),
    _hosted("mistral", "Mistral", "chat", "https://api.mistral.ai/v1"),
    _hosted("groq", "Groq", "chat", "https://api.groq.com/openai/v1"),
    _hosted("xai", "xAI", "chat", "https://api.x.ai/v1"),
    _hosted("moonshot", "Moonshot", "chat", "https://api.moonshot.ai/v1"),
    _hosted("zai", "Z.ai", "chat", "https://api.z.ai/api/paas/v4"),
    _hosted("together", "Together", "chat", "https://api.together.xyz/v1"),
    _local("ollama", "Ollama", 11434),
    _local("lmstudio", "LM Studio", 1234),
    _local("llamacpp", "llama.cpp", 8080),
    _local("vllm", "vLLM", 8000),
)  # fmt: skip
# Settings that servers of OpenAI's form don't document, and would ignore.
_LACKS = {
    **dict.fromkeys(("deepseek", "moonshot"), frozenset({"seed", "parallel_calls"})),
    "zai": frozenset({"seed", "parallel_calls", "tool_choice", "effort"}),
    **dict.fromkeys(("ollama", "lmstudio", "together"), frozenset({"parallel_calls"})),
}
_OTHER_NAMES = {
    "qwen": "dashscope",
    "google": "gemini",
    "claude": "anthropic",
    "kimi": "moonshot",
    "lm-studio": "lmstudio",
}
# A model's bare name, where only one provider of its own makes it.
_MAKERS = (
    (re.compile(r"claude-"), "anthropic"),
    (re.compile(r"(?:gpt-\d|o\d(?:-|$)|chatgpt-|codex-)"), "openai"),
    (re.compile(r"gemini-"), "gemini"),
    (re.compile(r"deepseek-"), "deepseek"),
    (re.compile(r"(?:mistral|codestral|devstral|magistral|ministral)-"), "mistral"),
    (re.compile(r"qwen\d?[.-]|qwen-"), "dashscope"),
    (re.compile(r"grok-"), "xai"),
    (re.compile(r"kimi-"), "moonshot"),
    (re.compile(r"glm-"), "zai"),
)  # fmt: skip


def all_providers(custom: Iterable[Provider] = (), environment: Mapping[str, str] | None = None) -> dict[str, Provider]:
    """All providers by name, at the addresses that the environment gives; `custom` ones come from the settings."""
    environment = os.environ if environment is None else environment
    found = {one.name: _at_home(one, environment) for one in _KNOWN}
    return found | {one.name: one for one in custom}


def custom_provider(
    name: str,
    *,
    base_url: str = "",
    form: Form | None = None,
    key_variable: str = "",
    headers: Mapping[str, str] | None = None,
    context_tokens: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Provider:
    """A provider for `open_model(…, known={name: …})`: a new one, or a known one of that name changed.

    `base_url` is what its paths begin with, and `form` what it speaks: `chat`, as OpenAI's Chat Completions, unless you
    say `responses`, `anthropic` or `gemini`. A new one needs a key only if you name its `key_variable`.
    """
    below = all_providers(environment=environment).get(name)
    if below is None:
        if not base_url:
            raise ValueError(f"`providers.{name}` needs a `base_url`")
        variables = (key_variable,) if key_variable else (f"{name.upper().replace('-', '_')}_API_KEY",)
        below = Provider(name, name, form or "chat", base_url, variables, needs_key=bool(key_variable))
    moved = _moved(below, base_url) if base_url else below
    return replace(
        moved,
        form=form or moved.form,
        key_variables=(key_variable,) if key_variable else moved.key_variables,
        headers=headers or {},
        context_tokens=context_tokens,
    )


def split_name(model: str) -> tuple[str, str]:
    """`provider/name` in two; a bare name whose maker is known gets its maker, any other an empty provider."""
    provider, slash, name = model.partition("/")
    if slash and provider:
        return _OTHER_NAMES.get(provider.lower(), provider.lower()), name
    maker = next((maker for pattern, maker in _MAKERS if pattern.match(model)), "")
    return maker, model


def open_model(
    model: str,
    known: Mapping[str, Provider] | None = None,
    environment: Mapping[str, str] | None = None,
    *,
    price: ModelPrice | None = None,
) -> Model:
    """The model of that name, ready to be asked: `anthropic/claude-sonnet-4-5`, `ollama/qwen3`, or `local`.

    `known` are the providers by name, if not Ferrule's own; `custom_provider` makes one for a server of yours.
    `local` is a small one on this machine, fetched when it is first asked. The key comes from the environment or the
    keyring. `price` is what the model costs, if that isn't known or is another for you. Raises `ModelError` for a model
    that cannot be asked, which says what to do about it, and `MissingExtraError` where a part of Ferrule is not
    installed.
    """
    from ferrule.models.http_model import HttpModel, require_http

    if not isinstance(model, str):  # pyright: ignore[reportUnnecessaryIsInstance] - a setting that is not there
        raise TypeError(f"A model is named as provider/name, not {model!r}.")

    known = all_providers(environment=environment) if known is None else known
    name, bare = (EMBEDDED, "") if model.lower() == EMBEDDED else split_name(model)
    if name == EMBEDDED and name not in known:
        from ferrule.models.local.local_model import local_model

        return local_model(bare)
    provider = known.get(name)
    if provider is None or not bare:
        raise _unknown(model, name, bare, known)
    key = find_key(provider.name, provider.key_variables, environment)
    if key is None and provider.needs_key:
        raise ModelError(
            ModelFault.KEY,
            phrase("There is no key for {label}.", label=provider.label),
            suggestion=how_to_give_a_key(provider),
        )
    require_http()
    endpoint = _endpoint(provider, key)
    return HttpModel(form_of(provider), endpoint, bare, context_tokens=provider.context_tokens, price=price)


def form_of(provider: Provider) -> WireForm:
    """The wire form, imported when it is used."""
    if provider.form == "responses":
        from ferrule.models.openai import OpenAIResponsesForm

        return OpenAIResponsesForm(provider.name)
    if provider.form == "anthropic":
        from ferrule.models.anthropic import AnthropicForm

        return AnthropicForm(provider.name)
    if provider.form == "gemini":
        from ferrule.models.gemini import GeminiForm

        return GeminiForm(provider.name)
    from ferrule.models.openai import MISTRAL_IDS, Accent, OpenAIChatForm

    accent = Accent(lacks=_LACKS.get(provider.name, frozenset()))
    if provider.name == "mistral":
        accent = Accent(ids=MISTRAL_IDS, usage_asked=False, seed_field="random_seed")
    elif provider.name == "openrouter":  # otherwise it leaves out settings that the model's host lacks
        accent = Accent(exacting={"provider": {"require_parameters": True}})
    elif host_of(provider.base_url) == _OPENAI_HOST:
        caches = frozenset({"24h"})
        accent = Accent(limit_field="max_completion_tokens", strict=None, writes_output=True, caches=caches)
    return OpenAIChatForm(provider.name, accent)


# Where keys come from: the environment, else the keyring of the desktop when the `keyring` package is there.


KEYRING_SERVICE = "ferrule"


@dataclass(slots=True, frozen=True)
class Key:
    """A key and where it was found, in words that can be shown."""

    secret: str = field(repr=False)
    found_in: str


def find_key(provider: str, variables: Sequence[str], environment: Mapping[str, str] | None = None) -> Key | None:
    """The key of a provider; None when there is none."""
    environment = os.environ if environment is None else environment
    for variable in variables:
        if secret := environment.get(variable, "").strip():
            return Key(secret, variable)
    from ferrule.process.references import MissingValueError, from_keyring

    with suppress(MissingValueError):  # nothing there, locked, or there is no desktop to ask
        if secret := from_keyring(KEYRING_SERVICE, provider).strip():
            return Key(secret, f"the keyring ({KEYRING_SERVICE}/{provider})")
    return None


def how_to_give_a_key(provider: Provider) -> str:
    """What to do, with a command to copy."""
    variable = provider.key_variables[0]
    return phrase(
        "Set it: export {variable}=… (or keep it in the keyring: keyring set {service} {name}).",
        variable=variable,
        service=KEYRING_SERVICE,
        name=provider.name,
    )


def _unknown(model: str, provider: str, bare: str, known: Mapping[str, Provider]) -> ModelError:
    message = phrase("There is no provider `{provider}`.", provider=provider)
    if not provider:
        message = phrase("`{model}` does not name a provider.", model=model)
        suggestion = phrase("Write it as provider/name, such as `openai/{model}`.", model=model)
    elif provider in known:
        message = phrase("`{model}` does not name a model.", model=model)
        suggestion = phrase("Write it as `{provider}/NAME`; `ferrule models` lists what there is.", provider=provider)
    elif close := nearest(provider, [*known, *_OTHER_NAMES], most=1):
        suggestion = phrase("Did you mean `{name}`?", name=f"{_OTHER_NAMES.get(close[0], close[0])}/{bare}")
    else:
        suggestion = phrase(
            "Known providers: {names}. Add others to the settings, under [providers.{provider}].",
            names=", ".join(known),
            provider=provider,
        )
    return ModelError(ModelFault.NOT_FOUND, message, suggestion=suggestion)


def _at_home(provider: Provider, environment: Mapping[str, str]) -> Provider:
    """The provider at the address that the environment gives, if it does."""
    for variable in provider.url_variables:
        if given := environment.get(variable, "").strip():
            return _moved(provider, given)
    if provider.name == "ollama" and (host := environment.get("OLLAMA_HOST", "").strip()):
        return _moved(provider, _ollama_address(host))
    return provider


def _moved(provider: Provider, base_url: str) -> Provider:
    """The same provider elsewhere. Behind OpenAI's name elsewhere stands a server that may know Chat alone."""
    base_url = base_url.rstrip("/")
    form: Form = provider.form
    if form == "responses" and host_of(base_url) != _OPENAI_HOST:
        form = "chat"
    if form == "anthropic":
        base_url = base_url.removesuffix("/v1")
    if form == "gemini" and base_url.count("/") == 2:
        base_url += "/v1beta"
    return replace(provider, base_url=base_url, form=form)


def _ollama_address(host: str) -> str:
    """Ollama's own variable: `host`, `host:port` or an address; `0.0.0.0` is where it listens, not where it is."""
    try:
        whole = urlsplit(host if "://" in host else f"http://{host}")
        port = whole.port or 11434
    except ValueError:
        return host  # reported when it is used
    name = "127.0.0.1" if whole.hostname in (None, "0.0.0.0", "::") else whole.hostname  # noqa: S104
    name = f"[{name}]" if name and ":" in name else name
    return f"{whole.scheme}://{name}:{port}/v1"


# What can be asked from here: providers with a key, servers on this machine, and the model inside Ferrule.


_LOCAL_SECONDS = 1.0


class Availability(StrEnum):
    """Whether models of a provider can be asked, and what is missing."""

    READY = "ready"
    NO_KEY = "no_key"
    KEY_REFUSED = "key_refused"
    NOT_RUNNING = "not_running"
    UNREACHABLE = "unreachable"
    NOT_INSTALLED = "not_installed"


@dataclass(slots=True, frozen=True)
class FoundProvider:
    """One provider: how it stands, the names of its models, and where its key was found."""

    provider: str
    label: str
    state: Availability
    models: tuple[str, ...] = ()
    key_from: str = ""
    key_variables: tuple[str, ...] = ()


async def discover(
    known: Mapping[str, Provider], environment: Mapping[str, str] | None = None, seconds: float = 4.0
) -> list[FoundProvider]:
    """Every provider and how it stands, in the order given; the model inside Ferrule first."""
    environment = os.environ if environment is None else environment
    asked = [_look_at(provider, environment, seconds) for provider in known.values()]
    return [await asyncio.to_thread(embedded), *await asyncio.gather(*asked)]


async def _look_at(provider: Provider, environment: Mapping[str, str], seconds: float) -> FoundProvider:
    from ferrule.models.http_model import TimeLimits, Transport

    key = await asyncio.to_thread(find_key, provider.name, provider.key_variables, environment)
    endpoint = _endpoint(provider, key)

    def found(state: Availability, models: tuple[str, ...] = ()) -> FoundProvider:
        return FoundProvider(provider.name, provider.label, state, models, endpoint.key_from, provider.key_variables)

    if key is None and provider.needs_key:
        return found(Availability.NO_KEY)
    seconds = min(seconds, _LOCAL_SECONDS) if endpoint.is_local else seconds
    form = form_of(provider)
    transport = Transport(endpoint, TimeLimits(connect=seconds))
    try:
        status, listed = await transport.get(form.models_path, form.headers(endpoint), seconds)
    finally:
        await transport.close()
    names = tuple(form.model_names(listed)) if status == 200 else ()
    if status in (401, 403) and provider.needs_key:
        return found(Availability.KEY_REFUSED)
    if not provider.needs_key:  # whoever listens there must show that it is a server of models
        away = Availability.NOT_RUNNING if endpoint.is_local else Availability.UNREACHABLE
        return found(Availability.READY, names) if names else found(away)
    # Not every provider lists its models.
    return found(Availability.READY, names) if status in (200, 404, 405, 501) else found(Availability.UNREACHABLE)


def embedded() -> FoundProvider:
    """The models that run on this machine without a server: those whose weights are here, or can be fetched."""
    from ferrule.models.local.weights import available

    offered = available()
    if any(one.missing for one in offered):
        return FoundProvider(EMBEDDED, "this machine", Availability.NOT_INSTALLED)
    return FoundProvider(EMBEDDED, "this machine", Availability.READY, tuple(one.name for one in offered))
