"""Where Ferrule keeps a person's settings and records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ferrule.app.settings import Settings

PROJECT_FILE = "ferrule.toml"


def user_settings_file() -> Path:
    """The person's own settings; `FERRULE_CONFIG` names another file."""
    if named := os.environ.get("FERRULE_CONFIG"):
        return Path(named).expanduser()
    from platformdirs import user_config_path

    return user_config_path("ferrule") / "ferrule.toml"


def data_folder() -> Path:
    """Where records lie; `FERRULE_DATA` names another folder."""
    if named := os.environ.get("FERRULE_DATA"):
        return Path(named).expanduser()
    from platformdirs import user_data_path

    return user_data_path("ferrule")


def audit_path(settings: Settings) -> Path:
    """The audit log's file."""
    return settings.audit.path.expanduser() if settings.audit.path else data_folder() / "audit.db"
