"""What MCP's blocks of content hold besides the content: words about it, and text that is in another place, too.

What a server says of its blocks is passed on only as far as the protocol has it: one odd value must not spoil a result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.core.result import words_for_attached

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ferrule.core.result import Attachment

_AUDIENCES = ("user", "assistant")


def said_of_block(block: Mapping[str, Any], *, of_link: bool = False) -> dict[str, Any]:
    """Its annotations, and for a link its title, description and size, where they are what they should be."""
    told: dict[str, Any] = {}
    if of_link:
        told = {key: block[key] for key in ("title", "description") if isinstance(block.get(key), str)}
        size = block.get("size")
        if type(size) is int and size >= 0:
            told["size"] = size
    if annotations := _annotations(block.get("annotations")):
        told["annotations"] = annotations
    return told


def _annotations(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        return {}
    found = cast("dict[str, Any]", given)
    told: dict[str, Any] = {}
    audience: Any = found.get("audience")
    if isinstance(audience, list) and all(one in _AUDIENCES for one in cast("list[Any]", audience)):
        told["audience"] = audience
    priority = found.get("priority")
    if type(priority) in (int, float) and 0 <= cast("float", priority) <= 1:
        told["priority"] = priority
    if isinstance(found.get("lastModified"), str):
        told["lastModified"] = found["lastModified"]
    return told


def embedded_text(attachments: Sequence[Attachment]) -> str:
    """The text of embedded resources, in words: few providers show a model what is attached, unless it is an image."""
    return "\n\n".join(
        f"[{one.uri}]\n{data.decode(errors='replace')}" if one.uri else data.decode(errors="replace")
        for one, data in _texts(attachments)
    )


def own_words(text: str, attachments: Sequence[Attachment]) -> str:
    """A text without what was only said of the attachments, for whoever gets those themselves: the embedded text at its
    end, or words that stand for none.
    """
    if text == words_for_attached(attachments):
        return ""
    embedded = embedded_text(attachments)
    if not embedded or not text.endswith(embedded) or not all(_is_utf8(data) for _, data in _texts(attachments)):
        return text
    rest = text[: len(text) - len(embedded)]
    return rest.removesuffix("\n\n") if rest.endswith("\n\n") or not rest else text


def _texts(attachments: Sequence[Attachment]) -> list[tuple[Attachment, bytes]]:
    return [(one, one.data) for one in attachments if one.data is not None and one.media_type.startswith("text/")]


def _is_utf8(data: bytes) -> bool:
    """Whether it travels as text; in another encoding it is base64, which no model can read."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
