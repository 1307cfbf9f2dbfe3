"""The languages that Ferrule speaks to users, and its catalogue of phrases in each."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.phrases import Phrase, translated

if TYPE_CHECKING:
    from collections.abc import Callable
    from gettext import NullTranslations

LANGUAGES = ("en", "zh")
_FOLDER = Path(__file__).parent / "locale"


@cache
def translations(language: str) -> NullTranslations:
    """All messages in a language; English ones are as they are."""
    import gettext  # most programs speak English

    return gettext.translation("ferrule", _FOLDER, [language], fallback=True)


def catalogue(language: str) -> Callable[[str], str]:
    """What `translated` looks a template up in."""
    return translations(language).gettext


def in_language(text: str, language: str) -> str:
    """A phrase in a language; any other text as it is."""
    return translated(text, catalogue(language)) if language != "en" and isinstance(text, Phrase) else text


def require_language(language: str) -> str:
    """The language; raises `ValueError` for one that Ferrule does not speak."""
    if language not in LANGUAGES:
        raise ValueError(f"`language` is one of {', '.join(map(repr, LANGUAGES))}, not {language!r}.")
    return language
