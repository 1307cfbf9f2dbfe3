"""What a call is about, in a few words: the tool and the one argument that tells it from others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from ferrule.cli.chatting.visible_text import one_line

if TYPE_CHECKING:
    from ferrule.core.call import RawCall

# The first of these that a call has is what a person knows it by.
_TELLING = (
    "command", "file_path", "filePath", "pattern", "directoryPath", "shell_id", "path", "description", "url", "query",
    "prompt", "name",
)  # fmt: skip
_MOST = 200


def arguments_of(call: RawCall) -> dict[str, Any]:
    """The arguments as far as they can be read; a call that cannot be read at all has none."""
    given = call.arguments
    if isinstance(given, (str, bytes)):
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    return cast("dict[str, Any]", given) if isinstance(given, dict) else {}


def label(call: RawCall) -> str:
    """`Read src/a.py`, `Bash npm test`: safe to show, on one line."""
    arguments = arguments_of(call)
    telling = next((str(arguments[key]) for key in _TELLING if isinstance(arguments.get(key), str)), None)
    if telling is None:
        telling = json.dumps(arguments, ensure_ascii=False) if arguments else ""
    words = one_line(f"{call.name} {telling}"[: _MOST * 4])
    return words if len(words) <= _MOST else f"{words[:_MOST]}…"
