"""What a file is when it is not plain text: pictures, notebooks, and what else can be told by its first bytes."""

from __future__ import annotations

import json
from typing import Any, cast

from ferrule.core.shown_text import cut_counted

# Tells a picture whose end is missing, as a broken download or a program that is still writing leaves it.


_JPEG_SCAN, _JPEG_END = 0xDA, b"\xff\xd9"
_JPEG_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_GIF_EXTENSION, _GIF_IMAGE = 0x21, 0x2C
_GIF_HAS_COLOURS = 0x80


def is_cut_off(kind: str, data: bytes) -> bool:
    """Whether a picture of this media type ends too soon; False for types that say nothing of it."""
    match kind:
        case "image/png":
            # A chunk is its length, its name, as many bytes and a checksum; the last one is called IEND.
            at = 8
            while at + 12 <= len(data):
                if data[at + 4 : at + 8] == b"IEND":
                    return False
                at += 12 + int.from_bytes(data[at : at + 4], "big")
            return True
        case "image/jpeg":
            return _is_cut_jpeg(data)
        case "image/gif":
            return _is_cut_gif(data)
        case "image/webp":
            return int.from_bytes(data[4:8], "little") + 8 > len(data)
        case _:
            return False


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


_SIGNATURES: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"), (b"\xff\xd8\xff", 0, "image/jpeg"), (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"), (b"%PDF-", 0, "application/pdf"), (b"PK\x03\x04", 0, "application/zip"),
    (b"\x1f\x8b", 0, "application/gzip"), (b"BZh", 0, "application/x-bzip2"),
    (b"\xfd7zXZ\x00", 0, "application/x-xz"), (b"7z\xbc\xaf\x27\x1c", 0, "application/x-7z-compressed"),
    (b"\x7fELF", 0, "application/x-executable"), (b"MZ", 0, "application/x-msdownload"),
    (b"SQLite format 3\x00", 0, "application/vnd.sqlite3"), (b"OggS", 0, "audio/ogg"), (b"ID3", 0, "audio/mpeg"),
    (b"ftyp", 4, "video/mp4"), (b"\x00asm", 0, "application/wasm"), (b"ustar", 257, "application/x-tar"),
)  # fmt: skip
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}
SHOWN_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Pictures that models can look at."""

_MOST_OUTPUT = 2_000


def media_type(head: bytes) -> str:
    """What the first bytes of a file say it is."""
    if head.startswith(b"RIFF") and (kind := _RIFF.get(head[8:12])):
        return kind
    for signature, place, name in _SIGNATURES:
        if head[place : place + len(signature)] == signature:
            return name
    return "application/octet-stream"


def notebook_cells(text: str) -> list[str] | None:
    """The cells of a Jupyter notebook, as text with their outputs; None when it is none."""
    try:
        notebook: Any = json.loads(text)
        cells = cast("list[Any]", notebook["cells"])
        return [_cell(number, cell) for number, cell in enumerate(cells, 1)]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _cell(number: int, cell: Any) -> str:
    kind = str(cell.get("cell_type", "code"))
    count = cell.get("execution_count")
    title = f"# Cell {number} ({kind}{f', run {count}' if count else ''})"
    outputs = [_output(one) for one in cell.get("outputs", ())]
    return "\n".join([title, _joined(cell.get("source", "")), *(one for one in outputs if one)])


def _output(output: Any) -> str:
    if "text" in output:
        return "# Output:\n" + cut_counted(_joined(output["text"]), _MOST_OUTPUT)
    if output.get("output_type") == "error":
        return f"# Error: {output.get('ename')}: {output.get('evalue')}"
    data = output.get("data", {})
    if "text/plain" in data:
        return "# Output:\n" + cut_counted(_joined(data["text/plain"]), _MOST_OUTPUT)
    return f"# Output: {', '.join(data)}" if data else ""


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)
