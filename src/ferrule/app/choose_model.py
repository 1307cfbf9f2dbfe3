"""From what the person said, or set, to a model that can be asked.

A flag comes before `FERRULE_MODEL`, that before the settings; a workspace has a say only where it is trusted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.app.load_settings import SettingsError
from ferrule.core.model import ModelError, ModelFault
from ferrule.core.phrases import phrase
from ferrule.models.endpoint import find_key
from ferrule.models.providers import EMBEDDED, all_providers, custom_provider, open_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.app.settings import Settings
    from ferrule.core.model import Model
    from ferrule.models.providers import Provider


class NoModelChosen(ModelError):  # noqa: N818 - reads as what it says
    """Nobody said which model to ask. `with_key` are the providers that could be, by the keys that are here."""

    def __init__(self, with_key: Mapping[str, str]) -> None:
        lines = [f"- `--model {name}/NAME`: {where} is set" for name, where in with_key.items()]
        lines.append("- `--model ollama/NAME`, lmstudio, llamacpp or vllm: a server on this machine, no key")
        lines.append(f"- `--model {EMBEDDED}`: a small model on this machine, no key; 93 MB are fetched once")
        if not with_key:
            lines.append("- a key of a provider: export ANTHROPIC_API_KEY=…, OPENAI_API_KEY=…, GEMINI_API_KEY=…")
        lines.append("`ferrule models` lists what is here. To keep a choice: export FERRULE_MODEL=provider/name")
        super().__init__(ModelFault.NOT_FOUND, "No model is chosen.", suggestion="Choose one:\n" + "\n".join(lines))
        self.with_key = with_key

    def __str__(self) -> str:
        return f"{self.message} {self.suggestion}"


def choose_model(name: str, settings: Settings) -> Model:
    """The model called `name`, or the one that is set; raises `ModelError` with what to do instead."""
    wanted = name.strip() or settings.model.strip()
    known = known_providers(settings)
    if not wanted:
        raise NoModelChosen(_with_key(known))
    return open_model(wanted, known)


def known_providers(settings: Settings) -> dict[str, Provider]:
    """The providers known by name, and those of the settings."""
    custom: list[Provider] = []
    for name, given in settings.providers.items():
        if "/" in name or name != name.lower():
            raise SettingsError(phrase("`providers.{name}`: a name is in small letters, without `/`.", name=name))
        try:
            custom.append(
                custom_provider(
                    name,
                    base_url=given.base_url,
                    form=given.form or None,
                    key_variable=given.key_variable,
                    headers=given.headers,
                    context_tokens=given.context_tokens,
                )
            )
        except ValueError as error:
            raise SettingsError(phrase("{error}.", error=error)) from None
    return all_providers(custom)


def _with_key(known: Mapping[str, Provider]) -> dict[str, str]:
    keys = {name: find_key(name, provider.key_variables) for name, provider in known.items() if provider.needs_key}
    return {name: key.found_in for name, key in keys.items() if key is not None}
