"""A server's form, asked field by field, shown as a whole and sent only when the person says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.cli.ask import Line
from ferrule.cli.server_talk.fields import Misread
from ferrule.cli.server_talk.form_schema import CannotAsk, fields_of
from ferrule.cli.server_talk.talk import BAR, NO, YES, one_row, ours, theirs, warning
from ferrule.cli.words import _
from ferrule.core.elicitation import Elicited

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.cli.server_talk.fields import Field
    from ferrule.cli.server_talk.talk import Talk

DECLINE = "/no"


class _Declined(Exception):  # noqa: N818 - reads as what it says
    """The person said no."""


async def fill(talk: Talk, server: str, message: str, schema: Mapping[str, Any]) -> Elicited:
    """What the person makes of a form: filled in, declined or left."""
    name = one_row(server, 60)
    lines = [ours(_("The MCP server {server} asks you something:").format(server=name)), *theirs(message)]
    try:
        fields = fields_of(schema)
    except CannotAsk as why:
        talk.tell([*lines, warning(_("It was declined, because its form cannot be asked here: {why}").format(why=why))])
        return Elicited("decline", why=str(why))
    if fields:
        lines.append(
            ours(_("What you type goes to {server}: never a password, a key or a card number.").format(server=name))
        )
    for field in fields:
        if field.secret:
            words = _("«{field}» looks like a secret. No server may ask for one in this way: better decline.")
            lines.append(warning(words.format(field=field.title)))
    if fields:
        lines.append(ours(_("`/no` declines, {keys} cancels.").format(keys=talk.cancelled_by)))
    talk.tell(lines)
    try:
        return Elicited("accept", await _filled(talk, name, fields) if fields else await _agreed(talk))
    except _Declined:
        talk.tell([ours(_("Declined; {server} is told so.").format(server=name))])
        return Elicited("decline")
    except (KeyboardInterrupt, EOFError):
        talk.tell([ours(_("Cancelled; {server} is told so.").format(server=name))])
        return Elicited("cancel")


async def _agreed(talk: Talk) -> dict[str, Any]:
    """A form without fields: the person agrees, or not."""
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
    lines = [Line(f"{BAR}{place}{field.title}", of_the_call=True), *theirs(field.description)]
    lines += [Line(f"{BAR}  {at}  {one.title}", of_the_call=True) for at, one in enumerate(field.options, 1)]
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
                raise Misread(_("An answer is needed: {takes}.").format(takes=field.takes()))
        except Misread as misread:
            talk.tell([warning(str(misread))])
        else:
            return


def _expected(field: Field, known: Any) -> str:
    takes = field.takes()
    if known is not None:
        return _("({takes}; Enter means {default})").format(takes=takes, default=field.shown(known))
    if field.required:
        return _("({takes}; needed)").format(takes=takes)
    return _("({takes}; Enter skips it)").format(takes=takes)


def _review(server: str, fields: Sequence[Field], content: Mapping[str, Any]) -> list[Line]:
    lines = [ours(_("{server} would get:").format(server=server))]
    for at, field in enumerate(fields, 1):
        said = field.shown(content[field.name]) if field.name in content else _("(nothing)")
        lines.append(Line(f"{BAR}{at}  {field.title}: {said}", of_the_call=True))
    return [*lines, ours(_("Send it? Yes (y), a number to change that answer, or no (n)"))]
