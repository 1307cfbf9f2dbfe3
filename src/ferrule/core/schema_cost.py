"""Bounds the work of one validation before it starts, because nothing can stop it once it runs.

The validator remembers nothing between two visits of the same place, so a few lines of schema can ask for
more visits than there are atoms. Two bounds answer that. The first is found once for each schema: the most
that any one place in any value can cost. Where it is small, as it nearly always is, the size of the arguments
decides. Otherwise the visits are counted for the arguments at hand, every pair of subschema and value once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.core.schema_compile import SchemaNode

MAX_COST = 100_000_000.0
"""What one validation may cost; a unit is about five nanoseconds."""
MAX_LEVELS = 1_000
"""Subschemas one within the other while a value is validated; the validator uses the stack for each."""
MAX_DEPTH = 201
"""How deep arguments can be nested; the JSON parser stops there."""
MAX_STEPS = 1_000_000
"""Pairs of subschema and value that are counted before giving up."""
META_SCHEMA_COST = 400.0
_PASSES = 20

_Branch = tuple["SchemaNode", float, int]


class TooCostly(Exception):  # noqa: N818 - a finding, turned into a problem by the caller
    """A validation would take too long or too deep a stack."""


class Cost:
    """The bound for one schema; made once, safe to share."""

    def __init__(self, nodes: list[SchemaNode]) -> None:
        self._root = nodes[0]
        order = _sorted_by_use(nodes, inner=False)
        if order is None:
            raise DefinitionError("a part of the schema refers to itself without going deeper into the value.")
        self._position = {id(node): position for position, node in enumerate(order)}
        self._own: dict[int, tuple[float, float, int]] = {}
        for node in reversed(order):
            self._own[id(node)] = self._in_place_total(node)
        self._branches: dict[int, list[_Branch]] = {}
        rates = Rates(nodes, order, self._own)
        self._rate, self._rate_chars = rates.of(self._root)
        self._levels = rates.levels(self._root)

    def is_tame(self, size: int) -> bool:
        """Whether no arguments of so many characters can be costly; most schemas and calls end here."""
        values = size / 2 + 1
        if self._levels * min(MAX_DEPTH, values) > MAX_LEVELS:
            return False
        return self._rate * values + self._rate_chars * size <= MAX_COST

    def check(self, value: Any) -> None:
        """Raise `TooCostly` unless this value is validated quickly enough."""
        _Count(self, with_text=True).of(self._root, value)

    def evaluations(self, value: Any) -> float:
        """At most so many parts of the schema are applied, and so many errors found; raises `TooCostly`."""
        return _Count(self, with_text=False).of(self._root, value)[0]

    def own(self, node: SchemaNode) -> tuple[float, float, int]:
        """Weight, cost per character and levels of a node and all that applies to the same value."""
        return self._own[id(node)]

    def branches(self, node: SchemaNode) -> list[_Branch]:
        """The nodes applied to the same value that look inside it: how often each, and how deep it lies."""
        found = self._branches.get(id(node))
        if found is None:
            found = self._branches[id(node)] = self._find_branches(node)
        return found

    def _in_place_total(self, node: SchemaNode) -> tuple[float, float, int]:
        weight, chars, levels = node.weight, node.chars, 1
        for part in node.in_place:
            part_weight, part_chars, part_levels = self._own[id(part)]
            weight += node.again * part_weight
            chars += node.again * part_chars
            levels = max(levels, part_levels + 1)
        return weight, chars, levels

    def _find_branches(self, node: SchemaNode) -> list[_Branch]:
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


class Rates:
    """The most that one place in any value can cost under a schema, for itself and for each character."""

    def __init__(
        self, nodes: list[SchemaNode], order: list[SchemaNode], own: dict[int, tuple[float, float, int]]
    ) -> None:
        self._own = own
        self._inner: dict[int, tuple[float, float]] = {id(node): (0.0, 0.0) for node in nodes}
        self._whole_order = _sorted_by_use(nodes, inner=True)
        self._longest = max(levels for _, _, levels in own.values())
        self._settled = self._settle(self._whole_order or order)

    def of(self, node: SchemaNode) -> tuple[float, float]:
        """The rate of a node; without end where a recursion doubles it at every level."""
        if not self._settled:
            return float("inf"), 0.0
        weight, chars, _ = self._own[id(node)]
        inner_weight, inner_chars = self._inner[id(node)]
        return max(weight, inner_weight), max(chars, inner_chars)

    def levels(self, root: SchemaNode) -> float:
        """How many levels each level of the value may add."""
        if self._whole_order is None:
            return self._longest
        deepest: dict[int, int] = {}
        for node in reversed(self._whole_order):
            deepest[id(node)] = 1 + max((deepest[id(part)] for part, _ in _uses(node, inner=True)), default=0)
        return 0 if deepest[id(root)] <= MAX_LEVELS else self._longest

    def _settle(self, order: list[SchemaNode]) -> bool:
        """Whether the rates stop growing; without recursion one pass finds them."""
        self._settled = True
        for _ in range(_PASSES):
            changed = False
            for node in reversed(order):
                rate = self._inner_rate(node)
                if rate != self._inner[id(node)]:
                    self._inner[id(node)] = rate
                    changed = True
            if not changed or self._whole_order is not None:
                return True
        return False

    def _inner_rate(self, node: SchemaNode) -> tuple[float, float]:
        """The rate of the places inside a value, under this node and all that applies to the same value."""
        fields = [*node.properties.values(), *([node.additional] if node.additional else [])]
        items = [*node.prefix, *([node.items] if node.items else [])]
        every_field = [(part, 1) for part in (*node.any_property, *([node.any_key] if node.any_key else []))]
        weight, chars = 1.0, node.key_chars
        in_object = self._together(fields, every_field)
        in_array = self._together(items, node.any_item)
        weight += max(in_object[0], in_array[0]) + (META_SCHEMA_COST if node.whole else 0)
        chars += max(in_object[1], in_array[1])
        for part in node.in_place:
            part_weight, part_chars = self._inner[id(part)]
            weight += node.again * part_weight
            chars += node.again * part_chars
        return weight, chars

    def _together(self, one_of: list[SchemaNode], all_of: list[tuple[SchemaNode, int]]) -> tuple[float, float]:
        rates = [self.of(node) for node in one_of]
        weight = max((rate for rate, _ in rates), default=0.0)
        chars = max((rate for _, rate in rates), default=0.0)
        for node, times in all_of:
            node_weight, node_chars = self.of(node)
            weight += times * node_weight
            chars += times * node_chars
        return weight, chars


class _Count:
    """One value's count, with what was counted already."""

    def __init__(self, cost: Cost, *, with_text: bool) -> None:
        self._cost = cost
        self._with_text = with_text
        self._known: dict[tuple[int, int], tuple[float, int]] = {}
        self._steps = 0

    def of(self, node: SchemaNode, value: Any) -> tuple[float, int]:
        """Evaluations and levels for one value under one node."""
        weight, chars, levels = self._cost.own(node)
        if not isinstance(value, (dict, list)):
            if isinstance(value, str) and self._with_text:
                weight += chars * len(value)
            return self._checked(weight, levels)
        key = (id(node), id(cast("object", value)))
        if key not in self._known:
            self._known[key] = self._container(node, cast("dict[str, Any] | list[Any]", value), weight, levels)
        return self._known[key]

    def _container(self, node: SchemaNode, value: Any, weight: float, levels: int) -> tuple[float, int]:
        for branch, count, level in self._cost.branches(node):
            self._steps += 1 + len(value)
            if self._steps > MAX_STEPS:
                raise TooCostly
            inner = float(len(value))
            if branch.whole:
                inner += META_SCHEMA_COST * _size(value)
            if branch.key_chars and self._with_text:
                inner += branch.key_chars * _key_length(value)
            for part, item, times in _parts(branch, value):
                part_cost, part_levels = self.of(part, item)
                inner += times * part_cost
                levels = max(levels, level + part_levels)
            weight += count * inner
        return self._checked(weight, levels)

    @staticmethod
    def _checked(weight: float, levels: int) -> tuple[float, int]:
        if weight > MAX_COST or levels > MAX_LEVELS:
            raise TooCostly
        return weight, levels


def _parts(node: SchemaNode, value: Any) -> Iterator[tuple[SchemaNode, Any, int]]:
    """Which nodes are applied to which values inside, and how often."""
    return _of_object(node, cast("Any", value)) if isinstance(value, dict) else _of_array(node, value)


def _of_object(node: SchemaNode, value: dict[str, Any]) -> Iterator[tuple[SchemaNode, Any, int]]:
    for key, item in value.items():
        named = node.properties.get(key, node.additional)
        if named is not None:
            yield named, item, 1
        for part in node.any_property:
            yield part, item, 1
        if node.any_key is not None:
            yield node.any_key, key, 1


def _of_array(node: SchemaNode, value: list[Any]) -> Iterator[tuple[SchemaNode, Any, int]]:
    for position, item in enumerate(value):
        placed = node.prefix[position] if position < len(node.prefix) else node.items
        if placed is not None:
            yield placed, item, 1
        for part, times in node.any_item:
            yield part, item, times


def _key_length(value: Any) -> int:
    return sum(map(len, cast("dict[str, Any]", value))) if isinstance(value, dict) else 0


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


def _uses(node: SchemaNode, *, inner: bool) -> Iterator[tuple[SchemaNode, int]]:
    for part in node.in_place:
        yield part, node.again
    if inner:
        yield from node.inner()


def _sorted_by_use(nodes: list[SchemaNode], *, inner: bool) -> list[SchemaNode] | None:
    """Every node before those it uses, or None when some use one another in a circle."""
    users = {id(node): 0 for node in nodes}
    for node in nodes:
        for part, _ in _uses(node, inner=inner):
            users[id(part)] += 1
    ready = [node for node in nodes if not users[id(node)]]
    order: list[SchemaNode] = []
    while ready:
        node = ready.pop()
        order.append(node)
        for part, _ in _uses(node, inner=inner):
            users[id(part)] -= 1
            if not users[id(part)]:
                ready.append(part)
    return order if len(order) == len(nodes) else None
