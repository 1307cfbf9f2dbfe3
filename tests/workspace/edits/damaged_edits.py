"""Random files, true edits of them, and the damages that copying does to a text: what the ladder's laws draw from."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

BODIES = (
    *("a = 1", "b = 'x'", 'say("hi")', "if a:", "for x in y:", "return a", "}", "{", "x--", "# it's a", "c += 2  # d"),
    *(
        "- item",
        "foo(",
        "bar,",
        ")",
        "a\tb",
        "“q” x",
        "it’s",
        "a - b",
        "1. x",
        "'''",
        '"k": "v",',
        "<p>",
        "3\tx",
        "",
        "",
    ),
)


@st.composite
def a_line(draw: st.DrawFn, unit: str) -> str:
    """Mostly indented by one unit, sometimes by another; sometimes with blanks at its end."""
    body = draw(st.sampled_from(BODIES))
    step = draw(st.sampled_from([unit] * 15 + ["  ", "\t"]))
    blanks = draw(st.sampled_from([""] * 15 + ["  "]))
    return step * draw(st.integers(0, 3)) + body + blanks if body else blanks


@dataclass(frozen=True)
class TrueEdit:
    """Whole lines that stand once in a text, and what becomes of them."""

    head: str
    old: str
    new: str
    tail: str

    @property
    def before(self) -> str:
        return self.head + self.old + self.tail

    @property
    def stands_once(self) -> bool:
        return bool(self.old.strip()) and self.before.find(self.old) == self.before.rfind(self.old)

    @property
    def after(self) -> str:
        return self.head + self.new + self.tail


@st.composite
def a_true_edit(draw: st.DrawFn) -> TrueEdit:
    unit = draw(st.sampled_from(["    ", "    ", "  ", "\t", "\t"]))
    line = a_line(unit)
    lines = draw(st.lists(line, min_size=2, max_size=12))
    first = draw(st.integers(0, len(lines) - 1))
    last = draw(st.integers(first + 1, min(first + 6, len(lines))))
    new = list(lines[first:last])
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(new)))
        change = draw(st.sampled_from(["insert", "insert", "remove", "replace", "indent"]))
        if change == "insert" or at == len(new):
            new.insert(at, draw(line))
        elif change == "remove":
            del new[at]
        else:
            new[at] = draw(line) if change == "replace" else unit + new[at]
    head, old, changed, tail = (
        "".join(f"{line}\n" for line in part) for part in (lines[:first], lines[first:last], new, lines[last:])
    )
    return TrueEdit(head, old, changed, tail)


Damage = Callable[[str, str], str]
"""What becomes of a text; the second is the old and the new one together, which lose the same margin."""


def _dedented(text: str, both: str) -> str:
    margins = [re.match(r"[ \t]*", line)[0] for line in both.split("\n") if line.strip()]  # type: ignore[index]
    margin = min(margins, key=len, default="")
    while not all(one.startswith(margin) for one in margins):
        margin = margin[:-1]
    return re.sub(rf"(?m)^{margin}", "", text)


def _indented(text: str, both: str) -> str:
    return re.sub(r"(?m)^(?=[^\n])", "    ", text)


def _spaces_for_tabs(text: str, both: str) -> str:
    return text.replace("\t", "    ")


def _expanded(text: str, both: str) -> str:
    return text.expandtabs(8)


def _tabs_for_spaces(text: str, both: str) -> str:
    return re.sub(r"(?m)^(?: {4})+", lambda match: "\t" * (len(match[0]) // 4), text)


def _as_it_is(text: str, both: str) -> str:
    return text


def _trailing_dropped(text: str, both: str) -> str:
    return re.sub(r"(?m)[ \t]+$", "", text)


def _trailing_added(text: str, both: str) -> str:
    return re.sub(r"(?m)(?<=\S)$", " ", text)


def _smart(text: str, both: str) -> str:
    text = re.sub(r'(^|[\s(\[{=,])"', "\\1“", text, flags=re.MULTILINE).replace('"', "”")
    return re.sub(r"(^|[\s(\[{=,])'", "\\1‘", text, flags=re.MULTILINE).replace("'", "’")


def plain(text: str, both: str = "") -> str:
    return text.translate(str.maketrans("“”‘’", "\"\"''"))


def _numbered(text: str, both: str) -> str:
    return "".join(f"{number:>6}\t{line}" for number, line in enumerate(text.splitlines(keepends=True), 7))


def _end_lost(text: str, both: str) -> str:
    return text.removesuffix("\n")


_SHIFTS = (_as_it_is, _as_it_is, _dedented, _dedented, _indented, _spaces_for_tabs, _expanded, _tabs_for_spaces)
_BLANKS = (_as_it_is, _as_it_is, _trailing_dropped, _trailing_added)
_QUOTES = (_as_it_is, _as_it_is, _smart, plain)
_NUMBERS = (_as_it_is, _as_it_is, _numbered)
_ENDS = (_as_it_is, _as_it_is, _as_it_is, _end_lost)


@st.composite
def a_damage(draw: st.DrawFn) -> Damage:
    """At most one of each sort, in the order in which they can happen."""
    steps = [draw(st.sampled_from(sort)) for sort in (_SHIFTS, _BLANKS, _QUOTES, _NUMBERS, _ENDS)]

    def damage(text: str, both: str) -> str:
        for step in steps:
            text = step(text, both)
        return text

    return damage


def without_numbers(text: str) -> str:
    return re.sub(r"(?m)^ *\d+\t", "", text)
