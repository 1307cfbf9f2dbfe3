"""A server's form, asked field by field, shown as a whole and sent only when the user says so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from ferrule.cli.ask import AnswerLine
from ferrule.cli.words import _
from ferrule.core.elicitation import Elicited
from ferrule.core.problems import InvalidParamsError
from ferrule.core.schema_params import SchemaParams
from ferrule.core.secrets import is_secret_name
from ferrule.core.shown_text import disguises, shown, shown_row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


# Where a server's question is put, and how it is told apart from ours: who asks, and their words behind a bar.


YES = ("y", "yes", "是")
NO = ("n", "no", "否")
BAR = "│ "
"""Stands before every line that the server wrote: none of them can pass for one of ours."""


class Talk(Protocol):
    """A user who is shown lines, and answers. Esc and Ctrl-C raise `KeyboardInterrupt`, Ctrl-D `EOFError`."""

    @property
    def cancelled_by(self) -> str:
        """The keys that cancel the question."""
        ...

    def tell(self, lines: Sequence[AnswerLine]) -> None: ...

    async def answer(self) -> str: ...


def ours(words: str) -> AnswerLine:
    return AnswerLine(words)


def warning(words: str) -> AnswerLine:
    return AnswerLine(words, warning=True)


def theirs(text: str) -> list[AnswerLine]:
    """What the server wrote, with everything in it made visible, and a warning where it is not what it looks like."""
    if not text.strip():
        return []
    lines = [AnswerLine(f"{BAR}{line}", of_the_call=True) for line in shown(text.strip().expandtabs(4)).split("\n")]
    if found := disguises(text.strip()):
        lines.append(warning(_("it contains {what}").format(what=_(", ").join(_(one) for one in found))))
    return lines


def one_row(text: str, most: int = 200) -> str:
    """A server's word in the middle of a row of ours."""
    return shown_row(" ".join(text.split()), most)


# A field of a server's form: what may be typed for it, and what was typed as the value that the server gets.


_MOST_TYPED = 20_000
_BETWEEN = re.compile(r"[\s,，、;；]+")
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+")


class Misread(Exception):  # noqa: N818 - reads as what it says
    """What was typed is no answer; the words say what would be one."""


@dataclass(slots=True, frozen=True)
class Option:
    """One of several: what the server gets, and what the user reads."""

    value: str
    title: str


@dataclass(slots=True, frozen=True)
class Field:
    """One field. `kind` is text, integer, number, boolean, one or many."""

    name: str
    kind: str
    schema: Mapping[str, Any]
    checked_by: SchemaParams
    """The schema of a form that has this field alone."""
    required: bool
    options: tuple[Option, ...] = ()

    @property
    def title(self) -> str:
        return one_row(text_of(self.schema.get("title")) or self.name)

    @property
    def description(self) -> str:
        return text_of(self.schema.get("description"))

    @property
    def secret(self) -> bool:
        """Whether it seems to want what no form may ask for."""
        number = self.kind in ("integer", "number")
        asked = (self.name, self.title, text_of(self.schema.get("format")))
        return self.kind in ("text", "integer", "number") and any(is_secret_name(one, number=number) for one in asked)

    @property
    def default(self) -> Any:
        """What is meant where nothing is typed; None where that is nothing."""
        found: Any = self.schema.get("default")
        try:
            return None if found is None else self._fitting(found)
        except Misread:
            return None

    def takes(self) -> str:
        """What may be typed, in a few words."""
        low, high = _number(self.schema.get("minimum")), _number(self.schema.get("maximum"))
        if self.kind == "boolean":
            return _("y or n")
        if self.kind == "one":
            return _("a number from the list")
        if self.kind == "many":
            return _("numbers from the list, separated by spaces")
        what = {"integer": _("a whole number"), "number": _("a number")}.get(self.kind) or self._text_kind()
        if low is not None and high is not None:
            return _("{what}, {low} to {high}").format(what=what, low=f"{low:g}", high=f"{high:g}")
        if low is not None:
            return _("{what}, at least {low}").format(what=what, low=f"{low:g}")
        if high is not None:
            return _("{what}, at most {high}").format(what=what, high=f"{high:g}")
        return what

    def read(self, typed: str) -> Any:
        """The value of what was typed; raises `Misread`."""
        typed = typed.strip()
        if len(typed) > _MOST_TYPED:
            raise Misread(_("That is too long."))
        if self.kind == "boolean":
            return self._fitting(_flag(typed))
        if self.kind == "integer":
            return self._fitting(_whole(typed))
        if self.kind == "number":
            return self._fitting(_decimal(typed))
        if self.kind == "one":
            return self._option(typed)
        if self.kind == "many":
            return self._fitting(list(dict.fromkeys(self._option(one) for one in _BETWEEN.split(typed) if one)))
        return self._fitting(typed)

    def shown(self, value: Any) -> str:
        """A value as the user reads it."""
        if isinstance(value, bool):
            return _("yes") if value else _("no")
        titles = {one.value: one.title for one in self.options}
        if isinstance(value, list):
            return _(", ").join(titles.get(one, one) for one in cast("list[str]", value)) or _("none")
        return one_row(titles.get(value, str(value)) if isinstance(value, str) else f"{value}")

    def _text_kind(self) -> str:
        return {
            "email": _("an e-mail address"),
            "uri": _("an address, such as https://example.org/"),
            "date": _("a date, such as 2026-01-31"),
            "date-time": _("a date and time, such as 2026-01-31T18:30:00Z"),
        }.get(text_of(self.schema.get("format")), _("text"))

    def _option(self, typed: str) -> str:
        """By its number, its value or its title."""
        if typed.isdecimal() and 1 <= int(typed[:9]) <= len(self.options):
            return self.options[int(typed[:9]) - 1].value
        low = typed.casefold()
        for one in self.options:
            if low in (one.value.casefold(), one.title.casefold()):
                return one.value
        raise Misread(
            _("`{typed}` is not in the list: type a number from 1 to {most}.").format(
                typed=one_row(typed, 40), most=len(self.options)
            )
        )

    def _fitting(self, value: Any) -> Any:
        """The value, where the schema takes it; the usual reasons why not are told in the user's language."""
        if self.kind == "text" and isinstance(value, str):
            self._check_length(value)
            self._check_format(value)
        elif self.kind == "many":
            self._check_count(_length(value))
        elif (number := _number(value)) is not None:
            self._check_range(number)
        self._check_schema(value)
        return value

    def _check_length(self, value: str) -> None:
        least, most = _number(self.schema.get("minLength")), _number(self.schema.get("maxLength"))
        if least is not None and len(value) < least:
            raise Misread(_("At least {least} characters are required.").format(least=f"{least:g}"))
        if most is not None and len(value) > most:
            raise Misread(_("At most {most} characters are allowed.").format(most=f"{most:g}"))

    def _check_count(self, count: int) -> None:
        least, most = _number(self.schema.get("minItems")), _number(self.schema.get("maxItems"))
        if least is not None and count < least:
            raise Misread(_("Choose at least {least}.").format(least=f"{least:g}"))
        if most is not None and count > most:
            raise Misread(_("Choose at most {most}.").format(most=f"{most:g}"))

    def _check_range(self, value: float) -> None:
        low, high = _number(self.schema.get("minimum")), _number(self.schema.get("maximum"))
        if (low is not None and value < low) or (high is not None and value > high):
            raise Misread(_("That is out of range: {takes}.").format(takes=self.takes()))

    def _check_format(self, value: str) -> None:
        from datetime import date, datetime
        from urllib.parse import urlsplit

        kind, right = text_of(self.schema.get("format")), True
        try:
            if kind == "email":
                right = _EMAIL.fullmatch(value) is not None
            elif kind == "uri":
                right = bool(urlsplit(value).scheme) and " " not in value
            elif kind == "date":
                right = bool(date.fromisoformat(value)) and len(value) == 10
            elif kind == "date-time":
                right = datetime.fromisoformat(value).tzinfo is not None and "T" in value.upper()
        except ValueError:
            right = False
        if not right:
            raise Misread(_("That is not {takes}.").format(takes=self._text_kind()))

    def _check_schema(self, value: Any) -> None:
        """Whatever else the schema says, such as a pattern."""
        from pydantic_core import to_json

        try:
            self.checked_by.load(to_json({self.name: value}))
        except InvalidParamsError as invalid:
            raise Misread(_("The server does not accept that: {why}").format(why=invalid.problems[0].message)) from None


def text_of(value: Any) -> str:
    """A text of the server's, where it is one."""
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _length(value: Any) -> int:
    return len(cast("list[Any]", value)) if isinstance(value, list) else 0


def _flag(typed: str) -> bool:
    if typed.casefold() in YES:
        return True
    if typed.casefold() in NO:
        return False
    raise Misread(_("Type y for yes or n for no."))


def _whole(typed: str) -> int:
    try:
        return int(typed.replace(",", "")) if len(typed) <= 100 else int("")
    except ValueError:
        raise Misread(_("That is not a whole number.")) from None


def _decimal(typed: str) -> float | int:
    from math import isfinite

    try:
        value = float(typed)
    except ValueError:
        raise Misread(_("That is not a number.")) from None
    if not isfinite(value):
        raise Misread(_("That is not a number."))
    return int(typed) if typed.lstrip("+-").isdecimal() and len(typed) <= 100 else value


# Reads a server's form: a flat schema of texts, numbers, yes or no, one of several and some of several.


MOST_FIELDS = 50
MOST_CHOICES = 200


class CannotAsk(Exception):  # noqa: N818 - reads as what it says
    """A form that is not flat; the words complete "it was declined: …"."""


def fields_of(schema: Mapping[str, Any]) -> list[Field]:
    """The fields in the server's order; raises `CannotAsk`."""
    properties: Any = schema.get("properties") or {}
    if not isinstance(properties, dict):
        raise CannotAsk("its form has no fields that can be read")
    named = cast("dict[str, Any]", properties)
    if len(named) > MOST_FIELDS:
        raise CannotAsk(f"its form has more than {MOST_FIELDS} fields")
    required: Any = schema.get("required") or []
    return [_field(name, one, isinstance(required, list) and name in required) for name, one in named.items()]


def _field(name: str, schema: Any, required: bool) -> Field:
    if not isinstance(schema, dict):
        raise CannotAsk(f"the field `{one_row(name, 60)}` of its form cannot be read")
    told = cast("dict[str, Any]", schema)
    checked_by = SchemaParams("form", {"type": "object", "properties": {name: told}, "required": [name]})
    try:
        checked_by.compile()
    except TypeError as error:
        raise CannotAsk(f"the field `{one_row(name, 60)}` of its form cannot be read: {error}") from None
    kind = told.get("type")
    if kind == "array":
        items: Any = told.get("items")
        options = _options(cast("dict[str, Any]", items), "anyOf") if isinstance(items, dict) else ()
        if options:
            return Field(name, "many", told, checked_by, required, options)
    elif options := _options(told, "oneOf"):
        return Field(name, "one", told, checked_by, required, options)
    plain = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}.get(str(kind))
    if plain is None:
        raise CannotAsk(f"the field `{one_row(name, 60)}` of its form is not a text, number, yes-or-no or choice field")
    return Field(name, plain, told, checked_by, required)


def _options(schema: dict[str, Any], titled: str) -> tuple[Option, ...]:
    """The choices in any of the forms that revisions have: `enum`, `enum` with `enumNames`, and const with title."""
    found: list[Option] = []
    named: Any = schema.get(titled) or schema.get("oneOf") or schema.get("anyOf")
    if isinstance(named, list):
        for one in cast("list[Any]", named):
            told = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
            if isinstance(value := told.get("const"), str):
                found.append(Option(value, one_row(text_of(told.get("title")) or value)))
    elif isinstance(listed := schema.get("enum"), list):
        values = [one for one in cast("list[Any]", listed) if isinstance(one, str)]
        names: Any = schema.get("enumNames")
        titles = (
            cast("list[Any]", names)
            if isinstance(names, list) and len(cast("list[Any]", names)) == len(values)
            else values
        )
        found = [Option(value, one_row(text_of(title) or value)) for value, title in zip(values, titles, strict=True)]
    if len(found) > MOST_CHOICES:
        raise CannotAsk(f"its form has a list of more than {MOST_CHOICES} choices")
    return tuple(found)


DECLINE = "/no"


class _Declined(Exception):  # noqa: N818 - reads as what it says
    """The user said no."""


async def fill(talk: Talk, server: str, message: str, schema: Mapping[str, Any]) -> Elicited:
    """What the user makes of a form: filled in, declined or left."""
    name = one_row(server, 60)
    lines = [ours(_("The MCP server {server} asks you something:").format(server=name)), *theirs(message)]
    try:
        fields = fields_of(schema)
    except CannotAsk as why:
        talk.tell([*lines, warning(_("It was declined, because its form cannot be shown here: {why}").format(why=why))])
        return Elicited("decline", why=str(why))
    if fields:
        lines.append(
            ours(
                _("What you type goes to {server}. Never type a password, a key or a card number.").format(server=name)
            )
        )
    for field in fields:
        if field.secret:
            words = _('"{field}" looks like a secret. No server may ask for one this way: better decline.')
            lines.append(warning(words.format(field=field.title)))
    if fields:
        lines.append(ours(_("`/no` declines, {keys} cancels.").format(keys=talk.cancelled_by)))
    talk.tell(lines)
    try:
        return Elicited("accept", await _filled(talk, name, fields) if fields else await _agreed(talk))
    except _Declined:
        talk.tell([ours(_("Declined, and {server} was told.").format(server=name))])
        return Elicited("decline")
    except (KeyboardInterrupt, EOFError):
        talk.tell([ours(_("Cancelled, and {server} was told.").format(server=name))])
        return Elicited("cancel")


async def _agreed(talk: Talk) -> dict[str, Any]:
    """A form without fields: the user agrees, or not."""
    while True:
        talk.tell([ours(_("Agree? Yes (y) or no (n); {keys} cancels").format(keys=talk.cancelled_by))])
        said = (await talk.answer()).strip().casefold()
        if said in YES:
            return {}
        if said in (*NO, DECLINE):
            raise _Declined


async def _filled(talk: Talk, server: str, fields: Sequence[Field]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for at, field in enumerate(fields, 1):
        await _ask(talk, field, content, f"{at}/{len(fields)} " if len(fields) > 1 else "")
    while len(fields) > 1:
        talk.tell(_review(server, fields, content))
        said = (await talk.answer()).strip().casefold()
        if said in YES:
            break
        if said in (*NO, DECLINE):
            raise _Declined
        if said.isdecimal() and 1 <= int(said[:4]) <= len(fields):
            await _ask(talk, fields[int(said[:4]) - 1], content, "")
    return content


async def _ask(talk: Talk, field: Field, content: dict[str, Any], place: str) -> None:
    """One field, again until what was typed is an answer. Nothing typed means what it had, or else its default."""
    known: Any = content.get(field.name, field.default)
    lines = [AnswerLine(f"{BAR}{place}{field.title}", of_the_call=True), *theirs(field.description)]
    lines += [AnswerLine(f"{BAR}  {at}  {one.title}", of_the_call=True) for at, one in enumerate(field.options, 1)]
    lines.append(ours(_expected(field, known)))
    talk.tell(lines)
    while True:
        typed = (await talk.answer()).strip()
        if typed == DECLINE:
            raise _Declined
        try:
            if typed:
                content[field.name] = field.read(typed.removeprefix("/") if typed == f"/{DECLINE}" else typed)
            elif known is not None:
                content[field.name] = known
            elif field.required:
                raise Misread(_("An answer is required: {takes}.").format(takes=field.takes()))
        except Misread as misread:
            talk.tell([warning(str(misread))])
        else:
            return


def _expected(field: Field, known: Any) -> str:
    takes = field.takes()
    if known is not None:
        return _("({takes}; Enter means {default})").format(takes=takes, default=field.shown(known))
    if field.required:
        return _("({takes}; required)").format(takes=takes)
    return _("({takes}; Enter skips it)").format(takes=takes)


def _review(server: str, fields: Sequence[Field], content: Mapping[str, Any]) -> list[AnswerLine]:
    lines = [ours(_("{server} would get:").format(server=server))]
    for at, field in enumerate(fields, 1):
        said = field.shown(content[field.name]) if field.name in content else _("(nothing)")
        lines.append(AnswerLine(f"{BAR}{at}  {field.title}: {said}", of_the_call=True))
    return [*lines, ours(_("Send it? Yes (y), a number to change that answer, or no (n)"))]
