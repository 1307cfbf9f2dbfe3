"""Where JSON Schema keywords hold further schemas, and how a keyword is said in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Iterable

ONE_SCHEMA = frozenset({
    "additionalItems", "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
SCHEMA_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
SCHEMA_MAPS = frozenset({"dependentSchemas", "patternProperties", "properties"})
# In these places `false` means «no more than was listed», which no provider wants written as {"not": {}}.
KEEPS_BOOLEANS = frozenset({
    "additionalItems", "additionalProperties", "items", "unevaluatedItems", "unevaluatedProperties",
})  # fmt: skip
ANNOTATIONS = frozenset({
    "$comment", "default", "deprecated", "description", "examples", "readOnly", "title", "writeOnly",
})  # fmt: skip
# Of no use to a model, so they leave no words behind.
UNSPOKEN = frozenset({
    "$comment", "contentEncoding", "contentMediaType", "contentSchema", "discriminator", "externalDocs",
    "nullable", "readOnly", "title", "writeOnly", "xml",
})  # fmt: skip

_SENTENCES = {
    "const": "Must be {}.",
    "default": "Default: {}.",
    "dependentRequired": "Fields that need others with them: {}.",
    "enum": "One of: {}.",
    "examples": "Examples: {}.",
    "exclusiveMaximum": "Less than {}.",
    "exclusiveMinimum": "More than {}.",
    "format": "Format: {}.",
    "if": "If it fits {}, further rules apply.",
    "maxItems": "At most {} items.",
    "maxLength": "At most {} characters.",
    "maxProperties": "At most {} fields.",
    "maximum": "At most {}.",
    "minItems": "At least {} items.",
    "minLength": "At least {} characters.",
    "minProperties": "At least {} fields.",
    "minimum": "At least {}.",
    "multipleOf": "A multiple of {}.",
    "not": "Must not fit {}.",
    "oneOf": "Must fit exactly one of {}.",
    "pattern": "Must match the regular expression {}.",
    "patternProperties": "Fields whose names match a pattern: {}.",
    "prefixItems": "Items in this order: {}.",
    "propertyNames": "Field names must fit {}.",
}
_SHORT = 300
_LONG = 10**_SHORT
_LEVELS = 6


def words(keyword: str, value: Any) -> str:
    """A constraint as a sentence for a model; empty where it would say nothing."""
    if keyword in UNSPOKEN or keyword.startswith(("x-", "$")):
        return ""
    if keyword == "default" and value is None:
        return ""
    if keyword == "deprecated":
        return "Deprecated." if value is True else ""
    if keyword == "uniqueItems":
        return "Items must be unique." if value is True else ""
    if keyword == "not" and value == {}:
        return "Must be left out."
    if keyword in ("format", "pattern") and isinstance(value, str):
        return _SENTENCES[keyword].format(f"`{_cut(value)}`")
    if keyword in ("enum", "examples") and isinstance(value, list):
        return _SENTENCES[keyword].format(_cut(", ".join(brief(one) for one in cast("list[Any]", value)[:100])))
    sentence = _SENTENCES.get(keyword)
    if sentence is None:
        return f"{_cut(keyword)}: {brief(value)}."
    if value == 1 and sentence.endswith("s."):
        sentence = sentence.removesuffix("s.") + "."
    return sentence.format(brief(value))


def brief(value: Any) -> str:
    """JSON text of anything, short enough for a sentence; never fails, however deep or odd the value."""
    return _cut(_text(value, _LEVELS))


def _text(value: Any, levels: int) -> str:
    if isinstance(value, (dict, list)) and not levels:
        return "…"
    if isinstance(value, dict):
        fields = list(cast("dict[Any, Any]", value).items())[:20]
        return "{" + _joined(f"{_text(str(key), 0)}: {_text(one, levels - 1)}" for key, one in fields) + "}"
    if isinstance(value, list):
        return "[" + _joined(_text(one, levels - 1) for one in cast("list[Any]", value)[:20]) + "]"
    if isinstance(value, str):
        return '"' + _cut(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int) and abs(value) >= _LONG:
        return f"(a number of more than {_SHORT} digits)"
    return repr(value) if isinstance(value, (int, float)) else f"({type(value).__name__})"


def _joined(parts: Iterable[str]) -> str:
    """As many parts as a sentence has room for; the others are never made."""
    taken: list[str] = []
    length = 0
    for part in parts:
        taken.append(part)
        length += len(part)
        if length > _SHORT:
            break
    return ", ".join(taken)


def _cut(text: str) -> str:
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"
