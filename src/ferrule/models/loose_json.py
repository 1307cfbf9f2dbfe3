"""Reads JSON that a server sent without trusting its shape: what is not as expected counts as not there."""

from __future__ import annotations

import re
from typing import Any, cast

Item = dict[str, Any]


def an_item(value: Any) -> Item:
    return cast("Item", value) if isinstance(value, dict) else {}


def items(value: Any) -> list[Item]:
    """The objects in a list."""
    return [cast("Item", one) for one in cast("list[Any]", value) if isinstance(one, dict)] if _is_list(value) else []


def words(value: Any) -> str:
    return value if isinstance(value, str) else ""


def count(value: Any) -> int:
    """A number of tokens; never below zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) > 1e15:
        return 0
    return max(0, int(value))


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


# Reads the lists of models that providers give, and leaves out those that cannot chat.


_NO_CHAT = re.compile(
    r"embed|whisper|transcribe|(?:^|[-/])tts|[-/]tts|dall-e|image|moderation|realtime|[-/]audio|^sora|^veo|^imagen"
    r"|^lyria|babbage|davinci|rerank|guard|-live|ocr|^aqa$|robotics",
    re.IGNORECASE,
)


def chat_names(listed: Any, key: str) -> list[str]:
    """The names under `key`, in order of the alphabet, but for embeddings, pictures, sounds and the like."""
    names = {words(one.get(key)) for one in items(listed)}
    return sorted(name for name in names if name and not _NO_CHAT.search(name))
