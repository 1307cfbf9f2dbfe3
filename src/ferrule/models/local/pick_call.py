"""Picks the call that a request asks for, without a model: which tool, and what may stand in each of its arguments.

The words of the request meet the words of each tool (its name, its description, its examples, its parameters), the rare
ones counting more, as in BM25. A small model writes a wrong path as readily as a right one, so it is not
asked: what the request names is sorted into the arguments.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, cast

from ferrule.extension import inline
from ferrule.models.local.request_words import (
    SAYS_LITTLE,
    Mention,
    Named,
    loose_folders,
    mentions,
    name_terms,
    name_words,
    terms,
    without_mentions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule import Tool


# Kinds of files as people name them («Python files», «Markdown 文件»), as globs.


_KINDS: dict[str, tuple[str, ...]] = {
    kind: tuple(f"*.{ending}" for ending in endings.split())
    for kind, endings in {
        "python": "py", "javascript": "js", "typescript": "ts", "markdown": "md", "rust": "rs", "java": "java",
        "ruby": "rb", "php": "php", "swift": "swift", "kotlin": "kt", "html": "html", "css": "css", "json": "json",
        "yaml": "yaml yml", "toml": "toml", "xml": "xml", "csv": "csv", "sql": "sql", "pdf": "pdf", "shell": "sh",
        "text": "txt", "log": "log", "c++": "cpp", "c#": "cs", "go": "go", "文本": "txt", "日志": "log", "脚本": "sh",
    }.items()
}  # fmt: skip
_ENDING = re.compile(r"(?<![A-Za-z0-9_/])\.([a-z][a-z0-9]{0,5})(?![A-Za-z0-9_.])")


def globs_for(request: str) -> tuple[str, ...]:
    """The globs for the kinds of files that a request names, in the order it names them."""
    lowered = request.lower()
    found: list[tuple[int, tuple[str, ...]]] = [
        (match.start(), (f"*.{match[1]}",)) for match in _ENDING.finditer(lowered)
    ]
    for kind, globs in _KINDS.items():
        if match := re.search(rf"(?<![a-z]){re.escape(kind)}(?![a-z])", lowered):
            found.append((match.start(), globs))
    return tuple(dict.fromkeys(glob for _, globs in sorted(found) for glob in globs))


class Role(Enum):
    """What a text parameter is for, as its name and its description tell."""

    COMMAND = auto()
    GLOB = auto()
    PATTERN = auto()
    FILE = auto()
    FOLDER = auto()
    PLACE = auto()
    IDENTITY = auto()
    ADDRESS = auto()
    TEXT = auto()


@dataclass(slots=True, frozen=True)
class Slot:
    """One argument. `choices` are the values that the request names for it; none where it is required and not told."""

    name: str
    schema: Mapping[str, Any]
    choices: tuple[Any, ...] = ()


@dataclass(slots=True)
class Form:
    """The arguments of one call, as far as the request tells them."""

    tool: Tool[Any]
    slots: list[Slot] = field(default_factory=list[Slot])
    unused: list[Mention] = field(default_factory=list[Mention])
    """What the request names and the tool has no place for: a sign that another tool is meant."""

    @property
    def arguments(self) -> dict[str, Any]:
        """What the request tells; of several values that fit, the first."""
        return {slot.name: slot.choices[0] for slot in self.slots if slot.choices}

    @property
    def missing(self) -> list[str]:
        """The required arguments that nothing in the request fits: another such sign."""
        return [slot.name for slot in self.slots if not slot.choices]


_NO_DEFAULT = object()
_DECIMAL = re.compile(r"(?<![\w.])\d+\.\d+(?!\w|\.\d)")
_TELLS_NOTHING = frozenset({"run", "several", "edit", "search", "read", "find", "file", "folder", "limit", "shell"})
_ORDER = (
    Role.IDENTITY, Role.ADDRESS, Role.COMMAND, Role.GLOB, Role.FILE, Role.TEXT, Role.PATTERN, Role.PLACE, Role.FOLDER,
)  # fmt: skip
_TAKES: Mapping[Role, tuple[Named, ...]] = {
    Role.IDENTITY: (Named.CODE, Named.QUOTED),
    Role.ADDRESS: (Named.URL,),
    Role.COMMAND: (Named.COMMAND, Named.QUOTED),
    Role.GLOB: (Named.GLOB, Named.FILE),
    Role.FILE: (Named.FILE, Named.FOLDER),
    Role.TEXT: (Named.QUOTED, Named.CODE),
    Role.PATTERN: (Named.QUOTED, Named.CODE),
    Role.PLACE: (Named.FILE, Named.FOLDER),
    Role.FOLDER: (Named.FOLDER,),
}


def role_of(name: str, schema: Mapping[str, Any]) -> Role:
    """What a text parameter is for."""
    words = name_words(name)
    about = str(schema.get("description", "")).lower()
    if {"command", "cmd"} & set(words):
        return Role.COMMAND
    if {"url", "uri", "link"} & set(words):
        return Role.ADDRESS
    if "id" in words:
        return Role.IDENTITY
    if "glob" in words or ("pattern" in words and "glob" in about):
        return Role.GLOB
    if {"pattern", "regex", "query", "search", "keyword", "term"} & set(words):
        return Role.PATTERN
    if {"file", "filename"} & set(words):
        return Role.FILE
    if {"dir", "directory", "folder", "cwd"} & set(words):
        return Role.FOLDER
    if "path" in words:
        return Role.PLACE if "file" in about else Role.FOLDER
    return Role.TEXT


def fill(tool: Tool[Any], request: str) -> Form:
    """Sort what the request names into the arguments of a tool; an optional one it says nothing of is left out."""
    schema = tool.input_schema
    form = Form(tool)
    properties = cast("Mapping[str, Mapping[str, Any]]", inline(schema).get("properties", {}))
    required = cast("Sequence[str]", schema.get("required", ()))
    left = mentions(request)
    texts = {name: role_of(name, one) for name, one in properties.items() if is_text(one)}
    filled: dict[str, Slot] = {}
    for name in sorted(texts, key=lambda name: (_ORDER.index(texts[name]), name not in required)):
        slot = _text_slot(name, properties[name], texts[name], request, left, is_required=name in required)
        if slot is not None:
            filled[name] = slot
    for name, one in properties.items():
        if name in texts:
            continue
        if (other := _other_slot(name, one, properties, request, left, is_required=name in required)) is not None:
            filled[name] = other
        elif name in required:
            filled[name] = Slot(name, one)
    form.slots = [filled[name] for name in properties if name in filled]
    form.unused = [one for one in left if one.kind is not Named.NUMBER]
    return form


def _text_slot(
    name: str, schema: Mapping[str, Any], role: Role, request: str, left: list[Mention], *, is_required: bool
) -> Slot | None:
    for kind in _TAKES[role]:
        if not is_required and (role is Role.TEXT or (role is Role.GLOB and kind is Named.FILE)):
            break  # a file is where to look, rather than which of many to look at
        fitting = [one for one in left if one.kind is kind and _fits(one, role)]
        if fitting:
            left.remove(fitting[0])
            return Slot(name, schema, (fitting[0].text,))
    if role is Role.GLOB and (globs := globs_for(request)):
        return Slot(name, schema, globs) if is_required else None
    if role in (Role.FOLDER, Role.PLACE) and (loose := loose_folders(request)):
        return Slot(name, schema, (loose[0],))
    return Slot(name, schema) if is_required else None


def _fits(one: Mention, role: Role) -> bool:
    if role is Role.FILE and one.kind is Named.FOLDER:
        return "/" in one.text and not one.text.endswith("/")
    return role is not Role.IDENTITY or " " not in one.text


def _other_slot(
    name: str,
    schema: Mapping[str, Any],
    properties: Mapping[str, Any],
    request: str,
    left: list[Mention],
    *,
    is_required: bool,
) -> Slot | None:
    kind = schema.get("type")
    words = set(terms(request))
    if kind == "boolean" and schema.get("default") is False:
        named = set(name_terms(name)) - _TELLS_NOTHING
        described = set(terms(str(schema.get("description", "")))) - _TELLS_NOTHING
        is_meant = named <= words if named else bool(described & words)  # a name like `-i` says nothing
        return Slot(name, schema, (True,)) if is_meant else None
    if kind in ("integer", "number"):
        closest = _closest(words, properties)
        numbers = [one for one in left if one.kind is Named.NUMBER]
        if closest == name or (closest is None and is_required):
            if numbers:
                left.remove(numbers[0])
                return Slot(name, schema, (int(numbers[0].text),))
            if kind == "number" and (decimal := _DECIMAL.search(request)):
                return Slot(name, schema, (float(decimal[0]),))
    if "enum" in schema:
        values = [one for one in cast("list[Any]", schema["enum"]) if one != schema.get("default", _NO_DEFAULT)]
        named = [one for one in values if set(name_terms(str(one))) & words]
        return Slot(name, schema, tuple(named)) if named else None
    return None


def _closest(words: set[str], properties: Mapping[str, Any]) -> str | None:
    """Which number the request speaks of: the parameter that shares most with it, its name counting double."""
    best: tuple[int, str | None] = (0, None)
    for name, schema in properties.items():
        if schema.get("type") not in ("integer", "number"):
            continue
        score = 2 * len(words & set(name_terms(name))) + len(words & set(terms(str(schema.get("description", "")))))
        best = max(best, (score, name), key=lambda one: one[0])
    return best[1]


def is_text(schema: Mapping[str, Any]) -> bool:
    """Whether a parameter takes a text, or a text or nothing; one of a few words is a choice, not a text."""
    if "enum" in schema:
        return False
    options = cast("Sequence[Mapping[str, Any]]", schema.get("anyOf", (schema,)))
    kinds = [one.get("type") for one in options]
    return "string" in kinds and all(kind in ("string", "null") for kind in kinds)


# Which of the calls that some tools allow is meant: words in common, and how well what is named fits the parameters.


_NAME, _SHORT, _EXAMPLES, _LONG, _PARAMETERS = 3.0, 2.0, 2.0, 0.2, 0.4
_SATURATION, _LENGTH = 1.2, 0.4
_LITTLE = 0.4
_AS_MANY = 20  # of few tools every word is rare: their scores shall mean the same
_FITS, _MISFIT = 1.0, 1.5
_ONLY_READS = 0.4  # of two that fit alike, the one that can do no harm
_EXPLAIN = "explain"  # who asks for that, and names nothing, wants to be told rather than have it done
_ANSWER = 1.9  # what a call must reach to be better than an answer in words


class CallPicker:
    """Some tools, whose words are counted once. A tool that was declared wrongly is not among them."""

    def __init__(self, tools: Sequence[Tool[Any]]) -> None:
        self.tools = tuple(tools)
        self._usable = [tool for tool in tools if tool.fault is None]
        self._weights = [_weigh(tool) for tool in self._usable]
        self._lengths = [sum(weights.values()) for weights in self._weights]
        self._average = (sum(self._lengths) / len(self._lengths)) if self._lengths else 1.0
        holders = Counter(term for weights in self._weights for term in weights)
        total = max(_AS_MANY, len(self._usable))
        self._rarity = {
            term: math.log(1 + (total - count + 0.5) / (count + 0.5)) * (_LITTLE if term in SAYS_LITTLE else 1.0)
            for term, count in holders.items()
        }

    def pick(self, request: str, *, must: bool = False) -> Form | None:
        """The call that is meant; None where an answer in words is the better choice, unless there `must` be a call."""
        if not must and _EXPLAIN in terms(request) and not mentions(request):
            return None
        wanted = Counter(terms(without_mentions(request)))
        best: tuple[float, float, Form] | None = None
        for tool, weights, length in zip(self._usable, self._weights, self._lengths, strict=True):
            norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / self._average)
            in_common = sum(
                self._rarity[term] * count * weights[term] * (_SATURATION + 1) / (weights[term] + norm)
                for term, count in wanted.items()
                if term in weights
            )
            if in_common or must:
                form = fill(tool, request)
                score = in_common + _fit(form)
                if best is None or (score, in_common) > best[:2]:
                    best = score, in_common, form
        return best[2] if best is not None and (must or best[0] >= _ANSWER) else None


def _fit(form: Form) -> float:
    fitting = sum(bool(slot.choices) and is_text(slot.schema) for slot in form.slots)
    harmless = _ONLY_READS if form.tool.read_only else 0.0
    return _FITS * fitting + harmless - _MISFIT * (len(form.missing) + len(form.unused))


def _weigh(tool: Tool[Any]) -> Counter[str]:
    weights: Counter[str] = Counter()
    description = tool.description
    layers: Sequence[tuple[float, list[str]]] = (
        (_NAME, [*name_terms(tool.name), *name_terms(tool.display_name)]),
        (_SHORT, terms(description.short)),
        (_EXAMPLES, [term for one in description.examples for term in terms(without_mentions(one.description))]),
        (_LONG, terms(description.long)),
        (_PARAMETERS, [*_parameter_terms(tool), *(term for tag in tool.tags for term in terms(tag))]),
    )
    for weight, words in layers:
        for word in set(words):
            weights[word] += cast("int", weight)
    return weights


def _parameter_terms(tool: Tool[Any]) -> list[str]:
    return [term for name in tool.input_schema.get("properties", {}) for term in name_terms(name)]
