"""What may stand in each argument of a call: the things a request names, sorted by what the parameter is for.

A small model writes a wrong path as readily as a right one. So it is not asked to write: what the request names is put
before it, and it picks. Only where nothing fits may it write freely.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, cast

from ferrule.dialects.flatten import Ledger
from ferrule.dialects.inline import inline
from ferrule.registry.choose_tools import (
    Mention,
    Named,
    ToolChooser,
    loose_folders,
    mentions,
    name_terms,
    name_words,
    same_thing,
    terms,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.core.tool import Tool


# Kinds of files as people name them («Python files», «Markdown 文件»), as globs.


_KINDS: dict[str, tuple[str, ...]] = {
    "python": ("*.py",),
    "javascript": ("*.js",),
    "typescript": ("*.ts",),
    "markdown": ("*.md",),
    "rust": ("*.rs",),
    "java": ("*.java",),
    "ruby": ("*.rb",),
    "php": ("*.php",),
    "swift": ("*.swift",),
    "kotlin": ("*.kt",),
    "html": ("*.html",),
    "css": ("*.css",),
    "json": ("*.json",),
    "yaml": ("*.yaml", "*.yml"),
    "toml": ("*.toml",),
    "xml": ("*.xml",),
    "csv": ("*.csv",),
    "sql": ("*.sql",),
    "pdf": ("*.pdf",),
    "shell": ("*.sh",),
    "text": ("*.txt",),
    "log": ("*.log",),
    "c++": ("*.cpp",),
    "c#": ("*.cs",),
    "go": ("*.go",),
    "文本": ("*.txt",),
    "日志": ("*.log",),
    "脚本": ("*.sh",),
}
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
    """One argument. `choices` are the values to pick from; none means that it is written freely, as `schema` allows.

    `copied` asks for a piece of the request, word for word.
    """

    name: str
    schema: Mapping[str, Any]
    choices: tuple[Any, ...] = ()
    copied: bool = False


@dataclass(slots=True)
class Form:
    """The arguments of one call, as far as the request tells them."""

    tool: Tool[Any]
    slots: list[Slot] = field(default_factory=list[Slot])
    unused: list[Mention] = field(default_factory=list[Mention])
    """What the request names and the tool has no place for: a sign that another tool is meant."""
    unfilled: int = 0
    """How many required arguments nothing in the request fits: another such sign."""


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
    if not isinstance(schema, dict):
        return form
    properties = cast("Mapping[str, Mapping[str, Any]]", inline(schema, Ledger(tool.name)).get("properties", {}))
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
        if (other := _other_slot(name, one, properties, request, left)) is not None:
            filled[name] = other
        elif name in required:
            filled[name] = Slot(name, one)
    form.slots = [filled[name] for name in properties if name in filled]
    form.unused = [one for one in left if one.kind is not Named.NUMBER]
    form.unfilled = sum(slot.name in required and not slot.choices for slot in form.slots)
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
    if not is_required:
        return None
    return Slot(name, schema, copied=role is Role.PATTERN)


def _fits(one: Mention, role: Role) -> bool:
    if role is Role.FILE and one.kind is Named.FOLDER:
        return "/" in one.text and not one.text.endswith("/")
    return role is not Role.IDENTITY or " " not in one.text


def _other_slot(
    name: str, schema: Mapping[str, Any], properties: Mapping[str, Any], request: str, left: list[Mention]
) -> Slot | None:
    kind = schema.get("type")
    words = set(terms(request))
    if kind == "boolean" and schema.get("default") is False:
        named = set(name_terms(name)) - _TELLS_NOTHING
        described = set(terms(str(schema.get("description", "")))) - _TELLS_NOTHING
        is_meant = named <= words if named else bool(described & words)  # a name like `-i` says nothing
        return Slot(name, schema, (True,)) if is_meant else None
    if kind == "integer":
        numbers = [one for one in left if one.kind is Named.NUMBER]
        if numbers and _closest(words, properties) == name:
            left.remove(numbers[0])
            return Slot(name, schema, (int(numbers[0].text),))
    if "enum" in schema and "default" in schema:
        values = cast("list[Any]", schema["enum"])
        named = [one for one in values if one != schema["default"] and set(name_terms(str(one))) & words]
        return Slot(name, schema, tuple(named)) if named else None
    return None


def _closest(words: set[str], properties: Mapping[str, Any]) -> str | None:
    """Which number the request speaks of: the parameter that shares most with it, its name counting double."""
    best: tuple[int, str | None] = (0, None)
    for name, schema in properties.items():
        if schema.get("type") != "integer":
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


# The calls that may be meant by a request, each with its arguments as far as they are told, the best first.


_FITS, _MISFIT = 1.0, 1.5
_ONLY_READS = 0.4  # of two that fit alike, the one that can do no harm
_EXPLAIN = "explain"  # who asks for that, and names nothing, wants to be told rather than have it done
ANSWER_SCORE = 1.9
"""What a tool must reach to be better than an answer in words."""


@dataclass(slots=True, frozen=True)
class Candidate:
    """A call that may be meant. The score counts words in common, and how well what is named fits the parameters."""

    tool: Tool[Any]
    form: Form
    score: float


class Candidates:
    """Ranks the calls that some tools allow."""

    def __init__(self, tools: Sequence[Tool[Any]]) -> None:
        self.tools = tuple(tools)
        self._chooser = ToolChooser(tools)

    def rank(self, request: str, most: int, least: float = ANSWER_SCORE) -> list[Candidate]:
        """The calls worth thinking of, the best first; none when an answer in words is the better choice."""
        if _EXPLAIN in terms(request) and not mentions(request) and least >= ANSWER_SCORE:
            return []
        found: list[Candidate] = []
        for one in self._chooser.rank(request):
            if one.score or least < 0:
                form = fill(one.tool, request)
                found.append(Candidate(one.tool, form, one.score + _fit(form)))
        found.sort(key=lambda one: -one.score)
        kept: list[Candidate] = []
        for one in found:
            if len(kept) == most or one.score < least:
                break
            if not any(same_thing(one.tool, other.tool) for other in kept):
                kept.append(one)
        return kept


def _fit(form: Form) -> float:
    fitting = sum(bool(slot.choices) and is_text(slot.schema) for slot in form.slots)
    harmless = _ONLY_READS if form.tool.read_only else 0.0
    return _FITS * fitting + harmless - _MISFIT * (form.unfilled + len(form.unused))
