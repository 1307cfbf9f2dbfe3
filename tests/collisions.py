"""When the order of two calls matters: as the schedule has it, and as plainly as it can be said, to hold it to."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import normpath

from ferrule.core.access import Touches
from ferrule.pipeline.batch import Schedule


def schedule(touches: Sequence[Touches]) -> list[set[int]]:
    """For each of many calls, the earlier ones that it waits for."""
    plan = Schedule()
    return [plan.add(call, touched) for call, touched in enumerate(touches)]


def waits(earlier: Touches, later: Touches) -> bool:
    """Whether a batch runs one of the two after the other."""
    return bool(schedule([earlier, later])[1])


def collide(left: Touches, right: Touches) -> bool:
    """Whether the order of two calls can matter: one writes what the other touches."""
    return any((a.write or b.write) and _overlap(a.resource, b.resource) for a in left for b in right)


def _overlap(a: str, b: str) -> bool:
    if a == "*" or b == "*":
        return True
    a, b = _one_name(a), _one_name(b)
    if a == b:
        return True
    if not (a.startswith("path:") and b.startswith("path:")):
        return False
    return _inside(a, b) or _inside(b, a)


def _one_name(resource: str) -> str:
    if not resource.startswith("path:"):
        return resource
    return "path:" + normpath(resource.removeprefix("path:")).replace("//", "/")


def _inside(inner: str, outer: str) -> bool:
    return inner.startswith(outer if outer.endswith("/") else outer + "/")
