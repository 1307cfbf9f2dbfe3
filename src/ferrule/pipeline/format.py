"""Stage six: a value becomes bounded text for the model and for the user. Also the cache of results (P7)."""

from __future__ import annotations

import copy
import hashlib
import logging
import threading
import time
from collections import OrderedDict
from dataclasses import replace
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import DefinitionError, ErrorKind, Stage, StoppedError
from ferrule.core.languages import in_language
from ferrule.core.phrases import Phrase, joined, phrase
from ferrule.core.problems import InvalidParamsError
from ferrule.core.result import Attachment, ErrorInfo, Output, ToolResult, words_for_attached
from ferrule.core.shown_text import cut, head_and_tail, visible, well_formed
from ferrule.pipeline.cleaning import clean_exception, clean_text
from ferrule.pipeline.validate import listed_problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.core.call import Limits
    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation, Tool
    from ferrule.pipeline.stages import Call


logger = logging.getLogger("ferrule.calls")

_DISPLAY = 200
_ERROR = 20_000
_LARGE = 10**400
_SHOWN_PROBLEMS = 5
WORK_IS_DONE = phrase("It has already taken effect; calling it again would repeat it.")
_PLAIN = frozenset({str, int, float, bool, dict, list, type(None)})


def format_value(invocation: Invocation, value: Any, limits: Limits) -> ToolResult:
    """The result of a call that ran."""
    tool = invocation.tool
    if tool.checks_output and type(value) not in tool.exact_outputs:
        value = fitted(tool, value)
    if type(value) in _PLAIN:  # nearly all values
        text, display = _own_words(tool, value) if tool.has_words else (None, None)
        if text is None:
            text = value if type(value) is str else _words_for(tool.name, value, [])
        return _bounded(invocation, text, display, value, {}, [], limits)
    if isinstance(value, ToolResult):  # another tool's result, passed on
        value = cast("ToolResult", value)
        passed_on = _bounded(
            invocation, value.llm_content, value.display_content, value.data, dict(value.metadata),
            list(value.attachments), limits,
        )  # fmt: skip
        passed_on.success, passed_on.error = value.success, value.error
        if not value.success and value.error is None:
            passed_on.error = ErrorInfo(ErrorKind.EXECUTION, passed_on.llm_content)
        return passed_on
    text: str | None = None
    display: str | None = None
    metadata: dict[str, Any] = {}
    attachments: list[Attachment] = []
    if isinstance(value, Output):
        text, display = value.llm_content, value.display_content
        metadata, attachments = dict(value.metadata), list(value.attachments)
        for field, said in (("llm_content", text), ("display_content", display)):
            if said is not None and not isinstance(said, str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise _not_text(tool.name, phrase("the `{field}` of its Output is", field=field), said)
        data: Any = cast("Output", value).data
        value = data if data is not None else text
    elif isinstance(value, Attachment):
        attachments, value = [value], None
    elif isinstance(value, (bytes, bytearray)):
        attachments, value = [Attachment("application/octet-stream", bytes(value))], None
    if tool.has_words and (text is None or display is None):
        own_text, own_display = _own_words(tool, value)
        text, display = text if text is not None else own_text, display if display is not None else own_display
    if text is None:
        text = _words_for(tool.name, value, attachments)
    return _bounded(invocation, text, display, value, metadata, attachments, limits)


def fitted(tool: Tool[Any], value: Any) -> Any:
    """The value, or the data of an `Output` or `ToolResult`, checked against the type that the tool declares."""
    said = value
    if isinstance(value, ToolResult):
        passed_on = cast("ToolResult", value)
        if not passed_on.success:
            return passed_on
        said = passed_on.data
    elif isinstance(value, Output):
        whole = cast("Output[Any]", value)
        said = whole.data if whole.data is not None else whole.llm_content
    try:
        fitting = tool.fit_output(said)
    except InvalidParamsError as invalid:
        raise _misfit(tool, invalid) from None
    except DefinitionError as error:
        reason = str(error).removeprefix(f"`{tool.name}`: ")
        message = phrase(
            "`{tool}` ran, but what it returned cannot be checked: {reason}", tool=tool.name, reason=reason
        )
        raise StoppedError(Stage.FORMAT, ErrorKind.EXECUTION, message, WORK_IS_DONE) from None
    if fitting is said:
        return cast("Any", value)
    return replace(cast("Any", value), data=fitting) if isinstance(value, (Output, ToolResult)) else fitting


def _misfit(tool: Tool[Any], invalid: InvalidParamsError) -> StoppedError:
    """The early exit of a call whose tool returned something else than it declares."""
    listed = [listed_problem(problem) for problem in invalid.problems[:_SHOWN_PROBLEMS]]
    told = [
        phrase("`{path}`: {message}", path=one["path"], message=one["message"]) if problem.path else one["message"]
        for one, problem in zip(listed, invalid.problems, strict=False)
    ]
    if (more := len(invalid.problems) + invalid.more - len(told)) > 0:
        told.append(phrase("and {count} more", count=f"{more:,}"))
    return StoppedError(
        Stage.FORMAT,
        ErrorKind.EXECUTION,
        phrase(
            "`{tool}` ran, but what it returned does not fit its declared type: {problems}.",
            tool=tool.name,
            problems=clean_text(joined("; ", told)),
        ),
        joined(" ", [phrase("This is a bug in the tool, not a problem with the arguments."), WORK_IS_DONE]),
        {"problems": listed},
    )


def _bounded(
    invocation: Invocation,
    text: str,
    display: str | None,
    value: Any,
    metadata: dict[str, Any],
    attachments: list[Attachment],
    limits: Limits,
) -> ToolResult:
    """The result with bounded text that can be encoded, and with notes about repairs and cuts."""
    tool = invocation.tool
    if not text.isascii():
        text = well_formed(text)
    most = tool.max_result or limits.result_chars
    if len(text) > most:
        metadata["characters"] = len(text)
        text, left_out = head_and_tail(text, most)
        metadata["characters_left_out"] = metadata.get("characters_left_out", 0) + left_out
        attachments = [replace(one, after=None) for one in attachments]  # the text around them may be missing
    display = _first_line(text) if display is None else cut(well_formed(display), most)
    if invocation.repairs:
        metadata["repairs"] = list(invocation.repairs)
    return ToolResult(invocation.call_id, tool.name, True, text, display, value, None, metadata, attachments)


def format_stopped(call_id: str, tool: str, stopped: StoppedError, language: str = "en") -> ToolResult:
    """The result of a call that ended early. Its line for the user is in their language."""
    message = _words(stopped.message)
    suggestion = _words(stopped.suggestion) if stopped.suggestion else None
    error = ErrorInfo(stopped.kind, message, stopped.details, suggestion)
    metadata = {"stage": str(stopped.stage)}
    display = _first_line(in_language(stopped.display or message, language))
    return ToolResult(call_id, tool, False, error.words, display, None, error, metadata, [])


def _words(text: str) -> str:
    """A message for the model and the user, bounded and without hidden characters."""
    seen = visible(text)
    if seen is not text and isinstance(text, Phrase):
        seen = text.mapped(visible)
    return cut(seen, _ERROR)


def with_notes(result: ToolResult, notes: Sequence[str]) -> ToolResult:
    """The same result with notes added, such as that the history was lost."""
    words = "\n".join([result.llm_content, *(f"[{visible(note)}]" for note in notes)])
    return replace(result, llm_content=words, metadata={**result.metadata, "notes": list(notes)})


def _own_words(tool: Tool[Any], value: Any) -> tuple[str | None, str | None]:
    return _said_by(tool, "render", value), _said_by(tool, "display", value)


def _said_by(tool: Tool[Any], method: str, value: Any) -> str | None:
    """The tool's own text for a result. Errors name the method it came from."""
    try:
        said: Any = getattr(tool, method)(value)
    except Exception as error:
        logger.info("`%s` of tool %s failed", method, tool.name, exc_info=error)
        raise unformattable(tool.name, error, phrase("its `{method}` failed", method=method)) from error
    if said is None or isinstance(said, str):
        return said
    if iscoroutine(said):
        said.close()
    raise _not_text(tool.name, phrase("its `{method}` returned", method=method), said)


def _not_text(tool: str, what: str, said: Any) -> StoppedError:
    kind = type(cast("object", said)).__name__
    return StoppedError(
        Stage.FORMAT,
        ErrorKind.EXECUTION,
        phrase("`{tool}` ran, but {what} {kind}, not text.", tool=tool, what=what, kind=kind),
        WORK_IS_DONE,
    )


def unformattable(
    tool: str, error: Exception, why: str = phrase("its result could not be turned into text")
) -> StoppedError:
    """The early exit of a call that ran, and whose result cannot be formatted."""
    message = phrase("`{tool}` ran, but {why}. {error}", tool=tool, why=why, error=clean_exception(error))
    stopped = StoppedError(Stage.FORMAT, ErrorKind.EXECUTION, message, WORK_IS_DONE)
    stopped.crash = error
    return stopped


def _words_for(tool: str, value: Any, attachments: list[Attachment]) -> str:
    if isinstance(value, str):
        return value
    if type(value) is int and -_LARGE < value < _LARGE:
        return str(value)
    if value is None:
        if not attachments:
            return "Done. There is no output."
        return words_for_attached(attachments)
    from ferrule.core.params import NO_JSON_FORM, to_words, unfit_part

    try:
        return to_words(value)
    except NO_JSON_FORM as error:
        name, part = type(value).__name__, unfit_part(error)
        if part and part != f"a {name}":
            name = f"{name} (holding {part})"
        raise StoppedError(
            Stage.FORMAT,
            ErrorKind.EXECUTION,
            phrase("`{tool}` ran, but gave a {name} that has no JSON form.", tool=tool, name=name),
            WORK_IS_DONE,
            {"reason": clean_text(str(error))},
        ) from None


def _first_line(text: str) -> str:
    if len(text) <= _DISPLAY and "\n" not in text:
        return text if text == (bare := text.strip()) else bare  # the text itself, if it may be a phrase
    return cut(text[: 4 * _DISPLAY].lstrip().partition("\n")[0].rstrip(), _DISPLAY)


class ResultCache:
    """The newest results of tools with `cache`, each for as long as its tool allows (P7)."""

    def __init__(self, size: int = 1024) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], tuple[float, ToolResult]] = OrderedDict()

    def key(self, invocation: Invocation, session: Session) -> tuple[Any, ...]:
        """What two calls must have in common to share a result. The tool object is part of it, so that a replaced tool
        doesn't share the results of the old one.
        """
        tool = invocation.tool
        params = hashlib.blake2b(tool.params.dump(invocation.params)).digest()  # may hold secrets
        place = (str(session.workspace), str(session.directory))
        return (tool, tool.version, params, session.caller, place)

    def get(self, key: tuple[Any, ...], invocation: Invocation) -> ToolResult | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            until, result = found
            if time.monotonic() >= until:
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
        again = copy.deepcopy(result)  # the caller may change it
        again.call_id = invocation.call_id
        again.metadata["cached"] = True
        again.metadata.pop("repairs", None)  # those of the call that was cached
        if invocation.repairs:
            again.metadata["repairs"] = list(invocation.repairs)
        return again

    def put(self, key: tuple[Any, ...], result: ToolResult, seconds: float) -> None:
        if not result.success:
            return
        try:
            kept = copy.deepcopy(result)
        except Exception:  # noqa: BLE001 - copying may raise anything
            logger.debug("A result of %s cannot be copied, so it is not kept", result.tool)
            return
        with self._lock:
            self._kept[key] = (time.monotonic() + seconds, kept)
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


def cancelled_stop(call: Call) -> StoppedError:
    """The early exit of a call whose caller was cancelled."""
    name = call.raw.name
    if call.stage is Stage.FORMAT:
        said, suggestion = (
            phrase("`{name}` ran, but the call was cancelled before its result was returned.", name=name),
            WORK_IS_DONE,
        )
    else:
        said, suggestion = phrase("`{name}` did not finish.", name=name), None
        said = joined(" ", [said, phrase("It was cancelled.")])
    return StoppedError(call.stage, ErrorKind.CANCELLED, said, suggestion)


def broken_stop(call: Call, error: BaseException) -> StoppedError:
    """The early exit of a call that code of the program around it broke: a policy, a hook, an asker, a tracer."""
    name, why = call.raw.name, clean_exception(error, call.session.workspace)
    if call.stage is Stage.FORMAT:
        said, suggestion = (
            phrase("`{name}` ran, but the program around it failed. {error}", name=name, error=why),
            WORK_IS_DONE,
        )
    else:
        said = phrase("`{name}` was stopped: the program around it failed. {error}", name=name, error=why)
        suggestion = phrase("This is not about the arguments; the same call may work later.")
    stopped = StoppedError(call.stage, ErrorKind.UNKNOWN, said, suggestion)
    stopped.crash = error
    return stopped
