"""Words for people, in their language. Tool names, schemas, error types and JSON keys are never translated."""

from __future__ import annotations

import gettext
import os
from contextlib import contextmanager

from ferrule.core.languages import LANGUAGES, translations
from ferrule.core.phrases import Phrase, joined, said_by, translated

TYPE_CHECKING = False  # as in `typing`, whose import would take longer than all the rest here
if TYPE_CHECKING:
    from collections.abc import Generator

    from ferrule.agent.agent_events import TurnEnded
    from ferrule.core.result import ToolResult

_translations: gettext.NullTranslations = gettext.NullTranslations()
_of_the_person: gettext.NullTranslations = _translations
_language = "en"


def _(message: str) -> str:
    """The message in the language that was chosen."""
    return _translations.gettext(message)


def localised(text: str) -> str:
    """What the layers below worded, in the language that was chosen: a reason, an error, a suggestion."""
    return translated(text, _)


def said_of(error: BaseException) -> str:
    """What an exception from the layers below says, in the language that was chosen."""
    return localised(said_by(error))


def details_of(text: str) -> str:
    """The same, and nothing where only English has words for it: half a line in each language helps nobody."""
    return localised(text) if isinstance(text, Phrase) or type(_translations) is gettext.NullTranslations else ""


def as_error(text: str) -> str:
    return _("Error: {text}").format(text=text)


def as_warning(text: str) -> str:
    return _("Warning: {text}").format(text=text)


def result_text(result: ToolResult) -> str:
    """A result for a person: what the model reads, but for an error, which is in their language."""
    error, text = result.error, result.llm_content
    if error is None or not text.startswith(error.words):
        return text
    words = _("Error ({kind}): {message}").format(kind=error.kind, message=localised(error.message))
    if suggestion := localised(error.suggestion or ""):
        words += _("\n\nSuggestion: {suggestion}").format(suggestion=suggestion)
    return words + result.after_error


_OPTIONS = {"steps": "--max-steps", "tokens": "--max-tokens", "cost": "--max-cost", "seconds": "--timeout"}


def why_ended(event: TurnEnded) -> str:
    """Why a turn did not end well, and what to do; empty if it did."""
    option = _("The option is {option}.").format(option=_OPTIONS[event.limit]) if event.limit else ""
    return " ".join(filter(None, [localised(joined(" ", [event.problem, event.suggestion])), option]))


def choose_language(arguments: list[str]) -> str:
    """Pick the language before anything speaks: flag, environment, the person's settings, then the locale."""
    global _language, _of_the_person, _translations
    language = _from_flag(arguments) or os.environ.get("FERRULE_LANG") or _from_settings() or _from_locale()
    _language = language if language in LANGUAGES else "en"
    _translations = _of_the_person = translations(_language)
    return _language


def chosen_language() -> str:
    """The user's language, also where a program reads the rest."""
    return _language


def speak_english() -> None:
    """For programs: what they read is the same in every language."""
    global _translations
    _translations = gettext.NullTranslations()


@contextmanager
def persons_language() -> Generator[None]:
    """Where the person at the terminal is asked, also when a program reads the rest."""
    global _translations
    before, _translations = _translations, _of_the_person
    try:
        yield
    finally:
        _translations = before


def _from_flag(arguments: list[str]) -> str | None:
    for position, argument in enumerate(arguments):
        if argument == "--":
            return None
        if argument == "--lang" and position + 1 < len(arguments):
            return arguments[position + 1]
        if argument.startswith("--lang="):
            return argument.removeprefix("--lang=")
    return None


def _from_settings() -> str | None:
    """Only the one key: settings that are wrong elsewhere are reported when they are used."""
    from ferrule.app.settings import user_settings_file

    file = user_settings_file()
    if not file.is_file():
        return None
    import tomllib

    try:
        return str(tomllib.loads(file.read_text(encoding="utf-8-sig")).get("lang") or "") or None
    except (OSError, ValueError):
        return None


def _from_locale() -> str | None:
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(variable):
            return "zh" if value.lower().startswith("zh") else "en"
    return None
