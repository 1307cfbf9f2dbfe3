"""Results that may be used again (P7): the same tool, version, parameters, caller and place."""

from __future__ import annotations

import copy
import hashlib
import logging
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.core.context import Session
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Invocation

logger = logging.getLogger("ferrule.calls")

Key = tuple[Any, ...]


class ResultCache:
    """The newest results of tools that allow it, each for as long as its tool says."""

    def __init__(self, size: int = 1024) -> None:
        self._size = size
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, tuple[float, ToolResult]] = OrderedDict()

    def key(self, invocation: Invocation, session: Session) -> Key:
        """What makes two calls the same. The tool object is part of it: a replaced tool starts afresh."""
        tool = invocation.tool
        params = hashlib.blake2b(tool.params.dump(invocation.params)).digest()  # not itself: it may hold secrets
        place = (str(session.workspace), str(session.directory))
        return (tool, tool.version, params, session.caller, place)

    def get(self, key: Key, invocation: Invocation) -> ToolResult | None:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            until, result = found
            if time.monotonic() >= until:
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
        again = copy.deepcopy(result)  # whoever changes what they got changes only that
        again.call_id = invocation.call_id
        again.metadata = {**result.metadata, "cached": True}
        again.metadata.pop("repairs", None)  # what was mended then says nothing of this call
        if invocation.repairs:
            again.metadata["repairs"] = list(invocation.repairs)
        return again

    def put(self, key: Key, result: ToolResult, seconds: float) -> None:
        if not result.success:
            return
        try:
            kept = copy.deepcopy(result)
        except Exception:  # noqa: BLE001 - a value may refuse to be copied in any way
            logger.debug("A result of %s cannot be copied, so it is not kept", result.tool)
            return
        with self._lock:
            self._kept[key] = (time.monotonic() + seconds, kept)
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
