"""What a cassette holds, and its file: JSON that a person can read and that changes only with its content.

Calls are sorted by tool and arguments, not by time, so that recording the same calls in another order, as parallel
calls do, gives the same file.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import to_jsonable_python

from ferrule.core.result import Attachment, Output, ToolResult

if TYPE_CHECKING:
    from ferrule.core.errors import Stopped

FORMAT = 1
_RECORD_AGAIN = 'Delete it to record again, or open it with mode="record".'


class CassetteError(ValueError):
    """A cassette that cannot be used; says why, and how to get one that can."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TapedAttachment(_Part):
    media_type: str
    data: str | None = None
    """Bytes, in base64."""
    uri: str | None = None
    name: str | None = None
    details: dict[str, Any] | None = None
    after: int | None = None


class TapedResult(_Part):
    """What a call gave back."""

    llm_content: str
    display_content: str
    data: Any = None
    metadata: dict[str, Any] = Field(default_factory=dict)
    attachments: list[TapedAttachment] = Field(default_factory=list[TapedAttachment])

    @classmethod
    def of(cls, result: ToolResult) -> TapedResult:
        return cls(
            llm_content=result.llm_content,
            display_content=result.display_content,
            data=plain(result.data),
            metadata=plain(result.metadata),
            attachments=[TapedAttachment.model_validate(plain(vars_of(one))) for one in result.attachments],
        )

    def result(self, call_id: str, tool: str) -> ToolResult:
        """The result again, for another call."""
        return ToolResult(
            call_id, tool, True, self.llm_content, self.display_content, self.data, None, dict(self.metadata),
            self._attachments(),
        )  # fmt: skip

    def output(self) -> Output:
        """The result as the end of a stream. Without data, the words are those that every empty result gets."""
        words = None if self.data is None else self.llm_content
        return Output(self.data, words, self.display_content, self._attachments(), dict(self.metadata))

    def _attachments(self) -> list[Attachment]:
        from base64 import urlsafe_b64decode

        return [
            Attachment(
                one.media_type,
                None if one.data is None else urlsafe_b64decode(one.data),
                one.uri,
                one.name,
                one.details,
                one.after,
            )
            for one in self.attachments
        ]


class TapedError(_Part):
    """How a call failed."""

    type: str
    message: str
    suggestion: str | None = None
    details: dict[str, Any] | None = None

    @classmethod
    def of(cls, stopped: Stopped) -> TapedError:
        return cls(
            type=stopped.kind.value,
            message=stopped.message,
            suggestion=stopped.suggestion,
            details=plain(stopped.details),
        )


class TapedCall(_Part):
    """One call and its outcome: a result or an error, for a streaming tool after some pieces."""

    tool: str
    version: str
    arguments: Any
    pieces: list[Any] | None = None
    result: TapedResult | None = None
    error: TapedError | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.tool, self.version, canonical(self.arguments))


class CassetteContent(_Part):
    """The whole file."""

    ferrule_cassette: int = FORMAT
    tools: dict[str, dict[str, str]]
    """Each tool's versions with a digest of its parameters, to notice that a tool has changed since."""
    calls: list[TapedCall]


def read_cassette(path: Path) -> CassetteContent:
    """The content of a file; raises `CassetteError` for one that is damaged or newer than this Ferrule."""
    try:
        document: Any = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise CassetteError(f'There is no cassette {path}. Record one with mode="record" or mode="auto".') from None
    except ValueError as error:
        raise CassetteError(f"The cassette {path} is damaged: {error}. {_RECORD_AGAIN}") from None
    version: Any = document.get("ferrule_cassette") if isinstance(document, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(version, int):
        raise CassetteError(f"{path} is not a cassette: it does not say `ferrule_cassette`. {_RECORD_AGAIN}")
    if version > FORMAT:
        raise CassetteError(
            f"The cassette {path} was written by a newer Ferrule: its format is {version}, and this one reads up to "
            f"{FORMAT}. Upgrade Ferrule. {_RECORD_AGAIN}"
        )
    try:
        return CassetteContent.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise CassetteError(f"The cassette {path} is damaged: {where}: {first['msg']}. {_RECORD_AGAIN}") from None


def write_cassette(path: Path, content: CassetteContent) -> None:
    """Write a whole file or none: a run that dies half-way leaves the cassette as it was."""
    document = content.model_dump(exclude_defaults=True) | {"ferrule_cassette": FORMAT}
    ordered = {key: document[key] for key in ("ferrule_cassette", "tools", "calls")}
    # Half a surrogate pair, which UTF-8 cannot hold, becomes the escape that JSON has for it.
    text = json.dumps(ordered, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        file.write(text + b"\n")
    Path(file.name).replace(path)


def plain(value: Any) -> Any:
    """A value as plain JSON values, in the form that `ToolResult.to_dict` gives it."""
    return to_jsonable_python(value, fallback=str, inf_nan_mode="strings", bytes_mode="base64")


def canonical(value: Any) -> str:
    """JSON text that is equal for equal values."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False)


def vars_of(attachment: Attachment) -> dict[str, Any]:
    return {
        "media_type": attachment.media_type,
        "data": attachment.data,
        "uri": attachment.uri,
        "name": attachment.name,
        "details": attachment.details,
        "after": attachment.after,
    }
