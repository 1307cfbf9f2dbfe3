"""Tools as typed Python functions: the signatures that a model writes its program against, and that check it."""

from __future__ import annotations

import builtins
import keyword
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import DefinitionError
from ferrule.core.phrases import phrase
from ferrule.core.schemas import mapping, referred
from ferrule.core.shown_text import flattened
from ferrule.core.tool import Tool, description_of, output_schema_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

HEADER = """from typing import Any, Literal, NotRequired, TypedDict
class PermissionError(OSError): ...
class FileNotFoundError(OSError): ...
class FileExistsError(OSError): ...
class IsADirectoryError(OSError): ...
class NotADirectoryError(OSError): ...
"""
"""What the signatures need, and exceptions that the interpreter has and its type checker does not know."""
SIGNATURES = "signatures"
_TAKEN = frozenset({SIGNATURES, "asyncio", "Any", "Literal", "NotRequired", "TypedDict"})
_NOT_IN_NAMES = re.compile(r"\W+", re.ASCII)
_PARTS = 400
"""Parts of a tool's schemas that become types; what is beyond that is `Any`."""
_ABOUT = 300
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_WHOLE = "arguments"
_NAMES_MORE = ("additionalProperties", "patternProperties", "anyOf", "oneOf", "allOf", "$ref")
"""What lets a schema take arguments besides its `properties`."""


@dataclass(slots=True, frozen=True)
class ToolFunction:
    """A tool as a function of a program."""

    name: str
    tool: Tool[Any]
    parameters: tuple[str, ...]
    """In order. One that is called `arguments` takes all, where their names are none in Python."""
    takes_whole: bool
    takes_more: bool
    """Whether it takes arguments besides those that are named."""
    returns_text: bool
    classes: str
    signature: str

    def stub(self, about: str = "") -> str:
        """The types that only it needs, and its signature, perhaps with what a model should know as a docstring."""
        body = f'\n    """{_indented(about)}"""' if about else " ..."
        return f"{self.classes}{self.signature}{body}\n"

    @property
    def about(self) -> str:
        """What its tool does, and each parameter."""
        named: dict[str, Any] = mapping(self.tool.input_schema.get("properties"))
        lines = [
            f"{name}: {flattened(said, _ABOUT)}"
            for name, one in named.items()
            if isinstance(said := mapping(one).get("description"), str) and said
        ]
        return "\n\n".join(filter(None, (description_of(self.tool).prose, "\n".join(lines))))

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The tool's arguments of a call; raises `TypeError` as a function does."""
        if len(args) > len(self.parameters):
            raise TypeError(f"{self.name}() takes {len(self.parameters)} positional arguments but got {len(args)}")
        given = dict(zip(self.parameters, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"{self.name}() got multiple values for argument '{name}'")
            if name not in self.parameters and not self.takes_more:
                raise TypeError(f"{self.name}() got an unexpected keyword argument '{name}'")
            given[name] = value
        if not self.takes_whole:
            return given
        whole = given.get(_WHOLE, {})
        if not isinstance(whole, dict):
            raise TypeError(f"{self.name}() takes a dict, not {type(whole).__name__}")
        return cast("dict[str, Any]", whole)


def is_callable(tool: Tool[Any]) -> bool:
    """Whether a program can call it: not if it is broken, runs programs itself, or has a meaning for a turn alone."""
    return not (hasattr(tool, "within") or getattr(tool, "hands_over", False) or tool.fault is not None)


def functions_of(tools: Iterable[Tool[Any]]) -> dict[str, ToolFunction]:
    """The functions of a program by their names, in the order of the tools."""
    found: dict[str, ToolFunction] = {}
    named: dict[str, Tool[Any]] = {}
    for tool in filter(is_callable, tools):
        named[_free(_identifier(tool.name), named)] = tool
    classes = dict.fromkeys(named, "")  # no class has the name of a function
    for name, tool in named.items():
        try:
            found[name] = _function(name, tool, classes)
        except DefinitionError:  # its fault may come and go
            continue
    return found


def _function(name: str, tool: Tool[Any], classes: dict[str, str]) -> ToolFunction:
    types = _Types("".join(part[:1].upper() + part[1:] for part in name.split("_")), classes)
    schema = tool.input_schema
    named = mapping(schema.get("properties"))
    required: Any = schema.get("required", ())
    takes_whole = not all(_is_name(one) for one in named)
    takes_more = not takes_whole and any(schema.get(key) for key in _NAMES_MORE)
    if takes_whole:
        order, shown = (_WHOLE,), [f"{_WHOLE}: {types.of(schema, schema, 'Arguments')}"]
    else:
        order = tuple(sorted(named, key=lambda one: one not in required))  # stable: those without a default come first
        shown = [f"{one}: {types.of(named[one], schema, one)}{'' if one in required else ' = ...'}" for one in order]
        shown += ["**more: Any"] if takes_more else []
    output = output_schema_of(tool)
    returns = types.of(output, output, "Result") if output is not None else "str"
    signature = f"async def {name}({', '.join(shown)}) -> {returns}:"
    returns_text = output is None or output.get("type") == "string"
    return ToolFunction(name, tool, order, takes_whole, takes_more, returns_text, types.classes(), signature)


class _Types:
    """Writes schemas as Python types. Objects with fields become a `TypedDict` each."""

    def __init__(self, prefix: str, taken: dict[str, str]) -> None:
        self._prefix = prefix
        self._taken = taken
        """The classes of all functions, by name."""
        self._bodies: dict[str, str] = {}
        self._referred: dict[tuple[int, str], str] = {}
        self._around: list[tuple[int, str]] = []
        self._left = _PARTS

    def classes(self) -> str:
        return "".join(self._bodies.values())

    def of(self, prop: Any, root: dict[str, Any], hint: str) -> str:
        self._left -= 1
        if self._left < 0 or not isinstance(prop, dict):
            return "Any"
        prop = cast("dict[str, Any]", prop)
        if "$ref" in prop:
            key = (id(root), str(prop["$ref"]))
            if key in self._referred:
                return self._referred[key]
            if key in self._around:  # an object that holds others of its own kind
                return "Any"
            self._around.append(key)
            target = mapping(referred(str(prop["$ref"]), root))
            found = self._referred[key] = self.of(target, root, str(prop["$ref"]).rpartition("/")[2])
            self._around.pop()
            return found
        choices: Any = [prop["const"]] if "const" in prop else prop.get("enum")
        if isinstance(choices, list) and choices:
            listed = cast("list[Any]", choices)
            if all(one is None or isinstance(one, (str, int)) for one in listed):
                return f"Literal[{', '.join(map(repr, listed))}]"
            return "Any"
        options: Any = prop.get("anyOf") or prop.get("oneOf")
        if isinstance(options, list) and "type" not in prop:
            return _union(self.of(one, root, hint) for one in cast("list[Any]", options))
        parts: Any = prop.get("allOf")
        if isinstance(parts, list) and "type" not in prop:
            several = cast("list[Any]", parts)
            return self.of(several[0], root, hint) if len(several) == 1 else "Any"
        kind: Any = prop.get("type")
        if isinstance(kind, list):
            return _union(self.of({**prop, "type": one}, root, hint) for one in cast("list[Any]", kind))
        if kind == "array":
            return f"list[{self.of(prop.get('items'), root, hint)}]"
        if kind == "object" or (kind is None and "properties" in prop):
            return self._object(prop, root, hint)
        return _TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"

    def _object(self, prop: dict[str, Any], root: dict[str, Any], hint: str) -> str:
        named = mapping(prop.get("properties"))
        if not named:
            values = prop.get("additionalProperties")
            return f"dict[str, {self.of(values, root, hint) if isinstance(values, dict) else 'Any'}]"
        words = re.sub(r"[\W_]+(\w?)", lambda found: found[1].upper(), f"_{hint}", flags=re.ASCII)
        required: Any = prop.get("required", ())
        fields = [
            (one, kind if one in required else f"NotRequired[{kind}]")
            for one, kind in ((one, self.of(value, root, one)) for one, value in named.items())
        ]
        name, number = f"{self._prefix}{words}", 1
        while True:
            if all(_is_name(one) for one, _ in fields):
                lines = "".join(f"    {one}: {kind}\n" for one, kind in fields)
                body = f"class {name}(TypedDict):\n{lines}"
            else:
                pairs = ", ".join(f"{one!r}: {kind}" for one, kind in fields)
                body = f"{name} = TypedDict({name!r}, {{{pairs}}})\n"
            if self._taken.setdefault(name, body) == body:  # the same fields may occur twice
                self._bodies[name] = body
                return name
            number += 1
            name = f"{self._prefix}{words}{number}"


def _union(kinds: Iterable[str]) -> str:
    listed = dict.fromkeys(kinds)
    return "Any" if "Any" in listed or not listed else " | ".join(listed)


def _is_name(text: str) -> bool:
    """Whether it can name a parameter."""
    return text.isidentifier() and text.isascii() and not keyword.iskeyword(text)


def _identifier(name: str) -> str:
    """A tool's name as a function's. One that Python has a meaning for, or none at all, is changed."""
    # The interpreter's stubs hide names that begin with an underscore.
    words = name if _is_name(name) and name[0] != "_" else _NOT_IN_NAMES.sub("_", name).strip("_")
    words = words if words and not words[0].isdecimal() else f"tool_{words}".rstrip("_")
    is_taken = keyword.iskeyword(words) or keyword.issoftkeyword(words) or hasattr(builtins, words)
    return f"{words}_" if is_taken or words in _TAKEN else words


def _free(name: str, taken: Mapping[str, Any]) -> str:
    found, number = name, 2
    while found in taken:
        found, number = f"{name}_{number}", number + 1
    return found


def _indented(text: str) -> str:
    """Text as it stands in a docstring, which nothing in it ends."""
    safe = text.replace("\\", "\\\\").replace('"""', "'''").strip()
    safe = f"{safe} " if safe.endswith('"') else safe
    lines = safe.splitlines()
    return "\n".join([*lines[:1], *(f"    {line}".rstrip() for line in lines[1:])]) + ("\n    " if lines[1:] else "")


# What a model reads of them


_FULL, _SHORT = 16_000, 40_000
"""Characters: up to the first, functions are described in full, up to the second with a line each. Of more than that,
those that have room are shown, and the others can be looked up."""


def shown_functions(functions: Mapping[str, ToolFunction]) -> str:
    """The signatures as a model reads them, in bounded length."""
    full = "\n".join(one.stub(one.about) for one in functions.values())
    if len(full) <= _FULL:
        return full
    left, lines = _SHORT, list[str]()
    for one in functions.values():
        line = one.stub(flattened(description_of(one.tool).short, _ABOUT))
        left -= len(line)
        if left < 0:
            break
        lines.append(line)
    if hidden := len(functions) - len(lines):
        lines.append(
            phrase(
                "# {count} more functions. `print({name}('what you need'))` shows those that fit.",
                count=hidden,
                name=SIGNATURES,
            )
        )
    return "\n".join(lines)
