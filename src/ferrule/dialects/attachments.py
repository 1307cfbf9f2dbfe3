"""Attachments as text on the wire: base64, data URLs, and back."""

from __future__ import annotations

import binascii
from base64 import b64decode, b64encode
from typing import Any
from urllib.parse import unquote_to_bytes

from ferrule.dialects.payload import DialectError

IMAGES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
"""The image types that every vision model reads."""


def to_base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def from_base64(text: Any, where: str) -> bytes:
    if isinstance(text, bytes):
        return text
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise DialectError(f"{where}: expected base64 text.") from None


def data_url(media_type: str, data: bytes) -> str:
    return f"data:{media_type};base64,{to_base64(data)}"


def from_data_url(url: str, where: str) -> tuple[str, bytes]:
    head, comma, body = url.removeprefix("data:").partition(",")
    if not url.startswith("data:") or not comma:
        raise DialectError(f"{where}: expected a data URL, such as data:image/png;base64,….")
    if not head.endswith(";base64"):
        return head or "text/plain", unquote_to_bytes(body)
    return head.removesuffix(";base64"), from_base64(body, where)


def is_web(uri: str | None) -> bool:
    """Whether a provider could fetch it."""
    return uri is not None and uri.startswith(("https://", "http://"))
