"""What a schema expects, in a line that a model can copy from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.core.phrases import glued, joined, phrase
from ferrule.core.problems import SHOWN, one_of, or_list, show
from ferrule.core.schemas import followed, mapping, referred
from ferrule.core.shown_text import flattened

if TYPE_CHECKING:
    from collections.abc import Iterable


_SHOWN_FIELDS = 30
_FORM_CHARS = 1200
_HINT_CHARS = 300
_ABOUT_CHARS = 300
_LEVELS = 4
_PARTS = 400
"""Parts of a schema that are looked at for one form: one that is wide at every level must not take long."""

EXAMPLES: dict[str, tuple[str, str]] = {
    "date": (phrase("a date"), '"2025-01-31"'),
    "date-time": (phrase("a date and time"), '"2025-01-31T14:30:00Z"'),
    "time": (phrase("a time"), '"14:30:00"'),
    "duration": (phrase("a duration"), '"PT1H30M"'),
    "uuid": (phrase("a UUID"), '"123e4567-e89b-42d3-a456-426614174000"'),
    "uuid1": (phrase("a version 1 UUID"), '"c232ab00-9414-11ec-b3c8-9f6bdeced846"'),
    "uuid4": (phrase("a version 4 UUID"), '"123e4567-e89b-42d3-a456-426614174000"'),
    "uri": (phrase("a URL"), '"https://example.org/page"'),
    "multi-host-uri": (phrase("a URL"), '"postgresql://host:5432/name"'),
    "email": (phrase("an email address"), '"ada@example.org"'),
    "name-email": (phrase("an email address"), '"Ada <ada@example.org>"'),
    "ipv4": (phrase("an IPv4 address"), '"192.0.2.1"'),
    "ipv6": (phrase("an IPv6 address"), '"2001:db8::1"'),
    "ipv4network": (phrase("an IPv4 network"), '"192.0.2.0/24"'),
    "ipv6network": (phrase("an IPv6 network"), '"2001:db8::/32"'),
    "ipv4interface": (phrase("an IPv4 interface"), '"192.0.2.1/24"'),
    "ipv6interface": (phrase("an IPv6 interface"), '"2001:db8::1/32"'),
    "ipvanyaddress": (phrase("an IP address"), '"192.0.2.1"'),
    "ipvanynetwork": (phrase("an IP network"), '"192.0.2.0/24"'),
    "ipvanyinterface": (phrase("an IP interface"), '"192.0.2.1/24"'),
    "regex": (phrase("a regular expression"), '"^[a-z]+$"'),
    "base64": (phrase("base64 text"), '"aGVsbG8="'),
    "base64url": (phrase("base64 text for URLs"), '"aGVsbG8="'),
    "zoneinfo": (phrase("a time zone"), '"Europe/Oslo"'),
    "decimal": (phrase("a decimal number"), '"12.50"'),
    "fraction": (phrase("a fraction"), '"3/4"'),
    "complex": (phrase("a complex number"), '"1+2j"'),
    "colour": (phrase("a colour"), '"#ff8800"'),
}
"""What each `format` of a string is called, with a value that fits it."""


class _TooMuchError(Exception):
    """The form would have more parts than are looked at."""


def expected_form(schema: dict[str, Any]) -> str:
    """`{"city": string, "days": integer (optional, default 3)}`; objects inside it as far as there is room."""
    if "properties" not in schema:
        return phrase("arguments that fit its schema")
    if not schema["properties"]:
        return phrase("no arguments: {form}", form="{}")
    return value_form(schema, schema, _FORM_CHARS) or _Form(schema).object(schema, 1)


def value_form(prop: Any, root: dict[str, Any], most: int = _HINT_CHARS) -> str:
    """What a value should look like, as much of it as there is room for; empty where there is no room at all."""
    for levels in range(_LEVELS, -1, -1):
        try:
            form = _Form(root).of(prop, levels)
        except _TooMuchError:
            continue
        if len(form) <= most:
            return form
    return ""


def kind_of(prop: dict[str, Any], root: dict[str, Any]) -> str:
    """What a value should be, as it reads after "expected": `array [integer, …]`, `a date like "2025-01-31"`."""
    prop = followed(prop, root)
    options: Any = prop.get("anyOf") or prop.get("oneOf")
    if isinstance(options, list):
        kinds = [
            kind_of(cast("dict[str, Any]", one), root) for one in cast("list[Any]", options) if isinstance(one, dict)
        ]
        listed = or_list(list(dict.fromkeys(kind for kind in kinds if kind)))
        return listed if kinds and len(listed) <= _HINT_CHARS else ""
    choices = choices_of(prop, root)
    if len(choices) > 1:
        return one_of(choices)
    kind = prop.get("type")
    if kind == "string" and prop.get("format") in EXAMPLES:
        return example_of(prop["format"])
    form = value_form(prop, root)
    if kind in ("array", "object") and "const" not in prop:
        return kind if form in ("", kind, "[any, …]") else joined(" ", [kind, form])
    if isinstance(kind, list):
        return or_list(form.split(" | "))
    return "" if form == "any" else form


def hint(prop: dict[str, Any], root: dict[str, Any]) -> str:
    """What a missing field should hold: ` (expected number: How much.)`; empty where nothing is said of it."""
    kind = kind_of(prop, root)
    about = flattened(str(prop.get("description") or ""), _ABOUT_CHARS)
    if kind and about:
        return phrase(" (expected {kind}: {about})", kind=kind, about=about)
    return phrase(" (expected {kind})", kind=kind) if kind else ""


def choices_of(prop: Any, root: dict[str, Any]) -> tuple[Any, ...]:
    """The few values that a field may have, where its schema says so."""
    prop = followed(prop, root)
    listed: Any = prop.get("enum")
    if isinstance(listed, list):
        return tuple(cast("list[Any]", listed))
    return (prop["const"],) if "const" in prop else ()


def example_of(form: str) -> str:
    """`a date like "2025-01-31"` for the name of a format; what is not known stays a name."""
    known = EXAMPLES.get(form)
    if known is None:
        return phrase("text of the format {format}", format=form)
    return phrase("{kind} like {example}", kind=known[0], example=known[1])


class _Form:
    """Writes one form; counts the parts it looked at."""

    __slots__ = ("_around", "_left", "_root")

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._left = _PARTS
        self._around: list[str] = []

    def of(self, prop: Any, levels: int) -> str:
        """A value's form, with objects shown so many levels deep."""
        self._left -= 1
        if self._left < 0:
            raise _TooMuchError
        if not isinstance(prop, dict):
            return "any"
        prop = cast("dict[str, Any]", prop)
        if "$ref" not in prop:
            return self._plain(prop, levels)
        ref = str(prop["$ref"])
        if ref in self._around:  # an object that holds others of its own kind
            return "object"
        self._around.append(ref)
        form = self.of(mapping(referred(ref, self._root)), levels)
        self._around.pop()
        return form

    def _plain(self, prop: dict[str, Any], levels: int) -> str:
        if "enum" in prop and isinstance(prop["enum"], list):
            return _row(" | ", [show(choice) for choice in cast("list[Any]", prop["enum"])[:SHOWN]])
        if "const" in prop:
            return show(prop["const"])
        options: Any = prop.get("anyOf") or prop.get("oneOf")
        if "type" not in prop and isinstance(options, list):
            return _row(" | ", dict.fromkeys(self.of(one, levels) for one in cast("list[Any]", options)))
        kind = prop.get("type")
        if kind == "array":
            return self._array(prop, levels)
        if kind == "string" and prop.get("format") in EXAMPLES:
            return phrase("{kind} like {example}", kind="string", example=EXAMPLES[prop["format"]][1])
        if kind == "object" or (kind is None and "properties" in prop):
            return self.object(prop, levels)
        if isinstance(kind, list):
            return " | ".join(str(one) for one in cast("list[Any]", kind))
        return kind if isinstance(kind, str) else "any"

    def object(self, prop: dict[str, Any], levels: int) -> str:
        """An object with its fields, or what its values are where it has no fields of its own."""
        properties: Any = prop.get("properties")
        if levels == 0:
            return "object"
        if not isinstance(properties, dict) or not properties:
            values: Any = prop.get("additionalProperties")
            inner = self.of(values, levels - 1) if isinstance(values, dict) and values else "any"
            return "object" if inner == "any" else glued("{string: ", inner, "}")
        named = cast("dict[str, Any]", properties)
        required: Any = prop.get("required", ())
        fields: list[str] = [
            glued(f'"{name}": ', self.of(one, levels - 1), _optional(one, name in required))
            for name, one in list(named.items())[:_SHOWN_FIELDS]
        ]
        if len(named) > _SHOWN_FIELDS:
            fields.append("…")
        return glued("{", _row(", ", fields), "}")

    def _array(self, prop: dict[str, Any], levels: int) -> str:
        first: Any = prop.get("prefixItems")
        if not isinstance(first, list) or not first:
            return glued("[", self.of(prop.get("items"), levels), ", …]")
        places = cast("list[Any]", first)
        forms = [
            glued(self.of(one, levels), _optional(one, at < prop.get("minItems", 0))) for at, one in enumerate(places)
        ]
        return glued("[", _row(", ", forms), "]" if prop.get("maxItems") == len(places) else ", …]")


def _optional(prop: Any, required: bool) -> str:
    if required:
        return ""
    if isinstance(prop, dict) and "default" in prop:
        return phrase(" (optional, default {value})", value=show(cast("Any", prop["default"])))
    return phrase(" (optional)")


def _row(mark: str, forms: Iterable[str]) -> str:
    """Forms with a mark between them that is part of the notation, and so the same in every language."""
    pieces = [piece for form in forms for piece in (mark, form)]
    return glued(*pieces[1:])
