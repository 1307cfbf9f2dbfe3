"""Where Ferrule keeps what it must remember of a person's work, and how: files that are whole or as they were."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Generator

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
    """What nobody else is shown: the data, and the folder of the settings, or their file where it lies among others."""
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
    write_file(file, data, mode=0o600)


def write_file(file: Path, data: bytes, *, mode: int = 0o666) -> None:
    """Write a file whole or leave it as it was, also when the power goes; `mode` is less what the umask takes."""
    import secrets

    temporary = file.with_name(f".{file.name}.{secrets.token_hex(6)}")
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as out:  # noqa: PTH123
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def alone(folder: Path) -> Generator[None]:
    """Be the only process that changes a folder; the others wait."""
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
