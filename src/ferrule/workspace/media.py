"""What a file is when it is not plain text: pictures, notebooks, and what else can be told by its first bytes."""

from __future__ import annotations

import json
from typing import Any, cast

_SIGNATURES: tuple[tuple[bytes, int, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, "image/png"),
    (b"\xff\xd8\xff", 0, "image/jpeg"),
    (b"GIF87a", 0, "image/gif"),
    (b"GIF89a", 0, "image/gif"),
    (b"%PDF-", 0, "application/pdf"),
    (b"PK\x03\x04", 0, "application/zip"),
    (b"\x1f\x8b", 0, "application/gzip"),
    (b"BZh", 0, "application/x-bzip2"),
    (b"\xfd7zXZ\x00", 0, "application/x-xz"),
    (b"7z\xbc\xaf\x27\x1c", 0, "application/x-7z-compressed"),
    (b"\x7fELF", 0, "application/x-executable"),
    (b"MZ", 0, "application/x-msdownload"),
    (b"SQLite format 3\x00", 0, "application/vnd.sqlite3"),
    (b"OggS", 0, "audio/ogg"),
    (b"ID3", 0, "audio/mpeg"),
    (b"ftyp", 4, "video/mp4"),
    (b"\x00asm", 0, "application/wasm"),
    (b"ustar", 257, "application/x-tar"),
)
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
        return "# Output:\n" + _short(_joined(output["text"]))
    if output.get("output_type") == "error":
        return f"# Error: {output.get('ename')}: {output.get('evalue')}"
    data = output.get("data", {})
    if "text/plain" in data:
        return "# Output:\n" + _short(_joined(data["text/plain"]))
    return f"# Output: {', '.join(data)}" if data else ""


def _joined(source: Any) -> str:
    return source if isinstance(source, str) else "".join(source)


def _short(text: str) -> str:
    return (
        text
        if len(text) <= _MOST_OUTPUT
        else f"{text[:_MOST_OUTPUT]}\n[… {len(text) - _MOST_OUTPUT:,} characters left out …]"
    )
