"""The calls that may be meant by a request, each with its arguments as far as they are told, the best first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ferrule.models.guided.slots import Form, fill, is_text
from ferrule.registry.choose_tools import ToolChooser, same_thing
from ferrule.registry.mentions import mentions
from ferrule.registry.terms import terms

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.core.tool import Tool

_FITS, _MISFIT = 1.0, 1.5
_ONLY_READS = 0.4  # of two that fit alike, the one that can do no harm
_EXPLAIN = "explain"  # who asks for that, and names nothing, wants to be told rather than have it done
ANSWER_SCORE = 1.9
"""What a tool must reach to be better than an answer in words."""


@dataclass(slots=True, frozen=True)
class Candidate:
    """A call that may be meant. The score counts words in common, and how well what is named fits the parameters."""

    tool: Tool[Any]
    form: Form
    score: float


class Candidates:
    """Ranks the calls that some tools allow."""

    def __init__(self, tools: Sequence[Tool[Any]]) -> None:
        self.tools = tuple(tools)
        self._chooser = ToolChooser(tools)

    def rank(self, request: str, most: int, least: float = ANSWER_SCORE) -> list[Candidate]:
        """The calls worth thinking of, the best first; none when an answer in words is the better choice."""
        if _EXPLAIN in terms(request) and not mentions(request) and least >= ANSWER_SCORE:
            return []
        found: list[Candidate] = []
        for one in self._chooser.rank(request):
            if one.score or least < 0:
                form = fill(one.tool, request)
                found.append(Candidate(one.tool, form, one.score + _fit(form)))
        found.sort(key=lambda one: -one.score)
        kept: list[Candidate] = []
        for one in found:
            if len(kept) == most or one.score < least:
                break
            if not any(same_thing(one.tool, other.tool) for other in kept):
                kept.append(one)
        return kept


def _fit(form: Form) -> float:
    fitting = sum(bool(slot.choices) and is_text(slot.schema) for slot in form.slots)
    harmless = _ONLY_READS if form.tool.read_only else 0.0
    return _FITS * fitting + harmless - _MISFIT * (form.unfilled + len(form.unused))
