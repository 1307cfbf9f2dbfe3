"""The smallest pictures of each kind that models can look at."""

from __future__ import annotations

import base64
import zlib


def _chunk(name: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")


def _segment(mark: int, data: bytes) -> bytes:
    return bytes((0xFF, mark)) + (len(data) + 2).to_bytes(2, "big") + data


PNG = (
    b"\x89PNG\r\n\x1a\n"
    + _chunk(b"IHDR", bytes((0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0)))
    + _chunk(b"IDAT", zlib.compress(b"\0\0"))
    + _chunk(b"IEND", b"")
)
THUMBNAIL = b"\xff\xd8 a small picture \xff\xd9"
JPEG = b"\xff\xd8" + _segment(0xE1, THUMBNAIL) + _segment(0xDA, b"\1\1\0\0\x3f\0") + b"\x12\xff\0\x34 scan \xff\xd9"
GIF = base64.b64decode("R0lGODlhAQABAIABAP///wAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw==")
_VP8L = base64.b64decode("UklGRh4AAABXRUJQVlA4TBEAAAAvAAAAAAfQ//73v/+BiOh/AAA=")
WEBP = b"RIFF" + (len(_VP8L) - 8).to_bytes(4, "little") + _VP8L[8:]
WHOLE = {"image/png": PNG, "image/jpeg": JPEG, "image/gif": GIF, "image/webp": WEBP}
