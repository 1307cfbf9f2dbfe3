"""Chooses the few tools that fit a request, for models that cannot read about many.

Words of the request meet the words of each tool (its name, its description, its examples, its parameters), the rare
ones counting more, as in BM25. English and Chinese requests alike; no model is asked.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from ferrule.registry.concepts import SAYS_LITTLE
from ferrule.registry.mentions import without_mentions
from ferrule.registry.terms import name_terms, name_words, terms

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferrule.core.tool import Tool

_NAME, _SHORT, _EXAMPLES, _LONG, _PARAMETERS = 3.0, 2.0, 2.0, 0.2, 0.4
_SATURATION, _LENGTH = 1.2, 0.4
_LITTLE = 0.4
_AS_MANY = 20  # of few tools every word is rare: their scores shall mean the same


@dataclass(slots=True, frozen=True)
class Scored:
    """A tool and how well it fits; 0 means that no word of the request has to do with it."""

    tool: Tool[Any]
    score: float


class ToolChooser:
    """The words of some tools, counted once. A tool that was declared wrongly is not among them."""

    def __init__(self, tools: Iterable[Tool[Any]]) -> None:
        self._tools = [tool for tool in tools if tool.fault is None]
        self._weights = [_weigh(tool) for tool in self._tools]
        self._lengths = [sum(weights.values()) for weights in self._weights]
        self._average = (sum(self._lengths) / len(self._lengths)) if self._lengths else 1.0
        holders = Counter(term for weights in self._weights for term in weights)
        total = max(_AS_MANY, len(self._tools))
        self._rarity = {
            term: math.log(1 + (total - count + 0.5) / (count + 0.5)) * (_LITTLE if term in SAYS_LITTLE else 1.0)
            for term, count in holders.items()
        }

    def rank(self, request: str) -> list[Scored]:
        """Every tool, the best first; equal ones in the order they were given."""
        wanted = Counter(terms(without_mentions(request)))
        scored = [
            Scored(tool, self._score(wanted, weights, length))
            for tool, weights, length in zip(self._tools, self._weights, self._lengths, strict=True)
        ]
        return sorted(scored, key=lambda one: -one.score)

    def choose(self, request: str, most: int) -> list[Tool[Any]]:
        """The tools worth showing for a request; of two that are one thing under two names only the better."""
        chosen: list[Tool[Any]] = []
        for one in self.rank(request):
            if len(chosen) == most or not one.score:
                break
            if not any(same_thing(one.tool, other) for other in chosen):
                chosen.append(one.tool)
        return chosen

    def _score(self, wanted: Counter[str], weights: Counter[str], length: float) -> float:
        norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / self._average)
        return sum(
            self._rarity[term] * count * weights[term] * (_SATURATION + 1) / (weights[term] + norm)
            for term, count in wanted.items()
            if term in weights
        )


def same_thing(tool: Tool[Any], other: Tool[Any]) -> bool:
    """Whether two tools do the same, as `Read` and `readFile` do: by their names, and by what they must be given."""
    if tool.kind != other.kind or _required(tool) != _required(other):
        return False
    return any(mine <= theirs or theirs <= mine for mine in _names(tool) for theirs in _names(other))


def _names(tool: Tool[Any]) -> list[set[str]]:
    return [set(words) for name in (tool.name, tool.display_name) if (words := name_words(name))]


def _required(tool: Tool[Any]) -> set[str]:
    schema = tool.input_schema
    return (
        {word for name in schema.get("required", ()) for word in name_words(name)}
        if isinstance(schema, dict)
        else set()
    )


def _weigh(tool: Tool[Any]) -> Counter[str]:
    weights: Counter[str] = Counter()
    description = tool.description
    layers: Sequence[tuple[float, list[str]]] = (
        (_NAME, [*name_terms(tool.name), *name_terms(tool.display_name)]),
        (_SHORT, terms(description.short)),
        (_EXAMPLES, [term for one in description.examples for term in terms(without_mentions(one.description))]),
        (_LONG, terms(description.long)),
        (_PARAMETERS, [*_parameter_terms(tool), *(term for tag in tool.tags for term in terms(tag))]),
    )
    for weight, words in layers:
        for word in set(words):
            weights[word] += cast("int", weight)
    return weights


def _parameter_terms(tool: Tool[Any]) -> list[str]:
    schema = tool.input_schema
    names: dict[str, Any] = schema.get("properties", {}) if isinstance(schema, dict) else {}
    return [term for name in names for term in name_terms(name)]
