"""The files of the markets under the data folder: whole or as they were, with one writer at a time.

Light enough for each start, which looks at the versions that were withdrawn.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ferrule.workspace.data_folder import data_folder

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable
    from pathlib import Path

logger = logging.getLogger("ferrule.plugins")

MARKET_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,29}")
_WITHDRAWN = "withdrawn.json"


def market_folder() -> Path:
    return data_folder() / "market"


def market_folders() -> list[Path]:
    """The folder of each market; not of one that is just being added or removed."""
    try:
        return sorted(folder for folder in market_folder().iterdir() if MARKET_NAME.fullmatch(folder.name))
    except FileNotFoundError:
        return []


# Versions that must not be used any more


def withdrawn_names(market: str | None = None) -> dict[tuple[str, str], str]:
    """Versions that must not be used any more, by name and version, with the reason: of one market, or of all.

    Read at each start: small files, and nothing is imported for it.
    """
    found: dict[tuple[str, str], str] = {}
    for folder in market_folders():
        file = folder / _WITHDRAWN
        try:
            if market in (None, folder.name) and file.exists():
                found.update({(str(one[0]), str(one[1])): str(one[2]) for one in json.loads(file.read_bytes())})
        except (OSError, ValueError, TypeError, LookupError) as error:
            logger.warning("%s cannot be read: %s. Fetch it again: ferrule market refresh", file, error)
    return found


def write_withdrawn(folder: Path, withdrawn: Iterable[tuple[str, str, str]]) -> None:
    """Keep name, version and reason of each for `withdrawn_names`."""
    write_json(folder / _WITHDRAWN, list(withdrawn))


# Files that are whole or as they were, and one writer at a time


@contextmanager
def alone(folder: Path) -> Generator[None]:
    """Be the only process that changes a folder."""
    try:
        import fcntl
    except ImportError:  # Windows: nothing there holds two processes apart
        yield
        return
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def write_json(file: Path, value: Any) -> None:
    write_file(file, json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def write_file(file: Path, data: bytes) -> None:
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(6)}")
    try:
        with temporary.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
