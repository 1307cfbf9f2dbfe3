"""Tells a picture whose end is missing, as a broken download or a program that is still writing leaves it.

Providers refuse a request with such a picture in it, and say little of why. Only what the format itself says is
counted: lengths that reach past the end, and an end mark that never comes. What is wrong with a picture otherwise
cannot be told without decoding it, and a picture that cannot be followed counts as whole.
"""

from __future__ import annotations

_JPEG_SCAN, _JPEG_END = 0xDA, b"\xff\xd9"
_JPEG_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_GIF_EXTENSION, _GIF_IMAGE = 0x21, 0x2C
_GIF_HAS_COLOURS = 0x80


def is_cut_off(kind: str, data: bytes) -> bool:
    """Whether a picture of this media type ends too soon; False for types that say nothing of it."""
    match kind:
        case "image/png":
            return _is_cut_png(data)
        case "image/jpeg":
            return _is_cut_jpeg(data)
        case "image/gif":
            return _is_cut_gif(data)
        case "image/webp":
            return int.from_bytes(data[4:8], "little") + 8 > len(data)
        case _:
            return False


def _is_cut_png(data: bytes) -> bool:
    """A chunk is its length, its name, as many bytes and a checksum; the last one is called IEND."""
    at = 8
    while at + 12 <= len(data):
        if data[at + 4 : at + 8] == b"IEND":
            return False
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    return True


def _is_cut_jpeg(data: bytes) -> bool:
    """Segments with a length each, up to the scan, after which the end mark comes. One before it is a thumbnail's."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return False
        mark = data[at + 1]
        if mark == _JPEG_SCAN:
            return data.find(_JPEG_END, at) < 0
        if mark == 0xFF:
            at += 1  # a byte that only fills
        elif mark in _JPEG_WITHOUT_LENGTH:
            at += 2
        elif mark == _JPEG_END[1]:
            return False
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return True  # before any scan


def _is_cut_gif(data: bytes) -> bool:
    """Blocks one after the other, and a byte that says that no more come. Some programs leave out that byte."""
    at = 13 + _colours(data, 10)
    shown = 0
    while at < len(data):
        block = data[at]
        if block == _GIF_EXTENSION:
            at = _after_parts(data, at + 2)
        elif block == _GIF_IMAGE:
            at = _after_parts(data, at + 11 + _colours(data, at + 9))
            shown += 1
        else:
            return False  # the end, or something that no GIF has
    return not shown or at > len(data)


def _colours(data: bytes, at: int) -> int:
    """How many bytes of colours come with the flags at a place."""
    flags = data[at] if at < len(data) else 0
    return 3 << (flags & 7) + 1 if flags & _GIF_HAS_COLOURS else 0


def _after_parts(data: bytes, at: int) -> int:
    """Where parts end that have their length before them, the last one a length of none."""
    while at < len(data) and data[at]:
        at += 1 + data[at]
    return at + 1
