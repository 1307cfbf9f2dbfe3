"""Looks over a tool's definition as a model will read it. The rules are listed in docs/reference/lint.md."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import DefinitionError
from ferrule.core.lint_rules import RULES, Finding
from ferrule.core.lint_words import begins_with_verb, changing_verb, words_of
from ferrule.core.problems import InvalidParams
from ferrule.core.raw_tool import RawTool
from ferrule.core.tool import description_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ferrule.core.tool import Tool

MAX_PARAMETERS = 15
MIN_DESCRIPTION = 20
MAX_CHOICES = 100

_SAFE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_FILLERS = ("a", "an", "the", "this", "it", "tool", "function")
_VAGUE = frozenset({"arg", "args", "param", "params", "foo", "bar", "tmp", "temp", "var", "val", "stuff", "thing"})
_WHEN = re.compile(
    r"\b(use[ds]?|useful|when|whenever|if|before|after|instead|prefer|unless|for|to|only|while|until|once|needs?)\b"
    r"|用|当|时",
    re.IGNORECASE,
)
"""Words that say when. A description of some length need not have one: it says it in its own way."""
_LONG = 120

Schema = dict[str, Any]


def lint_tool(tool: Tool[Any], *, ignore: Collection[str] = ()) -> list[Finding]:
    """Everything a reader of this definition would stumble over; rules in `ignore` stay silent."""
    if unknown := set(ignore) - set(RULES):
        raise ValueError(f"There is no lint rule {sorted(unknown)[0]!r}. Rules are {min(RULES)} to {max(RULES)}.")
    findings = [*_of_name(tool), *_of_description(tool), *_of_kind(tool), *_of_schema(tool)]
    return [finding for finding in findings if finding.rule not in ignore]


def _of_name(tool: Tool[Any]) -> Iterator[Finding]:
    name = tool.name
    words = words_of(name)
    if not _SAFE_NAME.fullmatch(name):
        yield _found("F001", "name", f"{name!r} is not accepted by every provider")
    if len(name) == 1:
        yield _found("F002", "name", f"{name!r} is one letter")
    elif words and not begins_with_verb(words):
        yield _found("F003", "name", f"{name!r} does not begin with a verb")


def _of_description(tool: Tool[Any]) -> Iterator[Finding]:
    try:
        text = tool.description.text.strip()
    except Exception as error:  # noqa: BLE001 - a class may write it as a property, which can fail in any way
        yield _found("F014", "description", _told(error))
        return
    said = words_of(text)
    if not text:
        yield _found("F010", "description", "there is none")
    elif set(said) <= {*words_of(tool.name), *_FILLERS}:
        yield _found("F011", "description", "it only repeats the name")
    elif len(text) < MIN_DESCRIPTION and text.isascii():
        yield _found("F012", "description", f"{len(text)} characters are too few to choose the tool by")
    elif len(text) < _LONG and not _WHEN.search(text):
        yield _found("F013", "description", "it does not say when to use the tool")


def _of_kind(tool: Tool[Any]) -> Iterator[Finding]:
    verb = changing_verb(words_of(tool.name))
    if tool.read_only and verb:
        yield _found("F030", "kind", f"a tool that is said to {verb} something claims to be read-only")
    if not tool.read_only and not tool.has_touches:
        yield _found("F031", "touches", "it does not say what a call touches")


def _of_schema(tool: Tool[Any]) -> Iterator[Finding]:
    try:
        tool.require_ready()
        root = _dict(tool.input_schema)
        if isinstance(tool, RawTool):
            tool.compile()
    except Exception as error:  # noqa: BLE001 - a type can fail in any way
        yield _found("F020", "parameters", _told(error))
        return
    if root.get("type") != "object":
        yield _found("F021", "parameters", "the schema is not of type object")
    properties = _dict(root.get("properties"))
    if len(properties) > MAX_PARAMETERS:
        yield _found("F022", "parameters", f"{len(properties)} are many for a model to fill in")
    for name, prop in properties.items():
        yield from _of_parameter(f"parameters.{name}", name, _followed(_dict(prop), root), root)
    yield from _of_defaults(tool, properties)
    yield from _of_examples(tool)


def _of_parameter(where: str, name: str, prop: Schema, root: Schema) -> Iterator[Finding]:
    if not str(prop.get("description", "")).strip():
        yield _found("F023", where, "not described")
    if len(name) == 1:
        yield _found("F024", where, "a one-letter name")
    elif name.lower() in _VAGUE:
        yield _found("F025", where, f"{name!r} says nothing of what it holds")
    yield from _of_choices(where, prop)
    yield from _of_choices(f"{where}[]", _followed(_dict(prop.get("items")), root))


def _of_choices(where: str, prop: Schema) -> Iterator[Finding]:
    choices: Any = prop.get("enum")
    if not isinstance(choices, list):
        return
    listed = cast("list[Any]", choices)
    if not listed:
        yield _found("F026", where, "there is nothing to choose from, so no value fits")
    elif len({repr(choice) for choice in listed}) < len(listed):
        yield _found("F026", where, "a choice is listed twice")
    elif len(listed) > MAX_CHOICES:
        yield _found("F026", where, f"{len(listed)} choices take much of a model's attention")
    elif any(isinstance(choice, str) and not choice.strip() for choice in listed):
        yield _found("F026", where, "a choice is an empty text")


def _of_defaults(tool: Tool[Any], properties: Schema) -> Iterator[Finding]:
    fields: dict[str, Any] = getattr(getattr(tool.params, "model", None), "model_fields", {})
    for name, field in fields.items():
        shown = properties.get(field.alias or name)
        said = shown is None or "default" in _dict(shown)
        if not said and not field.is_required() and field.default_factory is None:
            yield _found("F028", f"parameters.{name}", f"the default {type(field.default).__name__} has none")


def _of_examples(tool: Tool[Any]) -> Iterator[Finding]:
    for position, example in enumerate(description_of(tool).examples):
        try:
            tool.build(example.params)
        except InvalidParams as invalid:
            yield _found("F027", f"examples[{position}]", str(invalid))
        except Exception as error:  # noqa: BLE001 - its own check can fail in any way
            yield _found("F027", f"examples[{position}]", _told(error))


def _followed(prop: Schema, root: Schema) -> Schema:
    """A property with the words of the definition it refers to."""
    ref = str(prop.get("$ref", ""))
    if not ref.startswith("#/"):
        return prop
    here: Any = root
    for part in ref.split("/")[1:]:
        here = _dict(here).get(part)
    return {**_dict(here), **prop}


def _told(error: Exception) -> str:
    words = str(error).partition("\n")[0].rstrip(".")
    return words if isinstance(error, DefinitionError) else f"{type(error).__name__}: {words}"


def _found(rule: str, where: str, message: str) -> Finding:
    return Finding(rule, RULES[rule].severity, where, message, RULES[rule].advice)


def _dict(value: Any) -> Schema:
    return cast("Schema", value) if isinstance(value, dict) else {}
