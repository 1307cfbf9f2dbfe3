"""The files of plugins and markets under the data folder, and which versions were withdrawn.

Light enough for each start.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING

from ferrule.extension import data_folder, write_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

logger = logging.getLogger("ferrule.plugins")

MARKET_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,29}")
_WITHDRAWN = "withdrawn.json"


DEFINITIONS = "definitions.json"
"""In a plugin's folder: what its tools were like when the user agreed to them."""

TOKENS = "tokens"
"""In a plugin's folder: what signing in to one that runs elsewhere gave."""


def plugins_folder() -> Path:
    return data_folder() / "plugins"


def lock_file() -> Path:
    return plugins_folder() / "plugins.lock"


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
