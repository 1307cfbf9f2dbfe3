"""The calls of a cassette in memory: added while recording, looked up while replaying. Safe under threads."""

from __future__ import annotations

import threading
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any

from ferrule.core.nearest import nearest
from ferrule.testing.cassette_file import TapedCall, canonical

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Tape:
    """Recorded calls. Equal calls are given in the order they were recorded; then the last one is given again."""

    def __init__(self, calls: Iterable[TapedCall], redact: Callable[[Any], Any]) -> None:
        self._redact = redact
        self._lock = threading.Lock()
        self._begun = 0
        self._calls: dict[tuple[str, str, str], list[tuple[int, TapedCall]]] = {}
        self._taken: dict[tuple[str, str, str], int] = {}
        for call in calls:
            self.add(self.begin(), call)

    def begin(self) -> int:
        """The place of a call that starts now; equal calls keep the order of their starts."""
        with self._lock:
            self._begun += 1
            return self._begun

    def add(self, place: int, call: TapedCall) -> None:
        with self._lock:
            same = self._calls.setdefault(call.key, [])
            same.append((place, call))
            same.sort(key=lambda one: one[0])

    def record(self, place: int, call: TapedCall) -> None:
        """Add a call as it happened; what must not be written is taken out first."""
        self.add(place, TapedCall.model_validate(self._redacted(call)))

    def take(self, tool: str, version: str, arguments: Any) -> TapedCall | None:
        """The next recorded outcome of a call; None when no such call was recorded."""
        key = (tool, version, self.shown(arguments))
        with self._lock:
            same = self._calls.get(key)
            if same is None:
                return None
            taken = self._taken.get(key, 0)
            self._taken[key] = taken + 1
            return same[min(taken, len(same) - 1)][1]

    @property
    def calls(self) -> list[TapedCall]:
        """All of them, in the order of the file."""
        with self._lock:
            return [call for key in sorted(self._calls) for _, call in self._calls[key]]

    @property
    def unused(self) -> list[TapedCall]:
        """Those that were never asked for."""
        with self._lock:
            return [call for key in sorted(self._calls) for _, call in self._calls[key][self._taken.get(key, 0) :]]

    def nearest(self, tool: str, arguments: Any) -> TapedCall | None:
        """The recorded call most like one that was not recorded."""
        calls = self.calls
        close = [tool, *nearest(tool, {call.tool for call in calls if call.tool != tool}, most=1)]
        wanted = self.shown(arguments)

        def likeness(call: TapedCall) -> tuple[int, float]:
            return (-close.index(call.tool), SequenceMatcher(None, wanted, canonical(call.arguments)).ratio())

        return max((call for call in calls if call.tool in close), key=likeness, default=None)

    def shown(self, arguments: Any) -> str:
        """Arguments as they would stand on the tape."""
        return canonical(self._redact(arguments))

    def _redacted(self, call: TapedCall) -> dict[str, Any]:
        document = call.model_dump(exclude_defaults=True)
        outcome = {key: document.pop(key) for key in ("pieces", "result", "error") if key in document}
        document["arguments"] = self._redact(document["arguments"])
        return document | {key: self._redact(value) for key, value in outcome.items()}
