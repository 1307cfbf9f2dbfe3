"""Search over tools by what they do: BM25F in plain Python, kept up to date tool by tool."""

from __future__ import annotations

import re
import threading
from collections import Counter
from functools import lru_cache
from heapq import nlargest
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Any, cast
from unicodedata import normalize

from ferrule.core.nearest import edits
from ferrule.core.tool import Tool, description_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

# Measured on four public sets of tools and questions (ADR 0036).
_WEIGHTS = {"name": 2.5, "text": 1.0, "more": 0.8}
_USUAL_LENGTH = 40
"""Of a tool's text, in words. It is fixed, not the mean of all tools: no tool's terms depend on the others."""
_K1, _B = 1.8, 0.7
_WHOLE_NAME = 3.0
_GUESSED = 0.4
"""How much a term counts that was not asked for but is spelt nearly the same."""
_FAINT_WORDS: dict[str, float] = dict.fromkeys(("find", "get", "show"), 0.3)
"""How much words count that many requests begin with, whatever they are about."""
_MOST_WORDS = 200
_MOST_GUESSED = 3
_MOST_CHARACTERS = 20_000
_DEEPEST = 3

_HAN = "\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[{_HAN}]+|[^\W\d_a-zA-Z{_HAN}]+")
_IS_HAN = re.compile(f"[{_HAN}]")
_STOP_WORDS = frozenset(
    """
    a an the of to in on at for with by and or is are was be do does did it its me my you your i we our us please can
    could would will shall should what which who whose when has have had this that these those as if then into than so
    not from about there their they some any how want need like using use not no tell know help let look looking give
    provide more today out up just also all other s m d t re ve ll
    的 了 我 你 您 请 帮 把 给 吗 是 在 和 与 个 这 那
    """.split()  # noqa: SIM905 - a list of a hundred words
)


def terms_of(text: str) -> Counter[str]:
    """The terms of a text, in order, and how often each occurs."""
    if not text.isascii():
        text = normalize("NFKC", text)
    counts = Counter[str]()
    for word, count in Counter(_WORD.findall(text)).items():
        for term in _terms(word):
            counts[term] += count
    return counts


@lru_cache(maxsize=65_536)
def _terms(word: str) -> tuple[str, ...]:
    """The stem of a word; of Chinese, each character and each pair."""
    return (*word, *map("".join, pairwise(word))) if _IS_HAN.match(word) else (_stem(word),)


def _stem(word: str) -> str:
    """A word without its ending, so that `searching`, `searches` and `searched` are one term."""
    word = word.lower()
    if len(word) < 4 or not word.isascii():
        return word
    if word.endswith("ies") and len(word) > 4:
        word = f"{word[:-3]}y"
    elif word.endswith(("sses", "shes", "ches", "xes", "zes")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed"):
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 2 and not set("aeiouy").isdisjoint(stem):
            word = stem[:-1] if stem[-1] == stem[-2] and stem[-1] not in "lsz" else stem
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


class ToolIndex:
    """The terms of tools by name. Putting one in or taking it out costs the work for that tool alone."""

    def __init__(self) -> None:
        self._tools: dict[str, tuple[Tool[Any], tuple[str, ...]]] = {}
        self._impacts: dict[str, dict[str, float]] = {}
        """How much each term says of each tool that has it."""
        self._alike: dict[str, set[str]] = {}
        """Terms by their first two letters and by their last two: one of them is right in most misspelt words."""
        self._lock = threading.Lock()

    def update(self, tools: Mapping[str, Tool[Any]]) -> None:
        """Have just these tools."""
        for name in self._tools.keys() - tools.keys():
            self.put(name, None)
        for name, tool in tools.items():
            if (known := self._tools.get(name)) is None or known[0] is not tool:
                self.put(name, tool)

    def put(self, name: str, tool: Tool[Any] | None) -> None:
        """Have this tool under a name, or none."""
        impacts = _impacts(tool) if tool is not None else {}
        with self._lock:
            _, before = self._tools.pop(name, (None, ()))
            for term in before:
                having = self._impacts[term]
                del having[name]
                if not having:
                    del self._impacts[term]
                    for edge in _edges(term):
                        self._alike[edge].discard(term)
            if tool is None:
                return
            self._tools[name] = tool, tuple(impacts)
            for term, impact in impacts.items():
                having = self._impacts.setdefault(term, {})
                if not having:
                    for edge in _edges(term):
                        self._alike.setdefault(edge, set()).add(term)
                having[name] = impact

    def search(self, queries: Iterable[str], most: int, among: Collection[str] | None = None) -> list[str]:
        """The names of the tools that fit best, those that lead for any of the queries first.

        `among` are the names that may be found. What others say has no influence on the answer.
        """
        places: dict[str, float] = {}
        for query in queries:
            with self._lock:
                found = self._best(query, max(most, 1), among)
            for place, name in enumerate(found):
                places[name] = places.get(name, 0.0) + 1 / (place + 1)
        return sorted(places, key=lambda name: (-places[name], name))[: max(most, 0)]

    def _best(self, query: str, most: int, among: Collection[str] | None) -> list[str]:
        terms = list(terms_of(query[:_MOST_CHARACTERS]))
        kept = [term for term in terms if term not in _STOP_WORDS] or terms
        wanted = {term: _FAINT_WORDS.get(term, 1.0) for term in kept[:_MOST_WORDS]}
        for term in list(wanted):
            if not self._having(term, among):
                wanted |= {one: _GUESSED for one in self._nearly(term, among) if one not in wanted}
        wanted[_whole(query)] = 1.0
        total = len(self._tools if among is None else among)
        scores: dict[str, float] = {}
        for term, weight in wanted.items():
            if having := self._having(term, among):
                weight *= log(1 + (total - len(having) + 0.5) / (len(having) + 0.5))
                for name, impact in having.items():
                    scores[name] = scores.get(name, 0.0) + weight * impact
        if len(scores) > most:
            least = nlargest(most, scores.values())[-1]
            scores = {name: score for name, score in scores.items() if score >= least}
        return sorted(scores, key=lambda name: (-scores[name], name))[:most]

    def _having(self, term: str, among: Collection[str] | None) -> dict[str, float]:
        having = self._impacts.get(term, {})
        return having if among is None else {name: one for name, one in having.items() if name in among}

    def _nearly(self, term: str, among: Collection[str] | None) -> list[str]:
        """The terms that a word which no tool has was probably meant to be."""
        if len(term) < 4 or not term.isalpha() or not term.isascii():
            return []
        for cut in range(3, len(term) - 2):
            parts = [_stem(term[:cut]), term[cut:]]
            if all(self._having(part, among) for part in parts):
                return parts
        bound = 1 if len(term) < 6 else 2
        alike = set[str]().union(*(self._alike.get(edge, ()) for edge in _edges(term)))
        close = sorted((distance, other) for other in alike if (distance := edits(term, other, bound)) <= bound)
        near = [one for one in close if self._having(one[1], among)]
        return [other for distance, other in near if distance == near[0][0]][:_MOST_GUESSED]


def _impacts(tool: Tool[Any]) -> dict[str, float]:
    """How much each term of a tool says of it: more in its name, more often, and in fewer words."""
    title = tool.display_name if tool.display_name != tool.name else ""
    fields = {
        "name": f"{tool.name} {title}",
        "text": description_of(tool).prose,
        "more": " ".join((*sorted(tool.tags), tool.category, *_parameter_words(tool))),
    }
    counts: dict[str, float] = {}
    for field, text in fields.items():
        weight = _WEIGHTS[field]
        for term, count in terms_of(text[:_MOST_CHARACTERS]).items():
            counts[term] = counts.get(term, 0.0) + weight * count
    room = _K1 * (1 - _B + _B * sum(counts.values()) / _USUAL_LENGTH)
    impacts = {term: count / (count + room) for term, count in counts.items()}
    return impacts | {_whole(tool.name): _WHOLE_NAME}


def _whole(name: str) -> str:
    """A name as one term, however its words are joined."""
    return "=" + "".join(_WORD.findall(name)).lower()


def _edges(term: str) -> Sequence[str]:
    return (f"{term[:2]}-", f"-{term[-2:]}") if len(term) > 2 and term.isalpha() and term.isascii() else ()


def _parameter_words(tool: Tool[Any]) -> Iterator[str]:
    try:
        schema = tool.input_schema
    except Exception:  # noqa: BLE001 - a class may write it as a property, which can fail in any way
        return
    yield from _property_words(schema, _DEEPEST)


def _property_words(schema: Mapping[str, Any], levels: int) -> Iterator[str]:
    properties: Any = schema.get("properties")
    if not isinstance(properties, dict) or not levels:
        return
    for name, prop in cast("dict[str, Any]", properties).items():
        yield name
        if isinstance(prop, dict):
            one = cast("dict[str, Any]", prop)
            yield str(one.get("description") or "")
            yield from _property_words(one, levels - 1)
            items: Any = one.get("items")
            if isinstance(items, dict):
                yield from _property_words(cast("dict[str, Any]", items), levels - 1)
