"""A script for the scripted model in a JSON file, so that the command line can be tested and shown without a model.

A list of replies: words, or an object with `text`, `calls` (each with `name`, `arguments` and, where wanted, `id`),
`thinking`, `stop`, `usage` (`input_tokens`, `output_tokens`, `cost`), `wait` (seconds before it answers), or with
`error` (`fault` and `message`) to fail.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.model import ModelError, ModelFault, Usage
from ferrule.testing.scripted_caller import call
from ferrule.testing.scripted_model import Said, ScriptedModel

if TYPE_CHECKING:
    from pathlib import Path

    from ferrule.core.model import ModelRequest
    from ferrule.testing.scripted_model import Answer, Reply

_KEYS = {"text", "calls", "thinking", "stop", "usage", "wait", "error"}


class ScriptError(ValueError):
    """A script cannot be read; says where and why."""


def scripted_model(path: Path) -> ScriptedModel:
    """The model that a file describes; raises `ScriptError`."""
    try:
        given = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ScriptError(f"The script {path} could not be read: {error.strerror}.") from None
    except ValueError as error:
        raise ScriptError(f"The script {path} is not JSON: {error}.") from None
    if not isinstance(given, list):
        raise ScriptError(f"The script {path} is not a list of replies.")
    replies = [_reply(one, f"{path}, reply {number}") for number, one in enumerate(cast("list[Any]", given), 1)]
    return ScriptedModel(replies, name=f"scripted/{path.stem}")


def _reply(given: Any, place: str) -> Reply:
    if isinstance(given, str):
        return given
    if not isinstance(given, dict) or not _KEYS.issuperset(cast("dict[str, Any]", given)):
        raise ScriptError(f"{place}: a reply is text or an object with {', '.join(sorted(_KEYS))}.")
    form = cast("dict[str, Any]", given)
    try:
        answer = _answer(form)
        seconds = float(form.get("wait", 0))
    except (KeyError, TypeError, ValueError) as error:
        raise ScriptError(f"{place}: {type(error).__name__}: {error}.") from None
    if not seconds:
        return answer

    async def later(request: ModelRequest) -> Answer:
        await asyncio.sleep(seconds)
        return answer

    return later


def _answer(form: dict[str, Any]) -> Answer:
    if error := form.get("error"):
        return ModelError(ModelFault(error["fault"]), error["message"], suggestion=error.get("suggestion", ""))
    calls = tuple(call(one["name"], one.get("arguments"), id=one.get("id")) for one in form.get("calls", ()))
    usage = Usage(**form["usage"]) if "usage" in form else None
    return Said(form.get("text", ""), calls, form.get("thinking", ""), form.get("stop"), usage)
