"""A server's form, asked field by field, shown as a whole and sent only when the user says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol, cast

from ferrule.cli.ask import AnswerLine
from ferrule.cli.words import _, localised, said_of
from ferrule.core.elicitation import Elicited
from ferrule.core.forms import FormError, FormField, form_fields, text_of
from ferrule.core.phrases import phrase
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


MOST_FIELDS = 50
MOST_CHOICES = 200
_MOST_TYPED = 20_000
_BETWEEN = re.compile(r"[\s,，、;；]+")


class CannotAsk(Exception):  # noqa: N818 - reads as what it says
    """A form that is not flat; the words complete "it was declined: …"."""


def fields_of(schema: Mapping[str, Any]) -> list[FormField]:
    """The fields in the server's order: texts, numbers, yes or no, and choices; raises `CannotAsk`."""
    properties: Any = schema.get("properties") or {}
    if not isinstance(properties, dict):
        raise CannotAsk("its form has no fields that can be read")
    named = cast("dict[str, Any]", properties)
    if len(named) > MOST_FIELDS:
        raise CannotAsk(f"its form has more than {MOST_FIELDS} fields")
    found = form_fields(schema)
    for field in found:
        where = f"the field `{one_row(field.name, 60)}` of its form"
        if not isinstance(named[field.name], dict):
            raise CannotAsk(f"{where} cannot be read")
        try:
            field.checked_by.compile()
        except TypeError as error:
            raise CannotAsk(f"{where} cannot be read: {error}") from None
        if field.kind in ("lines", "json"):
            raise CannotAsk(f"{where} is not a text, number, yes-or-no or choice field")
        if len(field.choices) > MOST_CHOICES:
            raise CannotAsk(f"its form has a list of more than {MOST_CHOICES} choices")
    return found


def title_of(field: FormField) -> str:
    return one_row(field.title)


def asks_secret(field: FormField) -> bool:
    """Whether it seems to want what no form may ask for."""
    number = field.kind in ("integer", "number")
    asked = (field.name, field.title, text_of(field.schema.get("format")))
    return (number or field.kind == "text") and any(is_secret_name(one, number=number) for one in asked)


def default_of(field: FormField) -> Any:
    """What is meant where nothing is typed; None where that is nothing, or does not fit."""
    found: Any = field.schema.get("default")
    try:
        return None if found is None else field.check(found)
    except FormError:
        return None


def takes(field: FormField) -> str:
    """What may be typed, in a few words."""
    chosen = {
        "boolean": _("y or n"),
        "one": _("a number from the list"),
        "many": _("numbers from the list, separated by spaces"),
    }
    return chosen.get(field.kind) or localised(field.takes())


def read(field: FormField, typed: str) -> Any:
    """The value of what was typed; raises `FormError`."""
    typed = typed.strip()
    if len(typed) > _MOST_TYPED:
        raise FormError("size", phrase("That is too long."))
    if field.kind == "one":
        return _chosen(field, typed)
    if field.kind != "many":
        return field.check(field.read(typed))
    numbers = [_chosen(field, one) for one in _BETWEEN.split(typed) if one]
    return field.check([one for at, one in enumerate(numbers) if one not in numbers[:at]])


def _chosen(field: FormField, typed: str) -> Any:
    """By its number, its value or its title."""
    if typed.isdecimal() and 1 <= int(typed[:9]) <= len(field.choices):
        return field.choices[int(typed[:9]) - 1].value
    low = typed.casefold()
    for one in field.choices:
        if low in (str(one.value).casefold(), one.title.casefold()):
            return one.value
    raise FormError(
        "choice",
        phrase(
            "`{typed}` is not in the list: type a number from 1 to {most}.",
            typed=one_row(typed, 40), most=len(field.choices),
        ),
    )  # fmt: skip


def shown_value(field: FormField, value: Any) -> str:
    """A value as the user reads it."""
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    text = field.written(value)
    if field.kind != "many":
        return one_row(text)
    return _(", ").join(map(one_row, text.split("\n"))) if value else _("none")


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
        if asks_secret(field):
            words = _('"{field}" looks like a secret. No server may ask for one this way: better decline.')
            lines.append(warning(words.format(field=title_of(field))))
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


async def _filled(talk: Talk, server: str, fields: Sequence[FormField]) -> dict[str, Any]:
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


async def _ask(talk: Talk, field: FormField, content: dict[str, Any], place: str) -> None:
    """One field, again until what was typed is an answer. Nothing typed means what it had, or else its default."""
    known: Any = content.get(field.name, default_of(field))
    lines = [AnswerLine(f"{BAR}{place}{title_of(field)}", of_the_call=True), *theirs(field.description)]
    lines += [
        AnswerLine(f"{BAR}  {at}  {one_row(one.title)}", of_the_call=True) for at, one in enumerate(field.choices, 1)
    ]
    lines.append(ours(_expected(field, known)))
    talk.tell(lines)
    while True:
        typed = (await talk.answer()).strip()
        if typed == DECLINE:
            raise _Declined
        try:
            if typed:
                content[field.name] = read(field, typed.removeprefix("/") if typed == f"/{DECLINE}" else typed)
            elif known is not None:
                content[field.name] = known
            elif field.required:
                raise FormError("required", phrase("An answer is required: {takes}.", takes=takes(field)))
        except FormError as error:
            talk.tell([warning(said_of(error))])
        else:
            return


def _expected(field: FormField, known: Any) -> str:
    may = takes(field)
    if known is not None:
        return _("({takes}; Enter means {default})").format(takes=may, default=shown_value(field, known))
    return (_("({takes}; required)") if field.required else _("({takes}; Enter skips it)")).format(takes=may)


def _review(server: str, fields: Sequence[FormField], content: Mapping[str, Any]) -> list[AnswerLine]:
    lines = [ours(_("{server} would get:").format(server=server))]
    for at, field in enumerate(fields, 1):
        said = shown_value(field, content[field.name]) if field.name in content else _("(nothing)")
        lines.append(AnswerLine(f"{BAR}{at}  {title_of(field)}: {said}", of_the_call=True))
    return [*lines, ours(_("Send it? Yes (y), a number to change that answer, or no (n)"))]
