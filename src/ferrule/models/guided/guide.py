"""Leads a small model through one answer: which call, with which arguments, or which words.

Everything that the request itself tells is settled before the model is asked; the model decides what is left, under a
grammar. It works over anything that completes texts as llama.cpp's server does.
"""

from __future__ import annotations

import json
import re
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from ferrule.core.call import RawCall
from ferrule.core.model import AssistantMessage, Usage, UserMessage
from ferrule.models.guided.grammar import answer_grammar, arguments_grammar, literal
from ferrule.models.guided.slots import ANSWER_SCORE, Candidate, Candidates
from ferrule.registry.choose_tools import Named, mentions

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence

    from ferrule.core.model import Message
    from ferrule.core.result import ToolResult
    from ferrule.core.tool import Tool


# What comes next in a turn: a call for the next part of the request, a remedy for one that failed, or words.


_THEN = re.compile(
    r"[,;.，；。]?\s*(?:\b(?:and then|then|after that|afterwards)\b|然后|接着|之后再|随后)[,，]?\s*", re.IGNORECASE
)
_READ_FIRST = re.compile(r"\bread (?:it|the file) first\b", re.IGNORECASE)
_MOST_PARTS = 5


@dataclass(slots=True, frozen=True)
class GuidedEnd:
    """A call of this turn and what it gave."""

    call: RawCall
    result: ToolResult


@dataclass(slots=True, frozen=True)
class TurnSoFar:
    """The last thing the person said, and what was done about it."""

    request: str
    done: tuple[GuidedEnd, ...]

    @property
    def outcomes(self) -> tuple[GuidedEnd, ...]:
        """What there is to tell of: a call that had to wait for another is told once, when it was made again."""
        waited = [at for at, one in enumerate(self.done) if _asks_to_read(one) and at + 1 < len(self.done)]
        return tuple(one for at, one in enumerate(self.done) if at not in waited and at - 1 not in waited)

    @property
    def part(self) -> str:
        """The part of the request that is next; empty when all were tried."""
        parts = parts_of(self.request)
        tried = len(self.done) - 2 * sum(map(_asks_to_read, self.done))
        return parts[tried] if 0 <= tried < len(parts) else ""

    @property
    def remedy(self) -> str:
        """What the last call needs before it can work, as a request; empty when nothing is known to help."""
        if not self.done or not _asks_to_read(self.done[-1]):
            return ""
        named = next((one.text for one in mentions(self.request) if one.kind is Named.FILE), "")
        return f"read the file {named}" if named else ""

    @property
    def again(self) -> RawCall | None:
        """The call that failed for want of what was done just now."""
        if len(self.done) < 2 or not _asks_to_read(self.done[-2]) or not self.done[-1].result.success:
            return None
        return self.done[-2].call


def turn_so_far(messages: Sequence[Message]) -> TurnSoFar:
    """Read a conversation from its end."""
    start = max((at for at, one in enumerate(messages) if isinstance(one, UserMessage)), default=0)
    request = ""
    done: list[GuidedEnd] = []
    calls: Sequence[RawCall] = ()
    for message in messages[start:]:
        if isinstance(message, UserMessage):
            request = message.text
        elif isinstance(message, AssistantMessage):
            calls = message.calls
        else:
            done += [GuidedEnd(call, result) for call, result in zip(calls, message.results, strict=False)]
    return TurnSoFar(request, tuple(done))


def parts_of(request: str) -> list[str]:
    """A request split where it says «then»; what is quoted is never split."""
    quoted = [(one.start, one.end) for one in mentions(request) if one.kind in (Named.QUOTED, Named.COMMAND)]
    parts: list[str] = []
    start = 0
    for found in _THEN.finditer(request):
        inside = any(begin < found.end() and found.start() < end for begin, end in quoted)
        if not inside and request[start : found.start()].strip() and len(parts) < _MOST_PARTS - 1:
            parts.append(request[start : found.start()].strip())
            start = found.end()
    rest = request[start:].strip()
    return [*parts, rest] if rest else parts


def _asks_to_read(one: GuidedEnd) -> bool:
    error = one.result.error
    return error is not None and bool(_READ_FIRST.search(f"{error.message} {error.suggestion or ''}"))


# The few words that a small model is shown: it reads slowly, and follows examples better than rules.


NO_TOOL = "none"
_NOTHING_ASKED = "..."
_CHOOSE = f"""Pick the tool for each request, or {NO_TOOL}.

Request: thank you, that was nice
Tool: {NO_TOOL}

"""
_COPY = """Copy the part of the result that answers the question.

Question: which user am I?
Result:
name: ann
id: 1001
groups: staff, admin
Answer:
name: ann

Question: what is in this folder?
Result:
`.` holds 1 folder and 1 file:
src/
a.txt
Answer:
`.` holds 1 folder and 1 file:
src/
a.txt

Question: what does plan.txt say?
Result:
Meet Bob at noon.
Bring the map.
Answer:
Meet Bob at noon.
Bring the map.

"""
_SYSTEM = "You are Ferrule, an assistant for the files and programs of a project. Answer in one or two short sentences."
_FROM_RESULT = "Answer the question in one or two short sentences, with what the result says and nothing else."


def choose_prompt(request: str, tools: Sequence[Tool[Any]]) -> str:
    """Asks which tool is meant: an example of each, then the request."""
    return _CHOOSE + "".join(_example(tool) for tool in tools) + f"Request: {_line(request)}\nTool:"


def unasked_prompt(tools: Sequence[Tool[Any]]) -> str:
    """The same with no request: what a model says to this it says by habit, which is taken off its choice."""
    return choose_prompt(_NOTHING_ASKED, tools)


def arguments_prompt(request: str, tool: Tool[Any]) -> str:
    """Asks for the arguments of one tool: all its examples, then the request."""
    examples = "".join(_example(tool, at) for at in range(max(1, len(tool.description.examples))))
    return (
        f"{tool.name}: {tool.description.short}\n\n{examples}Request: {_line(request)}\nTool: {tool.name}\nArguments:"
    )


def passage_prompt(request: str, lines: Iterable[str]) -> str:
    """Asks for the lines of a result that answer."""
    return _COPY + f"Question: {_line(request)}\nResult:\n" + "\n".join(lines) + "\nAnswer:\n"


def result_messages(request: str, lines: Iterable[str]) -> list[dict[str, str]]:
    """Asks for words about a result."""
    shown = "\n".join(lines)
    asked = f"{request}\n\nResult:\n{shown}"
    return [{"role": "system", "content": _FROM_RESULT}, {"role": "user", "content": asked}]


def plain_messages(request: str) -> list[dict[str, str]]:
    """Asks for an answer without a tool."""
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": request}]


def _example(tool: Tool[Any], at: int = 0) -> str:
    examples = tool.description.examples
    if not examples:
        return f"Request: {_line(tool.description.short)}\nTool: {tool.name}\nArguments: {tool.expected_form}\n\n"
    one = examples[at]
    return f"Request: {one.description}\nTool: {tool.name}\nArguments: {json.dumps(dict(one.params))}\n\n"


def _line(text: str) -> str:
    return " ".join(text.split())


# Answers taken from a result word for word: a model too small to be trusted with facts picks the lines, no more.


_NUMBERED = re.compile(r"^\s*\d+\t")
_MOST_LINE = 200
_SHORT = 15  # lines: where it stops is no choice for a model that stops too soon


@dataclass(slots=True, frozen=True)
class Passages:
    """A result as lines to quote. Of a document's fields one line is an answer; of a text, lines in a row."""

    lines: tuple[str, ...]
    is_document: bool = False

    @property
    def grammar(self) -> str:
        """A grammar for what may be quoted. A short text is quoted to its end, and so is what a line announces."""
        rules: list[str] = []
        announced = len(self.lines) <= _SHORT
        for at, line in enumerate(self.lines):
            announced = announced or line.endswith(":")
            has_next = at + 1 < len(self.lines) and not self.is_document
            more = f' ( "\\n" p{at + 1} )' + ("" if announced else "?") if has_next else ""
            rules.append(f"p{at} ::= {literal(line)}{more}")
        starts = " | ".join(f"p{at}" for at in range(len(rules)))
        return f'root ::= ( {starts} ) "\\n\\n"\n' + "\n".join(rules) + "\n"


def passages_of(result: ToolResult, most_chars: int) -> Passages:
    """The lines of a result that a model is shown; an error is one, for half of it is worse than none."""
    if result.error is not None:
        return Passages((" ".join(f"{result.error.message} {result.error.suggestion or ''}".split()),))
    try:
        document = json.loads(result.llm_content)
    except ValueError:
        document = None
    if isinstance(document, dict):
        found = [result.display_content, *_fields(cast("dict[str, Any]", document))]
    else:
        found = [_NUMBERED.sub("", line).rstrip() for line in result.llm_content.splitlines()]
    lines = _bounded([line[:_MOST_LINE] for line in found if line.strip()], most_chars)
    return Passages(tuple(lines) or ("(nothing)",), isinstance(document, dict))


def _bounded(lines: list[str], most_chars: int) -> list[str]:
    kept: list[str] = []
    for at, line in enumerate(lines):
        most_chars -= len(line) + 1
        if most_chars < 0 and kept:
            return [*kept, f"… and {len(lines) - at:,} more lines"]
        kept.append(line)
    return kept


def _fields(document: dict[str, Any], above: str = "") -> Iterator[str]:
    for key, value in document.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from _fields(cast("dict[str, Any]", value), f"{name} ")
        elif isinstance(value, list):
            items = cast("list[Any]", value)
            yield f"{name}: {', '.join(_plain(item) for item in items) or 'none'}"
        else:
            yield f"{name}: {_plain(value)}"


def _plain(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
