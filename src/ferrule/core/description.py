"""The layers of a tool's description, and how they are read from a docstring, with what it says of each parameter.

Understands Google sections (`Args:`), NumPy sections (`Parameters` underlined) and Sphinx fields (`:param x:`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.shown_text import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

_SECTIONS = {
    **dict.fromkeys(("args", "arguments", "parameters", "params"), "params"),
    **dict.fromkeys(("usage notes", "usage"), "usage"),
    **dict.fromkeys(("important", "important notes"), "important"),
    **dict.fromkeys(("example", "examples"), "examples"),
    **dict.fromkeys(("returns", "return", "yields", "raises", "note", "notes"), "other"),
}
_SPHINX = lazy_pattern(r"^:(?P<field>param|parameter|arg|returns?|rtype|type|raises)\b(?P<rest>[^:]*):\s*(?P<text>.*)$")
_GOOGLE_PARAM = lazy_pattern(r"^(?P<name>\*{0,2}\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)$")
_NUMPY_PARAM = lazy_pattern(r"^(?P<name>\w+)\s*(?::.*)?$")
_BULLET = lazy_pattern(r"^[-*•]\s+")
_EXAMPLE = lazy_pattern(r"(?P<words>[^{]*?):?\s*(?P<params>\{.*\})")


@dataclass(slots=True, frozen=True)
class Example:
    """A call worth showing: what it is for, and its arguments."""

    description: str
    params: Mapping[str, Any]


@dataclass(slots=True, frozen=True)
class Description:
    """One line, then as much more as helps."""

    short: str
    long: str = ""
    usage_notes: tuple[str, ...] = ()
    important_notes: tuple[str, ...] = ()
    examples: tuple[Example, ...] = field(default=())

    def __post_init__(self) -> None:
        """Whoever wrote it, nothing in it hides from those who read it."""
        for name in ("short", "long"):
            object.__setattr__(self, name, visible(getattr(self, name)))
        for name in ("usage_notes", "important_notes"):
            object.__setattr__(self, name, tuple(map(visible, getattr(self, name))))

    @property
    def text(self) -> str:
        """What a model reads: short, long, the two lists of notes, then the examples."""
        if not self.examples:
            return self.prose
        shown = (
            f"{one.description}: {json.dumps(dict(one.params), ensure_ascii=False, default=str)}".removeprefix(": ")
            for one in self.examples
        )
        examples = "Examples:\n" + "\n".join(f"- {visible(line)}" for line in shown)
        return f"{self.prose}\n\n{examples}" if self.prose else examples

    @property
    def prose(self) -> str:
        """The text without the examples, for a provider with a field for them."""
        parts = [self.short]
        if self.long:
            parts.append(self.long)
        if self.usage_notes:
            parts.append("Usage notes:\n" + "\n".join(f"- {note}" for note in self.usage_notes))
        if self.important_notes:
            parts.append("IMPORTANT:\n" + "\n".join(f"- {note}" for note in self.important_notes))
        return "\n\n".join(part for part in parts if part)


@dataclass(slots=True, frozen=True)
class Docstring:
    """A docstring taken apart."""

    description: Description
    params: dict[str, str]


def parse_docstring(text: str | None) -> Docstring:
    """Take a docstring apart; what is in no known section belongs to the long description."""
    lines = cleandoc(text or "").splitlines()
    prose: list[str] = []
    sections: dict[str, list[str]] = {"usage": [], "important": [], "examples": []}
    params: dict[str, str] = {}
    position = 0
    while position < len(lines):
        line = lines[position]
        section, numpy = _section_at(lines, position)
        if section is not None:
            position += 2 if numpy else 1
            body, position = _take_body(lines, position, numpy=numpy)
            if section == "params":
                params.update(_params(body, numpy=numpy))
            elif section in sections:
                sections[section] += _bullets(body)
            continue
        if found := _SPHINX.match(line.strip()):
            position += 1
            more, position = _take_indented(lines, position)
            if found["field"] in ("param", "parameter", "arg") and found["rest"].split():
                params[found["rest"].split()[-1]] = _join([found["text"], *more])
            continue
        prose.append(line)
        position += 1
    first, *rest = re.split(r"\n\s*\n", "\n".join(prose).strip(), maxsplit=1)
    short, long = _join(first.splitlines()), "".join(rest).strip()
    usage, important, examples = sections["usage"], sections["important"], _examples(sections["examples"])
    return Docstring(Description(short, long, tuple(usage), tuple(important), examples), params)


def _section_at(lines: list[str], position: int) -> tuple[str | None, bool]:
    line = lines[position]
    if line.startswith((" ", "\t")):
        return None, False
    name = line.strip().lower()
    if name.endswith(":") and name[:-1] in _SECTIONS:
        return _SECTIONS[name[:-1]], False
    if name not in _SECTIONS or position + 1 == len(lines):
        return None, False
    underlined = re.fullmatch(r"-{3,}", lines[position + 1].strip())
    return (_SECTIONS[name], True) if underlined else (None, False)


def _take_body(lines: list[str], position: int, *, numpy: bool) -> tuple[list[str], int]:
    if not numpy:
        return _take_indented(lines, position)
    body: list[str] = []
    while position < len(lines) and _section_at(lines, position)[0] is None:
        body.append(lines[position])
        position += 1
    return body, position


def _take_indented(lines: list[str], position: int) -> tuple[list[str], int]:
    body: list[str] = []
    while position < len(lines) and (not lines[position].strip() or lines[position].startswith((" ", "\t"))):
        body.append(lines[position])
        position += 1
    return cleandoc("\n".join(["", *body])).splitlines(), position


def _params(body: list[str], *, numpy: bool) -> dict[str, str]:
    pattern = _NUMPY_PARAM if numpy else _GOOGLE_PARAM
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in body:
        match = None if line.startswith((" ", "\t")) else pattern.match(line)
        if match:
            current = found.setdefault(match["name"].lstrip("*"), [])
            if not numpy:
                current.append(match["text"])
        elif current is not None:
            current.append(line)
    return {name: text for name, parts in found.items() if (text := _join(parts))}


def _bullets(body: list[str]) -> list[str]:
    notes: list[list[str]] = []
    for line in body:
        if not line.strip():
            continue
        if _BULLET.match(line) or not notes:
            notes.append([_BULLET.sub("", line)])
        else:
            notes[-1].append(line)
    return [_join(note) for note in notes]


def _examples(bullets: list[str]) -> tuple[Example, ...]:
    """Those that are a call, `what it is for: {"its": "arguments"}`; examples of how to use the code are not ours."""
    found: list[Example] = []
    for bullet in bullets:
        if match := _EXAMPLE.fullmatch(bullet):
            try:
                params = json.loads(match["params"])
            except ValueError:
                continue
            found.append(Example(match["words"].strip(), params))
    return tuple(found)


def _join(parts: list[str]) -> str:
    return " ".join(stripped for part in parts if (stripped := part.strip()))
