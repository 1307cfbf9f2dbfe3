"""Which calls of a batch must wait for which: those that touch the same thing, in the order asked (P5).

The outcome is the one that running the calls one after the other would give. Each call waits only for the nearest
earlier calls it collides with; what those wait for themselves follows.
"""

from __future__ import annotations

from posixpath import normpath
from typing import TYPE_CHECKING

from ferrule.core.access import Touch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferrule.core.access import Touches


class _Users:
    """Who touched one resource since its last writer, and that writer."""

    __slots__ = ("readers", "writer")

    def __init__(self) -> None:
        self.writer: int | None = None
        self.readers: list[int] = []


class Schedule:
    """Takes calls in order and tells, for each, the earlier ones it must wait for."""

    def __init__(self) -> None:
        self._barrier: int | None = None  # the last call that may write anything
        self._since: list[int] = []  # every call since then
        self._writers: list[int] = []  # those of them that write something
        self._readers_of_all: list[int] = []  # those of them that may read anything
        self._exact: dict[str, _Users] = {}
        self._below: dict[str, list[str]] = {}  # folder -> touched paths somewhere inside it

    def add(self, call: int, touches: Touches) -> set[int]:
        """The calls that `call` waits for."""
        touches = tuple(Touch(_plain(touch.resource), touch.write) for touch in touches)
        everything = [touch for touch in touches if touch.resource == "*"]
        if any(touch.write for touch in everything):
            waits = {*self._since}
            if self._barrier is not None:
                waits.add(self._barrier)
            self.__init__()
            self._barrier = call
            return waits
        waits = set[int]()
        if self._barrier is not None and touches:
            waits.add(self._barrier)
        if everything:
            waits.update(self._writers)
        writes = False
        for touch in touches:
            if touch.resource != "*":
                writes = writes or touch.write
                waits.update(self._collisions(touch.resource, write=touch.write))
        if writes:
            waits.update(self._readers_of_all)
        waits.discard(call)
        for touch in touches:
            if touch.resource != "*":
                self._enter(call, touch.resource, write=touch.write)
        if touches:
            self._since.append(call)
        if writes:
            self._writers.append(call)
        if everything:
            self._readers_of_all.append(call)
        return waits

    def _collisions(self, resource: str, *, write: bool) -> Iterable[int]:
        for name in (resource, *_ancestors(resource), *self._below.get(resource, ())):
            users = self._exact.get(name)
            if users is None:
                continue
            if users.writer is not None:
                yield users.writer
            if write:
                yield from users.readers

    def _enter(self, call: int, resource: str, *, write: bool) -> None:
        users = self._exact.get(resource)
        if users is None:
            users = self._exact[resource] = _Users()
            for folder in _ancestors(resource):
                self._below.setdefault(folder, []).append(resource)
        if write:
            # The new writer waits for these readers, so whoever waits for it waits for them too.
            users.writer, users.readers = call, []
        else:
            users.readers.append(call)


def _plain(resource: str) -> str:
    """One name for each path, however it is written: `/a//b/./c/` is `/a/b/c`."""
    if not resource.startswith("path:"):
        return resource
    name = normpath(resource.removeprefix("path:"))
    return f"path:/{name.lstrip('/')}" if name.startswith("/") else f"path:{name}"


def _ancestors(resource: str) -> list[str]:
    """The folders a path lies in, nearest first; nothing for what is not a path."""
    if not resource.startswith("path:"):
        return []
    folders: list[str] = []
    end = len(resource)
    while (end := resource.rfind("/", 0, end)) > len("path:"):
        folders.append(resource[:end])
    if resource.startswith("path:/") and resource != "path:/":
        folders.append("path:/")
    return folders


def schedule(touches: Sequence[Touches]) -> list[set[int]]:
    """For each of many calls, the earlier ones it waits for."""
    plan = Schedule()
    return [plan.add(call, touched) for call, touched in enumerate(touches)]
