"""What a session was shown of a replacement before it made it: whoever saw a preview gets what it showed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from ferrule.core.errors import ErrorKind
from ferrule.core.phrases import phrase
from ferrule.workspace.problems import PathProblem
from ferrule.workspace.tracker import digest

if TYPE_CHECKING:
    from ferrule.core.context import Session
    from ferrule.workspace.searching.replacing import Replacements

_KEY = "ferrule.previews"
_MOST = 8
_MOST_NAMED = 10


class Previews:
    """The newest previews of a session, each with the content of the files it showed. Safe in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shown: OrderedDict[str, dict[str, str]] = OrderedDict()

    def remember(self, asked: str, replacements: Replacements) -> None:
        with self._lock:
            self._shown[asked] = _contents(replacements)
            self._shown.move_to_end(asked)
            while len(self._shown) > _MOST:
                self._shown.popitem(last=False)

    def forget(self, asked: str) -> None:
        """What was shown has been done; the same call again is another."""
        with self._lock:
            self._shown.pop(asked, None)

    def require_unchanged(self, asked: str, replacements: Replacements) -> None:
        """Refuse where files differ from what was shown; what was never shown is not held to anything."""
        with self._lock:
            shown = self._shown.get(asked)
        if shown is None:
            return
        now = _contents(replacements)
        changed = sorted(name for name in {*shown, *now} if shown.get(name) != now.get(name))
        if changed:
            listed = ", ".join(f"`{name}`" for name in changed[:_MOST_NAMED])
            rest = ", …" if len(changed) > _MOST_NAMED else ""
            raise PathProblem(
                "changed",
                phrase("1 file changed since the preview: {listed}. Nothing was replaced.", listed=listed)
                if len(changed) == 1
                else phrase(
                    "{count} files changed since the preview: {listed}. Nothing was replaced.",
                    count=f"{len(changed):,}",
                    listed=f"{listed}{rest}",
                ),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase("Preview it again, look at the changes, then apply it."),
            )


def previews_of(session: Session) -> Previews:
    """The previews of a session, made at first use."""
    return session.state.setdefault(_KEY, Previews())


def _contents(replacements: Replacements) -> dict[str, str]:
    return {file.place.name: digest(file.before) for file in replacements.files}
