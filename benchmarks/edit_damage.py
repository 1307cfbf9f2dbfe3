"""The ways in which a copied text differs from the file it was copied from."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(slots=True, frozen=True)
class Case:
    """One edit of a file: `old`, which stands there once from `line` on, becomes `new`."""

    name: str
    before: str
    after: str
    old: str
    new: str
    line: int


def trailing_dropped(text: str, case: Case) -> str:
    return re.sub(r"[ \t]+(?=\r?\n|\Z)", "", text)


def trailing_added(text: str, case: Case) -> str:
    return re.sub(r"(?<=[;,:)}])(?=\r?\n)", "  ", text)


def dedented(text: str, case: Case) -> str:
    margin = _margin(case.old + "\n" + case.new)
    return re.sub(rf"(?m)^{margin}", "", text)


def dedented_alone(text: str, case: Case) -> str:
    """Each text by its own margin, as when they are copied one by one."""
    return re.sub(rf"(?m)^{_margin(text)}", "", text)


def indented(text: str, case: Case) -> str:
    return re.sub(r"(?m)^(?=[^\r\n])", "    ", text)


def tabs_to_4_spaces(text: str, case: Case) -> str:
    return text.replace("\t", "    ")


def tabs_expanded_to_8(text: str, case: Case) -> str:
    return text.expandtabs(8)


def tabs_expanded_to_4(text: str, case: Case) -> str:
    return text.expandtabs(4)


def lf_for_crlf(text: str, case: Case) -> str:
    return text.replace("\r\n", "\n")


def numbered(text: str, case: Case) -> str:
    lines = text.splitlines(keepends=True)
    return "".join(f"{case.line + index:>6}\t{line}" for index, line in enumerate(lines))


def smart_quotes(text: str, case: Case) -> str:
    text = re.sub(r'(^|[\s(\[{=,])"', "\\1\u201c", text, flags=re.MULTILINE).replace('"', "\u201d")
    return re.sub(r"(^|[\s(\[{=,])'", "\\1\u2018", text, flags=re.MULTILINE).replace("'", "\u2019")


def smart_all(text: str, case: Case) -> str:
    return smart_quotes(text, case).replace("...", "\u2026").replace("--", "\u2014").replace(" - ", " \u2013 ")


def final_newline_lost(text: str, case: Case) -> str:
    return re.sub(r"\r?\n\Z", "", text)


def escaped(text: str, case: Case) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def entities(text: str, case: Case) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _both(*damages: Damage) -> Damage:
    def combined_trailing(text: str, case: Case) -> str:
        if any(damage(case.old, case) == case.old for damage in damages):
            return text
        for damage in damages:
            text = damage(text, case)
        return text

    return combined_trailing


def _margin(text: str) -> str:
    margins = [re.match(r"[ \t]*", line) for line in text.splitlines() if line.strip()]
    found = [match[0] for match in margins if match]
    shortest = min(found, key=len, default="")
    while not all(margin.startswith(shortest) for margin in found):
        shortest = shortest[:-1]
    return shortest


if TYPE_CHECKING:
    Damage = Callable[[str, Case], str]

DAMAGES: dict[str, Damage] = {
    "trailing space dropped": trailing_dropped,
    "trailing space added": trailing_added,
    "dedented": dedented,
    "dedented one by one": dedented_alone,
    "indented": indented,
    "4 spaces for tabs": tabs_to_4_spaces,
    "tabs expanded to 8": tabs_expanded_to_8,
    "tabs expanded to 4": tabs_expanded_to_4,
    "LF for CRLF": lf_for_crlf,
    "numbered lines": numbered,
    "smart quotes": smart_quotes,
    "smart quotes, dashes, dots": smart_all,
    "lost final newline": final_newline_lost,
    "escaped": escaped,
    "entities": entities,
    "LF for CRLF + dedented": _both(lf_for_crlf, dedented),
    "dedented + numbered": _both(dedented, numbered),
    "smart quotes + trailing": _both(smart_quotes, trailing_dropped),
    "dedented + lost newline": _both(dedented, final_newline_lost),
}


TYPOGRAPHIC = re.compile("[\u2018\u2019\u201c\u201d\u2013\u2014\u2026]")
_EMPTY_LINE = ("\n\n", "\r\n\r\n")

# What issue 3 names; the others are shown too, and must not come out wrong either.
NAMED = frozenset(
    {
        "trailing space dropped",
        "dedented",
        "4 spaces for tabs",
        "LF for CRLF",
        "numbered lines",
        "smart quotes",
        "lost final newline",
    }
)


def hides_the_change(damage: Damage, case: Case) -> bool:
    """Whether lines that the edit makes different look the same once damaged: then no reader could tell."""
    olds = case.old.splitlines(keepends=True)
    news = case.new.splitlines(keepends=True)
    whole_old, whole_new = damage(case.old, case), damage(case.new, case)
    if "trailing" in damage.__qualname__ and any(
        line not in olds and line.rstrip("\r\n") != line.rstrip() for line in news
    ):
        return True  # blanks at the end of a new line: gone, or among others
    if "tabs" in damage.__qualname__ and any(line not in olds and line.startswith("  ") for line in news):
        return True  # spaces of its own among those that were tabs
    if "smart" in damage.__qualname__ and set(TYPOGRAPHIC.findall(case.new)) - set(case.old):
        return True  # characters that the damage would have made stand in the new text by themselves
    if not whole_old.endswith("\n"):
        if ("\r\n" in case.old) != ("\r\n" in case.new):
            return True  # the last line ending would have changed too
        if not case.new.strip() and case.new:
            return True  # an empty line, or nothing
        if case.new.endswith(_EMPTY_LINE) and not case.old.endswith(_EMPTY_LINE):
            return True  # an empty line at the end, or the line ending that the old text lost
    if damage is dedented_alone and _margin(case.old) != _margin(case.new):
        return True
    if whole_old == whole_new or (
        case.old.endswith("\n") != case.new.endswith("\n") and whole_old.endswith("\n") == whole_new.endswith("\n")
    ):
        return True
    pairs_old = dict(zip(whole_old.splitlines(), olds, strict=False))
    return any(
        line in pairs_old and pairs_old[line].rstrip("\r\n") != true.rstrip("\r\n")
        for line, true in zip(whole_new.splitlines(), news, strict=False)
    )
