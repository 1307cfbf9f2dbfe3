"""Where Ferrule keeps what it must remember of a person's work: records and snapshots."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """`FERRULE_DATA` names another folder than the system's own."""
    if named := os.environ.get("FERRULE_DATA"):
        return Path(named).expanduser()
    from platformdirs import user_data_path

    return user_data_path("ferrule")
