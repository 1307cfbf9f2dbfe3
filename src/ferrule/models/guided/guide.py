"""Leads a small model through one answer: which call, with which arguments, or which words.

Everything that the request itself tells is settled before the model is asked; the model decides what is left, under a
grammar. It works over anything that completes texts as llama.cpp's server does.
"""

from __future__ import annotations

import json
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ferrule.core.call import RawCall
from ferrule.core.model import Usage
from ferrule.models.guided.candidates import ANSWER_SCORE, Candidate, Candidates
from ferrule.models.guided.grammar import answer_grammar, arguments_grammar
from ferrule.models.guided.passages import passages_of
from ferrule.models.guided.prompts import (
    NO_TOOL,
    arguments_prompt,
    choose_prompt,
    passage_prompt,
    plain_messages,
    result_messages,
    unasked_prompt,
)
from ferrule.models.guided.steps import parts_of, turn_so_far

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from ferrule.core.conversation import Message
    from ferrule.core.tool import Tool
    from ferrule.models.guided.passages import Passages
    from ferrule.models.guided.steps import TurnSoFar

_UNLIKELY = -15.0
_ANYTHING = -100.0
_LOOKED_AT = 100
_SAME_TOKEN = 3
_MOST_ARGUMENTS = 600
_MOST_PASSAGE = 400


class Completer(Protocol):
    """What answers: chunks in the form of llama.cpp's server, streaming. Closing the stream stops it."""

    def ask(self, body: Mapping[str, Any], *, chat: bool = False) -> AsyncGenerator[dict[str, Any]]:
        """`body` as `/v1/completions` takes it, or `/v1/chat/completions`."""
        ...


@dataclass(slots=True, frozen=True)
class Ability:
    """How far a model is trusted. The smallest choose only where words leave it open, and answer with quotations."""

    margin: float = 1.0
    """Tools whose score is this close to the best one are put to the model."""
    voice: float = 0.2
    """How much the model's own liking counts then, against the score."""
    quotes: bool = True
    """It answers with lines of the result as they stand, not in its own words."""
    result_chars: int = 900
    only_ascii: bool = False
    """It knows no other writing; left alone it fills the screen with signs."""


class Guide:
    """One answer after another; what it cost is counted in `usage`."""

    def __init__(self, completer: Completer, ability: Ability) -> None:
        self._completer = completer
        self._ability = ability
        self._candidates = Candidates(())
        self.begin()

    def begin(self) -> None:
        """Count anew, for the next answer."""
        self.usage = Usage()
        self.was_cut = False

    async def next_call(
        self, messages: Sequence[Message], tools: Sequence[Tool[Any]], *, must: bool = False
    ) -> RawCall | None:
        """The call to make now; None when it is time for words, which it is not while there `must` be a call."""
        turn = turn_so_far(messages)
        if turn.again is not None:
            return RawCall(turn.again.name, turn.again.arguments)
        part = turn.remedy or ("" if _has_failed(turn) else turn.part)
        if not part or not tools:
            return None
        if self._candidates.tools != tuple(tools):
            self._candidates = Candidates(tools)
        ranked = self._candidates.rank(part, most=3, least=_ANYTHING if must else ANSWER_SCORE)
        candidate = await self._choose(part, ranked, must=must)
        if candidate is None:
            return None
        arguments = await self._arguments(part, candidate)
        if any((one.call.name, one.call.arguments) == (candidate.tool.name, arguments) for one in turn.done):
            return None  # it was done already: asking again gives the same
        return RawCall(candidate.tool.name, arguments)

    async def words(self, messages: Sequence[Message], most_tokens: int) -> AsyncGenerator[str]:
        """The answer, piece by piece."""
        turn = turn_so_far(messages)
        found = [passages_of(one.result, self._ability.result_chars) for one in turn.outcomes]
        if found and self._ability.quotes:
            parts = parts_of(turn.request)
            for at, one in enumerate(found):
                if at:
                    yield "\n"
                part = parts[at] if len(parts) == len(found) else turn.request
                async with aclosing(self._quote(part, one)) as pieces:
                    async for piece in pieces:
                        yield piece
            return
        lines = [line for one in found for line in one.lines]
        async with aclosing(self._ask(self._wording(turn.request, lines, most_tokens), chat=True)) as chunks:
            async for chunk in chunks:
                if text := chunk["choices"][0]["delta"].get("content"):
                    yield text

    async def _quote(self, part: str, passages: Passages) -> AsyncGenerator[str]:
        if len(passages.lines) == 1:
            yield passages.lines[0]  # there is nothing to choose
            return
        prompt = passage_prompt(part, passages.lines)
        body = {"prompt": prompt, "grammar": passages.grammar, "max_tokens": _MOST_PASSAGE, "stop": ["\n\n"]}
        async with aclosing(self._ask(body)) as chunks:
            async for chunk in chunks:
                if text := chunk["choices"][0]["text"]:
                    yield text

    async def _choose(self, part: str, ranked: list[Candidate], *, must: bool) -> Candidate | None:
        """The best one; where the scores are close, what the model thinks of them is added."""
        if not ranked:
            return None
        near = [one for one in ranked if ranked[0].score - one.score <= self._ability.margin]
        words_are_near = not must and ranked[0].score - ANSWER_SCORE <= self._ability.margin
        if len(near) == 1 and not words_are_near:
            return near[0]
        tools = [one.tool for one in reversed(near)]
        asked, unasked = choose_prompt(part, tools), unasked_prompt(tools)
        voice = await self._voice(asked, unasked, [NO_TOOL, *(tool.name for tool in tools)])
        alike = _common_beginning([one.tool.name for one in near]) if len(near) > 1 else ""
        if len(alike) >= _SAME_TOKEN:  # `getThis` and `getThat`: their first token tells nothing, the next one does
            rest = await self._voice(f"{asked} {alike}", f"{unasked} {alike}", [tool.name for tool in tools], alike)
            voice = {name: said + rest.get(name, 0.0) for name, said in voice.items()}
        best = max(near, key=lambda one: one.score + voice[one.tool.name])
        in_words = ANSWER_SCORE + voice[NO_TOOL]
        return best if not words_are_near or best.score + voice[best.tool.name] >= in_words else None

    async def _voice(self, asked: str, unasked: str, names: Sequence[str], begun: str = "") -> dict[str, float]:
        """How much more the model likes each name for being asked, weighed as far as it is trusted."""
        habit, liking = await self._liking(unasked, names, begun), await self._liking(asked, names, begun)
        return {name: self._ability.voice * (liking[name] - habit[name]) for name in names}

    async def _liking(self, prompt: str, names: Sequence[str], begun: str) -> dict[str, float]:
        """How likely the model finds each name, by its next token, as a logarithm."""
        chunks = [chunk async for chunk in self._ask({"prompt": prompt, "max_tokens": 1, "n_probs": _LOOKED_AT})]
        seen: list[dict[str, Any]] = chunks[0]["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        left = {name: name.removeprefix(begun) if begun else f" {name}" for name in names}
        return {
            name: max(
                (one["logprob"] for one in seen if one["token"].strip() and left[name].startswith(one["token"])),
                default=_UNLIKELY,
            )
            for name in names
        }

    async def _arguments(self, part: str, candidate: Candidate) -> str:
        slots = candidate.form.slots
        if all(len(slot.choices) == 1 for slot in slots):
            return json.dumps({slot.name: slot.choices[0] for slot in slots}, ensure_ascii=False)
        body = {
            "prompt": arguments_prompt(part, candidate.tool) + " ",
            "grammar": arguments_grammar(slots, part),
            "max_tokens": _MOST_ARGUMENTS,
        }
        return "".join([chunk["choices"][0]["text"] async for chunk in self._ask(body)])

    def _wording(self, request: str, lines: list[str], most_tokens: int) -> dict[str, Any]:
        body: dict[str, Any] = {"max_tokens": most_tokens, "repeat_penalty": 1.1}
        if lines:
            grammar = answer_grammar([request, *lines])
            return {**body, "messages": result_messages(request, lines), "grammar": grammar}
        if self._ability.only_ascii:
            body["grammar"] = "root ::= [ -~\\n]+\n"
        return {**body, "messages": plain_messages(request)}

    async def _ask(self, body: Mapping[str, Any], *, chat: bool = False) -> AsyncGenerator[dict[str, Any]]:
        """Greedy, so that the same question has the same answer."""
        async with aclosing(self._completer.ask({**body, "temperature": 0, "seed": 0}, chat=chat)) as chunks:
            async for chunk in chunks:
                if timings := chunk.get("timings"):
                    cached = timings["cache_n"]
                    self.usage += Usage(cached + timings["prompt_n"], timings["predicted_n"], cached)
                self.was_cut = chunk["choices"][0].get("finish_reason") == "length"
                yield chunk


def _common_beginning(names: Sequence[str]) -> str:
    first, last = min(names), max(names)
    return first[
        : next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    ]


def _has_failed(turn: TurnSoFar) -> bool:
    return bool(turn.done) and not turn.done[-1].result.success
