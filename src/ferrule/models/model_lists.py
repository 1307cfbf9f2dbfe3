"""Reads the lists of models that providers give, and leaves out those that cannot chat."""

from __future__ import annotations

import re
from typing import Any

from ferrule.models.loose_json import items, words

_NO_CHAT = re.compile(
    r"embed|whisper|transcribe|(?:^|[-/])tts|[-/]tts|dall-e|image|moderation|realtime|[-/]audio|^sora|^veo|^imagen"
    r"|^lyria|babbage|davinci|rerank|guard|-live|ocr|^aqa$|robotics",
    re.IGNORECASE,
)


def chat_names(listed: Any, key: str) -> list[str]:
    """The names under `key`, in order of the alphabet, but for embeddings, pictures, sounds and the like."""
    names = {words(one.get(key)) for one in items(listed)}
    return sorted(name for name in names if name and not _NO_CHAT.search(name))
