"""The files of the workspace for completion: what ignore files and rules leave, newest first, listed now and then."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from ferrule.core.errors import ToolError

if TYPE_CHECKING:
    from ferrule.core.context import Session

_MOST = 20_000
_FRESH = 5.0


class FileNames:
    """Asks the disk at most once in a few seconds; a folder that cannot be listed has no files."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._names: list[str] = []
        self._looked: float | None = None

    async def matching(self, part: str, most: int = 50) -> list[str]:
        """Names that begin with the part, then those whose last piece does, then those that hold it."""
        names = await self._all()
        wanted = part.lower()
        ranked = sorted(
            ((rank, at, name) for at, name in enumerate(names) if (rank := _rank(name.lower(), wanted)) is not None)
        )
        return [name for _rank_, _at, name in ranked[:most]]

    async def _all(self) -> list[str]:
        if self._looked is None or monotonic() - self._looked > _FRESH:
            self._names = await self._list()
            self._looked = monotonic()
        return self._names

    async def _list(self) -> list[str]:
        from ferrule.workspace.searching.find_files import find_files
        from ferrule.workspace.searching.matches import Names
        from ferrule.workspace.session_paths import paths_of

        try:
            paths = paths_of(self._session)
            place = paths.find(".")
            found = await find_files(paths, place, (), _MOST, lambda _names: None)
        except (ToolError, OSError):
            return []
        names = Names(paths, place)
        return [name for one in found.names if (name := names.show(one)).isprintable()]


def _rank(name: str, wanted: str) -> int | None:
    if name.startswith(wanted):
        return 0
    if name.rpartition("/")[2].startswith(wanted):
        return 1
    return 2 if wanted in name else None
