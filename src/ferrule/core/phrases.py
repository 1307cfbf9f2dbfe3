"""English text that remembers how it was made, so that a program can say the same in its user's language.

Whoever words a refusal or a failure writes it once, in English: `phrase("No file at `{path}`.", path=path)`. What comes
of it is a `str`: a model, a record and a JSON document get exactly that text. A program that has translations gives its
user `translated(text, catalogue)` instead. Nothing in here knows a language, and nobody has to look for patterns in a
message to learn what it says.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ferrule.core.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping


_FIELD = lazy_pattern(r"\{(\w+)\}")
_NOTHING_FILLED_IN: Mapping[str, Any] = {}


class Phrase(str):
    """A template with what was filled in. Whatever is done to it as a `str` gives a plain one.

    Made by `phrase` and `joined`, in a microsecond or so: a call that does not fit takes eight of them.
    """

    __slots__ = ("detail", "parts", "separator", "template", "values")

    template: str
    values: Mapping[str, Any]
    parts: tuple[str, ...]
    """Of one that is made of several: those, with `separator` between them; it has no template then."""
    separator: str
    detail: str
    """What stands after a colon at its end, and is left out where only English has words for it."""

    def because(self, detail: str) -> Phrase:
        """The same with a detail after a colon, if there is one."""
        if not detail:
            return self
        return _made(f"{self}: {detail}", parts=(self,), detail=detail)

    def mapped(self, change: Callable[[str], str]) -> Phrase:
        """The same with every text that was filled in changed, as to take secrets out of it."""
        if self.parts:
            made = joined(self.separator, (_changed(part, change) for part in self.parts))
        else:
            made = phrase(self.template, **{name: _changed(value, change) for name, value in self.values.items()})
        return made.because(_changed(self.detail, change))


def phrase(template: str, /, **values: Any) -> Phrase:
    """The template filled in, as `str.format` does. It is looked up in catalogues, so it must be a literal."""
    for value in values.values():
        if type(value) is not str and type(value) is not Phrase:
            values = {name: _text(one) for name, one in values.items()}
            break
    text = template
    if values:
        pieces = _pieces(template)
        if len(pieces) == 5:
            before, one, between, other, after = pieces
            text = "".join((before, values[one], between, values[other], after))
        elif len(pieces) == 3:
            text = "".join((pieces[0], values[pieces[1]], pieces[2]))
        else:
            text = template.format_map(values)
    made = Phrase(text)  # as `_made` does, whose call would take as long as this
    made.template, made.values = template, values
    made.parts, made.separator, made.detail = (), "", ""
    return made


class Advice(Phrase):
    """A phrase for a model, and what a user at a shell reads in its place."""

    __slots__ = ("for_user",)

    for_user: Phrase

    def mapped(self, change: Callable[[str], str]) -> Phrase:
        return _advice(super().mapped(change), self.for_user.mapped(change))


def advice(for_model: str, for_user: str = "", /, **values: Any) -> Advice:
    """The same advice to a model and to a user: `advice("Ask the user to install git.", "Install git.")`.

    Both are templates, filled in as those of `phrase`. Only the user's is looked up in catalogues; without one, users
    read nothing.
    """
    return _advice(phrase(for_model, **values), phrase(for_user, **values))


def _advice(for_model: Phrase, for_user: Phrase) -> Advice:
    made = Advice(for_model)
    made.template, made.values = for_model.template, for_model.values
    made.parts, made.separator, made.detail = for_model.parts, for_model.separator, for_model.detail
    made.for_user = for_user
    return made


@lru_cache(maxsize=1024)
def _pieces(template: str) -> tuple[str, ...]:
    """Text, name, text, name, text; nothing where there is more to a field than its name.

    Filling these in takes a third of the time that `str.format` takes to read the template anew.
    """
    pieces = tuple(_FIELD.split(template))
    return () if any("{" in text or "}" in text for text in pieces[::2]) else pieces


def said_by(error: BaseException) -> str:
    """What an exception says, as the phrase it was made with, if it was made with one."""
    first: Any = error.args[0] if error.args else None
    return first if isinstance(first, Phrase) else str(error)


def _text(value: Any) -> str:
    if isinstance(value, Phrase):
        return value
    return said_by(value) if isinstance(value, BaseException) else str(value)


def joined(separator: str, parts: Iterable[str]) -> Phrase:
    """Several texts in a row, as sentences or the items of a list; one alone is that one."""
    listed = tuple(filter(None, parts))
    if len(listed) == 1 and isinstance(listed[0], Phrase):
        return listed[0]
    return _made(separator.join(listed), "", _NOTHING_FILLED_IN, listed, separator)


def _made(
    text: str,
    template: str = "",
    values: Mapping[str, Any] = _NOTHING_FILLED_IN,
    parts: tuple[str, ...] = (),
    separator: str = "",
    detail: str = "",
) -> Phrase:
    made = Phrase(text)
    made.template, made.values, made.parts, made.separator, made.detail = template, values, parts, separator, detail
    return made


def glued(*parts: str) -> Phrase:
    """Texts with nothing between them."""
    nothing = ""  # by name: what a call of `joined` is given as text is looked up in catalogues
    return joined(nothing, parts)


def translated(text: str, catalogue: Callable[[str], str]) -> str:
    """What a user reads of a phrase, through a catalogue, with all that was filled in; any other text as it is."""
    if not isinstance(text, Phrase):
        return text
    if isinstance(text, Advice):
        text = text.for_user
    if text.parts:
        separator = catalogue(text.separator) if text.separator.strip() else text.separator
        said = _in_a_row([one for part in text.parts if (one := translated(part, catalogue))], separator)
    else:
        template = catalogue(text.template) if text.template else ""  # catalogues keep their own notes under ""
        filled = {name: _filled(value, catalogue) for name, value in text.values.items()}
        said = _filled_in(template, filled, text.values) if filled else template
    if not text.detail:
        return said
    if not isinstance(text.detail, Phrase) and f"{said}: {text.detail}" != text:
        return said
    return catalogue("{what}: {why}").format(what=said, why=translated(text.detail, catalogue))


def _in_a_row(said: list[str], separator: str) -> str:
    """Sentences that end with a full-width mark, as Chinese ones do, have no space between them."""
    if separator != " ":
        return separator.join(said)
    row = ""
    for one in said:
        row += one if not row or row[-1] in "。！？；：）" else f" {one}"
    return row


def _filled_in(template: str, filled: Mapping[str, Any], values: Mapping[str, Any]) -> str:
    """A template keeps a space from Latin words that are filled in; between two Chinese ones there is none."""
    from string import Formatter

    row, value_ended = "", False
    for literal, name, _spec, _conversion in Formatter().parse(template):
        if value_ended and literal[:1] == " " and _is_wide(row[-1:]) and _is_wide(literal[1:2]):
            literal = literal[1:]
        row += literal
        value_ended = False
        if name is None:  # a brace that is meant as such
            continue
        value = str(filled[name])
        if isinstance(values[name], Phrase):
            if row[-1:] == " " and _is_wide(row[-2:-1]) and _is_wide(value[:1]):
                row = row[:-1]
            value_ended = True
        row += value
    return row


def _is_wide(character: str) -> bool:
    return "\u2e80" <= character <= "\uffef"


def _filled(value: Any, catalogue: Callable[[str], str]) -> Any:
    return translated(value, catalogue) if isinstance(value, str) else value


def _changed(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, Phrase):
        return value.mapped(change)
    return change(value) if isinstance(value, str) else value
