"""Small JSON files that only the person may read: written whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pathlib import Path

_MOST_READ = 64 << 20


def read_json(file: Path) -> dict[str, Any]:
    """The object in a file; nothing where there is none, or none that can be read."""
    try:
        if file.stat().st_size > _MOST_READ:
            return {}
        found: Any = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def write_json(file: Path, document: dict[str, Any]) -> None:
    """Write an object to a file with mode 0600, in a folder with mode 0700."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(6)}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as opened:  # noqa: PTH123 - a descriptor
            opened.write(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace"))
        temporary.replace(file)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
