"""Bounds the work of one validation before it starts, because nothing can stop it once it runs.

The validator remembers nothing between two visits of the same place, so a few lines of schema can ask for more
visits than there are atoms. Counting them takes memory, not time: every pair of subschema and value is
counted once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.core.schema_graph import Node

MAX_COST = 10_000_000.0
"""Evaluations that one validation may need; the validator makes about twenty million a second."""
MAX_LEVELS = 1_000
"""Subschemas one within the other while a value is validated; the validator uses the stack for each."""
MAX_STEPS = 1_000_000
"""Pairs of subschema and value that are counted before giving up."""
META_SCHEMA_COST = 400

_Branch = tuple["Node", float, int]


class TooCostly(Exception):  # noqa: N818 - a finding, turned into a problem by the caller
    """A validation would take too long or too deep a stack."""


class Cost:
    """The bound for one schema; made once, safe to share."""

    def __init__(self, nodes: list[Node]) -> None:
        self._root = nodes[0]
        order = _sorted_by_use(nodes, inner=False)
        if order is None:
            raise DefinitionError(
                "a part of the schema refers to itself without going deeper into the value."
            )
        self._position = {id(node): position for position, node in enumerate(order)}
        self._own: dict[int, tuple[float, float, int]] = {}
        for node in reversed(order):
            self._own[id(node)] = self._in_place_total(node)
        self._branches: dict[int, list[_Branch]] = {}
        self.per_character = self._tree_total(nodes)

    def is_tame(self, size: int) -> bool:
        """Whether no arguments of so many bytes can be costly; most schemas and calls end here."""
        return self.per_character * size <= MAX_COST

    def bound(self, value: Any) -> float:
        """At most so many evaluations are needed for this value; raises `TooCostly`."""
        return _Count(self).of(self._root, value)[0]

    def own(self, node: Node) -> tuple[float, float, int]:
        """Weight, cost per character and levels of a node and all that applies to the same value."""
        return self._own[id(node)]

    def branches(self, node: Node) -> list[_Branch]:
        """The nodes applied to the same value that look inside it: how often each, and how many levels down."""
        found = self._branches.get(id(node))
        if found is None:
            found = self._branches[id(node)] = self._find_branches(node)
        return found

    def _in_place_total(self, node: Node) -> tuple[float, float, int]:
        weight, chars, levels = node.weight, node.chars, 1
        for part in node.in_place:
            part_weight, part_chars, part_levels = self._own[id(part)]
            weight += node.again * part_weight
            chars += node.again * part_chars
            levels = max(levels, part_levels + 1)
        return weight, chars, levels

    def _find_branches(self, node: Node) -> list[_Branch]:
        reached = {id(node): node}
        waiting = [node]
        while waiting:
            for part in waiting.pop().in_place:
                if id(part) not in reached:
                    reached[id(part)] = part
                    waiting.append(part)
        counts: dict[int, tuple[float, int]] = dict.fromkeys(reached, (0.0, 0))
        counts[id(node)] = (1.0, 1)
        branches: list[_Branch] = []
        for one in sorted(reached.values(), key=lambda part: self._position[id(part)]):
            count, level = counts[id(one)]
            if one.looks_inside:
                branches.append((one, count, level))
            for part in one.in_place:
                before, deepest = counts[id(part)]
                counts[id(part)] = (before + count * one.again, max(deepest, level + 1))
        return branches

    def _tree_total(self, nodes: list[Node]) -> float:
        """What the schema costs with every reference written out; without end if it contains itself."""
        order = _sorted_by_use(nodes, inner=True)
        if order is None:
            return float("inf")
        totals: dict[int, tuple[float, int]] = {}
        for node in reversed(order):
            total, levels = node.weight + node.chars + node.key_chars, 1
            if node.whole:
                total += META_SCHEMA_COST
            for part, count in _uses(node, inner=True):
                part_total, part_levels = totals[id(part)]
                total += count * part_total
                levels = max(levels, part_levels + 1)
            totals[id(node)] = (total, levels)
        total, levels = totals[id(self._root)]
        return total if levels <= MAX_LEVELS else float("inf")


class _Count:
    """One value's count, with what was counted already."""

    def __init__(self, cost: Cost) -> None:
        self._cost = cost
        self._known: dict[tuple[int, int], tuple[float, int]] = {}
        self._steps = 0

    def of(self, node: Node, value: Any) -> tuple[float, int]:
        """Evaluations and levels for one value under one node."""
        weight, chars, levels = self._cost.own(node)
        if not isinstance(value, (dict, list)):
            if isinstance(value, str):
                weight += chars * len(value)
            return self._checked(weight, levels)
        key = (id(node), id(cast("object", value)))
        if key not in self._known:
            self._known[key] = self._container(
                node, cast("dict[str, Any] | list[Any]", value), weight, levels
            )
        return self._known[key]

    def _container(
        self, node: Node, value: dict[str, Any] | list[Any], weight: float, levels: int
    ) -> tuple[float, int]:
        for branch, count, level in self._cost.branches(node):
            self._steps += 1 + len(value)
            if self._steps > MAX_STEPS:
                raise TooCostly
            inner = float(len(value))
            if branch.whole:
                inner += META_SCHEMA_COST * _size(value)
            parts = _of_object(branch, value) if isinstance(value, dict) else _of_array(branch, value)
            for part, item, times in parts:
                part_cost, part_levels = self.of(part, item)
                inner += times * part_cost
                levels = max(levels, level + part_levels)
            if branch.key_chars and isinstance(value, dict):
                inner += branch.key_chars * sum(map(len, value))
            weight += count * inner
        return self._checked(weight, levels)

    @staticmethod
    def _checked(weight: float, levels: int) -> tuple[float, int]:
        if weight > MAX_COST or levels > MAX_LEVELS:
            raise TooCostly
        return weight, levels


def _of_object(node: Node, value: dict[str, Any]) -> Iterator[tuple[Node, Any, int]]:
    for key, item in value.items():
        named = node.properties.get(key, node.additional)
        if named is not None:
            yield named, item, 1
        for part in node.any_property:
            yield part, item, 1
        if node.any_key is not None:
            yield node.any_key, key, 1


def _of_array(node: Node, value: list[Any]) -> Iterator[tuple[Node, Any, int]]:
    for position, item in enumerate(value):
        placed = node.prefix[position] if position < len(node.prefix) else node.items
        if placed is not None:
            yield placed, item, 1
        for part, times in node.any_item:
            yield part, item, times


def _size(value: Any) -> int:
    size, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        size += 1
        if isinstance(one, dict):
            waiting += cast("dict[str, Any]", one).values()
        elif isinstance(one, list):
            waiting += cast("list[Any]", one)
    return size


def _uses(node: Node, *, inner: bool) -> Iterator[tuple[Node, int]]:
    for part in node.in_place:
        yield part, node.again
    if inner:
        yield from node.inner()


def _sorted_by_use(nodes: list[Node], *, inner: bool) -> list[Node] | None:
    """Every node before those it uses, or None when some use one another in a circle."""
    users = {id(node): 0 for node in nodes}
    for node in nodes:
        for part, _ in _uses(node, inner=inner):
            users[id(part)] += 1
    ready = [node for node in nodes if not users[id(node)]]
    order: list[Node] = []
    while ready:
        node = ready.pop()
        order.append(node)
        for part, _ in _uses(node, inner=inner):
            users[id(part)] -= 1
            if not users[id(part)]:
                ready.append(part)
    return order if len(order) == len(nodes) else None
