"""How things go wrong: each failure carries its kind from birth."""

from __future__ import annotations

import errno
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Mapping


class ErrorKind(StrEnum):
    """What kind of failure a result reports; stable values that programs may match on."""

    VALIDATION = "validation_error"
    EXECUTION = "execution_error"
    PERMISSION = "permission_error"
    TIMEOUT = "timeout_error"
    NOT_FOUND = "not_found_error"
    CANCELLED = "cancelled_error"
    DEFERRED = "deferred_error"  # not run yet: it waits for an approval or for a result from elsewhere
    UNKNOWN = "unknown_error"


class Stage(StrEnum):
    """The seven stages of a call, in order."""

    LOOKUP = "lookup"
    VALIDATE = "validate"
    AUTHORISE = "authorise"
    CONFIRM = "confirm"
    EXECUTE = "execute"
    FORMAT = "format"
    RECORD = "record"


class StoppedError(Exception):
    """The one way out of a call before its end; it becomes a result in `pipeline/run.py` alone."""

    __slots__ = ("crash", "details", "display", "kind", "message", "stage", "suggestion")

    def __init__(
        self,
        stage: Stage,
        kind: ErrorKind,
        message: str,
        suggestion: str | None = None,
        details: Mapping[str, Any] | None = None,
        display: str = "",
    ) -> None:
        """`display` is what the user sees in one line, unless that is the first line of the message."""
        Exception.__init__(self, message)
        self.stage = stage
        self.kind = kind
        self.message = message
        self.suggestion = suggestion
        self.details = details
        self.display = display
        self.crash: BaseException | None = None
        """The exception that caused it and that was not meant for the model; its text is `error` in the message."""


def out_of_resources(error: BaseException) -> bool:
    """Whether the machine is at fault, and no code: it has no open files, processes or memory left to give."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM)


class ToolError(Exception):
    """Raise this in a tool to fail with a message that the model will read.

    Any other exception fails the call too, but its message is cleaned first because
    nobody wrote it for a model.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ErrorKind | str = ErrorKind.EXECUTION,
        suggestion: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = ErrorKind(kind)
        self.suggestion = suggestion
        self.details = details


class DefinitionError(TypeError):
    """A tool was declared in a way that cannot work; raised to its author, never to a model."""


class MissingExtraError(ImportError):
    """A part of Ferrule was used whose optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(
            phrase(
                "{what} needs an optional part of Ferrule. Install it: pip install 'ferrule[{extra}]'",
                what=what,
                extra=extra,
            )
        )
        self.extra = extra
