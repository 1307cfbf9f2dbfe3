"""Grammars (GBNF, as llama.cpp reads them) that a small model writes under: its choice, its arguments, its answer."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, cast

from ferrule.registry.choose_tools import mentions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.models.guided.slots import Slot

_MOST_ITEMS = 20
_MOST_COPIED = 60
_PIECE = re.compile(r"[A-Za-z0-9_]+|[^\sA-Za-z0-9_]|\s+")
_NUMBER = re.compile(r"\d+(?:[.,:/\-]\d+)*")
_VALUES = r"""text ::= "\"" ( [^"\\\x00-\x1F\x7F] | "\\" ["\\/bfnrt] )* "\""
integer ::= "-"? ( "0" | [1-9] [0-9]{0,14} )
number ::= integer ( "." [0-9]{1,15} )?
boolean ::= "true" | "false"
anything ::= text | number | boolean | "null"
"""


def literal(text: str) -> str:
    """A text as a grammar's own words."""
    return '"' + "".join(_character(one) for one in text) + '"'


def arguments_grammar(slots: Sequence[Slot], request: str) -> str:
    """A grammar for a call's arguments as JSON: these and no others, in this order."""
    rules: dict[str, str] = {}
    parts: list[str] = []
    for number, slot in enumerate(slots):
        rules[f"slot{number}"] = _slot_rule(slot, request, rules, f"slot{number}")
        parts.append(f"{literal(json.dumps(slot.name, ensure_ascii=False) + ': ')} slot{number}")
    inside = f" {literal(', ')} ".join(parts)
    lines = [
        f"root ::= {literal('{')} {inside} {literal('}')}",
        *(f"{name} ::= {rule}" for name, rule in rules.items()),
    ]
    return "\n".join(lines) + "\n" + _VALUES


def _slot_rule(slot: Slot, request: str, rules: dict[str, str], name: str) -> str:
    if slot.choices:
        return " | ".join(literal(json.dumps(value, ensure_ascii=False)) for value in slot.choices)
    if slot.copied and (copied := _copied(request, rules, name)):
        return copied
    return _value_rule(slot.schema, rules, name)


def _copied(request: str, rules: dict[str, str], name: str) -> str:
    """Any run of the request's pieces: a rule for each piece, which may go on with the next one."""
    pieces = _PIECE.findall(request)[:_MOST_COPIED]
    starts: list[str] = []
    for position, piece in reversed(list(enumerate(pieces))):
        inside = literal(json.dumps(piece, ensure_ascii=False)[1:-1])
        follow = f" {name}p{position + 1}?" if position + 1 < len(pieces) else ""
        rules[f"{name}p{position}"] = inside + follow
        if piece.strip() and (len(piece) > 1 or piece.isalnum()):
            starts.append(f"{name}p{position}")
    return f'"\\"" ( {" | ".join(reversed(starts))} ) "\\""' if starts else ""


def _value_rule(schema: Mapping[str, Any], rules: dict[str, str], name: str) -> str:
    """A rule for any value that a JSON Schema allows, as far as a grammar can say it; the rest is checked later."""
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return " | ".join(literal(json.dumps(value, ensure_ascii=False)) for value in values)
    options = cast("list[Mapping[str, Any]]", schema.get("anyOf") or schema.get("oneOf") or [])
    if options:
        return " | ".join(_named(option, rules, f"{name}o{at}") for at, option in enumerate(options))
    kind = schema.get("type")
    if isinstance(kind, list):
        each = [
            _named({**schema, "type": one}, rules, f"{name}t{at}") for at, one in enumerate(cast("list[Any]", kind))
        ]
        return " | ".join(each)
    if kind == "object":
        return _object_rule(schema, rules, name)
    if kind == "array":
        item = _named(schema.get("items", {}), rules, f"{name}i")
        return f'"[" ( {item} ( ", " {item} ){{0,{_MOST_ITEMS}}} )? "]"'
    return {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean", "null": '"null"'}.get(
        str(kind), "anything"
    )


def _object_rule(schema: Mapping[str, Any], rules: dict[str, str], name: str) -> str:
    properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties", {}))
    required = schema.get("required", ())
    parts = [
        f"{literal(json.dumps(key, ensure_ascii=False) + ': ')} {_named(properties[key], rules, f'{name}k{at}')}"
        for at, key in enumerate(properties)
        if key in required
    ]
    return f'"{{" {" {} ".format(literal(", ")).join(parts)} "}}"'


def _named(schema: Mapping[str, Any], rules: dict[str, str], name: str) -> str:
    rule = _value_rule(schema, rules, name)
    if " " not in rule:
        return rule
    rules[name] = rule
    return name


def answer_grammar(sources: Sequence[str]) -> str:
    """A grammar for words about some texts: every number and every name of a file or of code stands in one of them."""
    known = "\n".join(sources)
    numbers = sorted({found.group() for found in _NUMBER.finditer(known)}, key=lambda one: (-len(one), one))[:200]
    named = {one.text for one in mentions(known)[:200] if "\n" not in one.text}
    names = sorted((one for one in named if any(mark.isdigit() for mark in one)), key=lambda one: (-len(one), one))
    given = " | ".join(literal(one) for one in [*names, *numbers])
    piece = "[^0-9\\x00-\\x08\\x0B-\\x1F]" + (" | given" if given else "")
    return f"root ::= ( {piece} )+\n" + (f"given ::= {given}\n" if given else "")


def _character(one: str) -> str:
    if one in '"\\':
        return "\\" + one
    if ord(one) < 0x20 or ord(one) == 0x7F:
        return f"\\x{ord(one):02X}"
    return one
