"""Where Ferrule keeps what it must remember of a person's work: records and snapshots."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path


def data_folder() -> Path:
    """`FERRULE_DATA` names another folder than the system's own."""
    if named := os.environ.get("FERRULE_DATA"):
        return Path(named).expanduser()
    return _usual(os.environ.get("HOME"), os.environ.get("XDG_DATA_HOME"))


@lru_cache(maxsize=8)
def _usual(*_depends_on: str | None) -> Path:
    from platformdirs import user_data_path

    return user_data_path("ferrule")
