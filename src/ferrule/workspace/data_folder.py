"""Where Ferrule keeps what it must remember of a person's work, and how: files that are whole or as they were."""

from __future__ import annotations

import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from ferrule.core.files import write_atomically

_MOST_READ = 64 << 20


def data_folder() -> Path:
    """`FERRULE_DATA` names another folder than the system's own."""
    if named := os.environ.get("FERRULE_DATA"):
        return Path(named).expanduser()
    return _usual(os.environ.get("HOME"), os.environ.get("XDG_DATA_HOME"))


@lru_cache(maxsize=8)
def _usual(*_depends_on: str | None) -> Path:
    from platformdirs import user_data_path

    return user_data_path("ferrule")


def user_settings_file() -> Path:
    """The person's own settings; `FERRULE_CONFIG` names another file."""
    if named := os.environ.get("FERRULE_CONFIG"):
        return Path(named).expanduser()
    from platformdirs import user_config_path

    return user_config_path("ferrule") / "ferrule.toml"


def own_places() -> tuple[Path, ...]:
    """What other users are not shown: the data, and the folder of the settings, or only their file if it is shared."""
    settings = user_settings_file()
    return data_folder(), settings.parent if settings.parent.name.casefold() == "ferrule" else settings


def read_json(file: Path) -> dict[str, Any]:
    """The object in a file; nothing where there is none, or none that can be read."""
    try:
        if file.stat().st_size > _MOST_READ:
            return {}
        found: Any = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def write_json(file: Path, value: Any) -> None:
    """Write a file that only the user can read, in a folder that only they can enter."""
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "backslashreplace")
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomically(file, data, mode=0o600)
