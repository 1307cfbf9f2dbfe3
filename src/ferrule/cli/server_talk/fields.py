"""A field of a server's form: what may be typed for it, and what was typed as the value that the server gets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ferrule.cli.server_talk.talk import NO, YES, one_row
from ferrule.cli.words import _
from ferrule.core.problems import InvalidParams
from ferrule.core.secrets import is_secret_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.schema_params import SchemaParams

_MOST_TYPED = 20_000
_BETWEEN = re.compile(r"[\s,，、;；]+")
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+")


class Misread(Exception):  # noqa: N818 - reads as what it says
    """What was typed is no answer; the words say what would be one."""


@dataclass(slots=True, frozen=True)
class Option:
    """One of several: what the server gets, and what the person reads."""

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
            return _("a number of the list")
        if self.kind == "many":
            return _("numbers of the list, with spaces")
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
        """A value as the person reads it."""
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
        """The value, where the schema takes it; the usual reasons why not are told in the person's language."""
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
            raise Misread(_("At least {least} characters are needed.").format(least=f"{least:g}"))
        if most is not None and len(value) > most:
            raise Misread(_("At most {most} characters are taken.").format(most=f"{most:g}"))

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
        except InvalidParams as invalid:
            raise Misread(_("The server does not take that: {why}").format(why=invalid.problems[0].message)) from None


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
