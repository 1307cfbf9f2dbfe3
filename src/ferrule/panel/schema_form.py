"""The form that a page shows for a tool's parameters, and the arguments that the answers come to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ferrule.core.forms import FormError, FormField, form_fields

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONG = 60
"""A text whose default is longer than this, or has lines, gets a larger field."""
_LONG_NAMES = frozenset({
    "content", "text", "command", "code", "body", "old_string", "new_string", "prompt", "query",
})  # fmt: skip


@dataclass(slots=True)
class PageField:
    """A field with what is written in it, and what is wrong with that."""

    field: FormField
    text: str
    problem: str = ""

    @property
    def key(self) -> str:
        """Its name in the form, where others have theirs."""
        return f"argument.{self.field.name}"

    @property
    def choices(self) -> list[str]:
        """What can be selected; none where something is typed."""
        if self.field.kind == "boolean":
            return ["true", "false"]
        return [one.title for one in self.field.choices] if self.field.kind == "one" else []

    @property
    def is_long(self) -> bool:
        """Whether it takes several lines."""
        if self.field.kind != "text":
            return self.field.kind in ("many", "lines", "json")
        longest = self.field.schema.get("maxLength")
        is_long = len(self.text) > _LONG or "\n" in self.text or (isinstance(longest, int) and longest > 500)
        return is_long or self.field.name in _LONG_NAMES


def form_of(schema: Any) -> list[PageField]:
    """The fields for a tool's parameters, with their defaults."""
    return [PageField(one, one.written(one.schema.get("default"))) for one in form_fields(schema)]


def arguments_of(
    schema: Any, given: Mapping[str, str], words: Mapping[str, str]
) -> tuple[dict[str, Any], list[PageField]]:
    """The arguments that a form's fields say, and the fields with what was written and what is wrong with it.

    An empty field that is not required is left out. `words` are those for the codes of `FormError` and `required`.
    """
    arguments: dict[str, Any] = {}
    fields = form_of(schema)
    for one in fields:
        one.text = given.get(one.key, "").replace("\r\n", "\n")
        is_text = one.field.kind == "text"
        if one.text if is_text else one.text.strip():
            try:
                arguments[one.field.name] = one.field.read(one.text)
            except FormError as error:
                one.problem = words[error.code]
        elif one.field.required and is_text:
            arguments[one.field.name] = ""
        elif one.field.required:
            one.problem = words["required"]
    return arguments, fields
