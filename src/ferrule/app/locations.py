"""Where Ferrule keeps a person's settings and records."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.workspace.data_folder import data_folder

if TYPE_CHECKING:
    from ferrule.app.settings import Settings

PROJECT_FILE = "ferrule.toml"
ORGANISATION_FILE = Path("/etc/ferrule/ferrule.toml")


def user_settings_file() -> Path:
    """The person's own settings; `FERRULE_CONFIG` names another file."""
    if named := os.environ.get("FERRULE_CONFIG"):
        return Path(named).expanduser()
    from platformdirs import user_config_path

    return user_config_path("ferrule") / "ferrule.toml"


def organisation_settings_file() -> Path:
    """What an organisation sets for everybody on this machine; no variable names another file."""
    return ORGANISATION_FILE


def audit_path(settings: Settings) -> Path:
    """The audit log's file."""
    return settings.audit.path.expanduser() if settings.audit.path else data_folder() / "audit.db"


def sessions_folder() -> Path:
    """Where the assistant's sessions are saved."""
    return data_folder() / "sessions"


def tool_folders(settings: Settings, workspace: Path) -> list[Path]:
    """The folders of Python files with tools; relative ones start from the workspace."""
    return [workspace / folder.expanduser() for folder in settings.tools.folders]


def added_folders(settings: Settings, workspace: Path) -> tuple[Path, ...]:
    """The folders that file tools may use besides the workspace; relative ones start there."""
    return tuple(workspace / folder.expanduser() for folder in settings.files.folders)
