"""How things look on a page: templates in the reader's language, and times, sizes, states and diffs in words."""

from __future__ import annotations

import gettext
import json
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ferrule.core.shown_text import browser_pattern, cut_counted, shown, shown_row, visible, visible_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jinja2 import Environment

if find_spec("jinja2") is None:  # said at the start, while it is imported with the first page that somebody opens
    raise ModuleNotFoundError("No module named 'jinja2'", name="jinja2")

LANGUAGES = ("en", "zh")
HERE = Path(__file__).parent
_MOST_SHOWN = 200_000


def _(message: str) -> str:
    """Marks a message for the catalogues; it is translated where it is shown."""
    return message


STATES = {
    "queued": _("queued"), "awaiting_approval": _("waiting for approval"),
    "awaiting_result": _("waiting for a result"), "running": _("running"),
    "succeeded": _("succeeded"), "failed": _("failed"), "cancelled": _("cancelled"), "expired": _("expired"),
    "lost": _("lost"), "pending": _("pending"), "approved": _("approved"), "denied": _("denied"),
    "allow": _("allowed"), "ask": _("asks"), "deny": _("denied"), "success": _("succeeded"),
}  # fmt: skip
MARKS = {
    "queued": "○", "awaiting_approval": "◐", "awaiting_result": "◐", "pending": "◐", "running": "◔", "succeeded": "✓",
    "success": "✓", "approved": "✓", "allow": "✓", "ask": "◐", "failed": "✕", "denied": "✕", "deny": "✕",
    "cancelled": "−", "expired": "−", "lost": "?",
}  # fmt: skip
"""A state is never told by its colour alone."""
KINDS = {
    "readonly": _("reads"), "write": _("changes"), "execute": _("runs commands"), "unknown": _("asks each time"),
}  # fmt: skip
EVENTS = {
    "call.created": _("created"), "call.awaiting_approval": _("waiting for approval"),
    "call.awaiting_result": _("waiting for a result"), "call.started": _("started"),
    "call.progress": _("progress"), "call.output": _("output"), "call.succeeded": _("succeeded"),
    "call.failed": _("failed"), "call.cancelled": _("cancelled"), "call.expired": _("expired"),
    "call.lost": _("lost"), "approval.decided": _("decided"), "approval.expired": _("approval expired"),
    "reset": _("more than is kept"),
}  # fmt: skip
PROBLEMS = {
    "forbidden": _("Your roles do not allow this."), "scope": _("Your key is not for this."),
    "not_found": _("There is no such thing, or it is not for you."), "decided": _("Someone else decided this first."),
    "expired": _("Nobody decided in time."), "other_arguments": _("The call has changed. Read it again."),
    "finished": _("The call has ended already."), "conflict": _("It is not in a state for this."),
    "invalid": _("Something in the form is not valid."), "store": _("The store cannot be reached. Try again."),
    "not_ready": _("The service is starting. Try again."), "draining": _("The service is stopping. Try again."),
    "internal": _("The service failed on this request."), "form": _("The form has expired. Load the page again."),
    "rate": _("Too many calls. Try again later."), "too_large": _("That is too large."),
    "bad_key": _("This key is unknown, expired or revoked."),
}  # fmt: skip


def shown_json(value: Any) -> str:
    """A value as a reader wants it: text as it is, all else as indented JSON; bounded."""
    text = value if isinstance(value, str) else visible_json(json.dumps(value, ensure_ascii=False, indent=2))
    return cut_counted(text, _MOST_SHOWN)


def shown_visibly(value: Any) -> str:
    """What somebody decides on, with whatever would hide or turn round in it made visible."""
    return shown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))


def shown_moment(value: str | float | None) -> str:
    """A time as the API writes it, or in seconds since 1970, for a reader."""
    if value is None or value == "":
        return ""
    if isinstance(value, str):
        return value[:19].replace("T", " ")
    try:
        return datetime.fromtimestamp(value).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):  # only somebody who changed the record wrote that
        return str(value)


def shown_seconds(value: float | str | None) -> str:
    if value is None or isinstance(value, str):  # a text is what somebody wrote who changed the record
        return value or ""
    if value < 1:
        return f"{value * 1000:.0f} ms" if value >= 0.001 or value == 0 else f"{value * 1000:.1f} ms"
    return f"{value:.1f} s" if value < 120 else f"{value / 60:.0f} min"


def seconds_between(start: str | None, end: str | None) -> float | None:
    """Between two times as the API writes them."""
    if not start or not end:
        return None
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


class DiffLine(NamedTuple):
    """A line of a diff; `kind` is `added`, `removed`, `place` or `same`."""

    kind: str
    text: str


def diff_lines(text: str) -> list[DiffLine]:
    """A diff line by line, for a page that marks what was added and removed by more than colour."""
    kinds = {"+": "added", "-": "removed", "@": "place"}
    lines = text.splitlines()
    return [
        DiffLine("same" if line.startswith(("+++", "---")) else kinds.get(line[:1], "same"), line) for line in lines
    ]


def looks_like_diff(text: str) -> bool:
    return any(line.startswith("@@") for line in text.splitlines()[:50])


class NestedCall(NamedTuple):
    """An audit row with those of the calls that it made."""

    row: dict[str, Any]
    made: list[NestedCall]


def tree_of(rows: Iterable[dict[str, Any]], call: str) -> list[NestedCall]:
    """The calls that a call made, each with those that it made in turn."""
    by_parent: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if row["parent"]:
            by_parent.setdefault(row["parent"], []).append(row)

    def made_by(one: str, seen: frozenset[str]) -> list[NestedCall]:
        found = [row for row in by_parent.get(one, ()) if row["call_id"] not in seen]
        return [NestedCall(row, made_by(row["call_id"], seen | {row["call_id"]})) for row in found]

    return made_by(call, frozenset({call}))


def language_of(cookie: str | None, accepted: str) -> str:
    """What the reader chose, else the first that the browser asks for and there is."""
    if cookie in LANGUAGES:
        return cookie
    for one in accepted.split(","):
        tag = one.partition(";")[0].strip().lower().partition("-")[0]
        if tag in LANGUAGES:
            return tag
    return "en"


@cache
def catalogue(language: str) -> gettext.NullTranslations:
    return gettext.translation("panel", HERE / "locale", [language], fallback=True)


@cache
def templates(language: str) -> Environment:
    """The templates in a language. Whatever is put into them is escaped and visible; what is missing is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def seen(value: Any) -> Any:
        if not isinstance(value, str) or (text := visible(value)) is value:
            return value
        return Markup(text) if isinstance(value, Markup) else text  # noqa: S704 - only letters and braces are added

    made = Environment(
        loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, extensions=["jinja2.ext.i18n"], auto_reload=False, finalize=seen,
    )  # fmt: skip
    words = catalogue(language)
    install: Callable[..., None] = getattr(made, "install_gettext_callables")  # noqa: B009 - the extension adds it
    install(words.gettext, words.ngettext, newstyle=True)

    def in_words(table: dict[str, str]) -> Callable[[str], str]:
        return lambda one: words.gettext(table[one]) if one in table else one

    filters: dict[str, Callable[..., Any]] = {
        "json": shown_json, "visible": shown_visibly, "moment": shown_moment, "seconds": shown_seconds,
        "diff": diff_lines, "state": in_words(STATES), "kind": in_words(KINDS), "event": in_words(EVENTS),
        "row": shown_row, "typed": visible_json,
    }  # fmt: skip
    functions: dict[str, Any] = {
        "mark": _mark, "is_diff": looks_like_diff, "between": seconds_between, "hidden_pattern": browser_pattern(),
    }  # fmt: skip
    made.filters.update(filters)
    made.globals.update(functions)
    return made


def _mark(state: str) -> str:
    return MARKS.get(state, "·")
