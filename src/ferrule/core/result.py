"""What a call gives back: words for the model, words for the person, typed data, or an error."""

from __future__ import annotations

import json
from collections import UserString
from collections.abc import Mapping, Sequence, Set, ValuesView
from dataclasses import dataclass, field
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any, Generic, cast

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from ferrule.core.errors import ErrorKind

    D = TypeVar("D", default=Any)
else:
    from typing import TypeVar

    D = TypeVar("D")


@dataclass(slots=True)
class Attachment:
    """Content that is not text: an image, a sound, a file, or a link to one.

    Either `data` (bytes) or `uri` is set. Providers that cannot carry an attachment get a line of text instead.
    """

    media_type: str
    data: bytes | None = None
    uri: str | None = None
    name: str | None = None
    details: Mapping[str, Any] | None = None
    """What else its source says of it, such as the title and the size of a link; only some can pass it on."""
    after: int | None = None
    """How many characters of the words for the model stand before it, up to the end of a line; None: all of them."""


def words_for_attached(attachments: Sequence[Attachment]) -> str:
    """Words for a result that has nothing but attachments: a line for each."""
    return "\n".join(
        f"[{one.media_type}, {len(one.data):,} bytes]" if one.data is not None else f"[{one.media_type}: {one.uri}]"
        for one in attachments
    )


SUGGESTION = "\n\nSuggestion: "
"""What stands between an error's message and its suggestion, so that the two can be told apart again."""


@dataclass(slots=True)
class ErrorInfo:
    """Why a call failed, in a form both a program and a model can act on."""

    kind: ErrorKind
    message: str
    details: Mapping[str, Any] | None = None
    suggestion: str | None = None

    @property
    def words(self) -> str:
        """The error as a model reads it."""
        text = "".join(("Error (", self.kind, "): ", self.message))
        return "".join((text, SUGGESTION, self.suggestion)) if self.suggestion else text

    def to_dict(self) -> dict[str, Any]:
        return {
            "type": self.kind.value,
            "message": self.message,
            "details": self.details,
            "suggestion": self.suggestion,
        }


@dataclass(slots=True)
class Output(Generic[D]):
    """What a tool returns when a plain value is not enough.

    `data` is the typed value: a tool that returns `Output[Forecast]` promises a `Forecast`. `llm_content` and
    `display_content` replace the words that would be made from it.
    """

    data: D | None = None
    llm_content: str | None = None
    display_content: str | None = None
    attachments: list[Attachment] = field(default_factory=list[Attachment])
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])


def noted(data: D, notes: Sequence[str]) -> D:
    """Data with its notes; without any it has no `notes`."""
    if notes:
        cast("Any", data)["notes"] = list(notes)
    return data


def note_lines(data: Mapping[str, Any]) -> list[str]:
    """The notes of such data, as a model reads them below its text."""
    return [f"[{note}]" for note in data.get("notes", ())]


@dataclass(slots=True, frozen=True)
class Progress:
    """How far a running call has come."""

    call_id: str
    tool: str
    done: float
    total: float | None = None
    message: str = ""


@dataclass(slots=True, frozen=True)
class PartialOutput:
    """A piece of output from a call that is still running; `dropped` pieces before it were not delivered."""

    call_id: str
    tool: str
    content: object
    dropped: int = 0


@dataclass(slots=True)
class ToolResult(Generic[D]):
    """The one answer to one call. `data` is what its tool returned, typed where the tool itself was run."""

    call_id: str
    tool: str
    success: bool
    llm_content: str
    display_content: str
    data: D = None  # pyright: ignore[reportAssignmentType] - also where the call failed
    error: ErrorInfo | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    attachments: list[Attachment] = field(default_factory=list[Attachment])

    @property
    def after_error(self) -> str:
        """What the model reads below the error, such as the output of a command that failed."""
        words = self.error.words if self.error is not None else ""
        return self.llm_content[len(words) :] if self.llm_content.startswith(words) else ""

    def to_dict(self) -> dict[str, Any]:
        """The document that `--json` prints: plain JSON values only."""
        from pydantic_core import to_jsonable_python

        return finite(to_jsonable_python(self._document(), fallback=plainly, bytes_mode="base64"))

    def to_json(self) -> str:
        """The same document as JSON text in ASCII."""
        import pydantic_core  # names of a package take longer to import again than the package

        try:
            text = pydantic_core.to_json(
                self._document(), fallback=plainly, bytes_mode="base64", inf_nan_mode="strings"
            )
        except pydantic_core.PydanticSerializationError:  # half a surrogate pair, or what `to_dict` refuses as well
            text = None
        return text.decode() if text is not None and text.isascii() else json.dumps(self.to_dict())

    def _document(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "success": self.success,
            "llm_content": self.llm_content,
            "display_content": self.display_content,
            "data": self.data,
            "error": self.error.to_dict() if self.error else None,
            "metadata": {"call_id": self.call_id, "tool": self.tool, **self.metadata},
        }
        if self.attachments:
            document["attachments"] = [_attached(one) for one in self.attachments]
        return document


def plainly(value: Any) -> Any:
    """What stands in JSON for a value that has no form there: a number or an array of NumPy and its like as Python's
    own, what is like a dict or a list (`range(3)`, `found.keys()`) as one, anything else as text.
    """
    to_list: Any = getattr(cast("Any", type(value)), "tolist", None)
    if callable(to_list):
        return to_list(value)
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, (Sequence, Set, ValuesView)) and not isinstance(value, UserString):
        return list(cast("Sequence[Any]", value))
    return str(value)


def _attached(attachment: Attachment) -> dict[str, Any]:
    told: dict[str, Any] = {"details": attachment.details} if attachment.details else {}
    if attachment.after is not None:
        told["after"] = attachment.after
    named = {"media_type": attachment.media_type, "data": attachment.data}
    return {**named, "uri": attachment.uri, "name": attachment.name, **told}


def finite(value: Any) -> Any:
    """The same with numbers that JSON has no form for as words."""
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: finite(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [finite(item) for item in cast("list[Any]", value)]
    return value
