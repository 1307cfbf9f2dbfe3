"""A model that runs on this machine, as the agent sees every other one. It works in a process beside this one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import sys
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferrule import RawCall
from ferrule.extension import LineReader, phrase
from ferrule.models import (
    AssistantMessage,
    CallStarted,
    Finished,
    ModelError,
    ModelFault,
    Preparing,
    TextDelta,
    Usage,
    UserMessage,
)
from ferrule.models.local.pick_call import CallPicker
from ferrule.models.local.request_words import Named, mentions
from ferrule.models.local.weights import INSTALL, fetch, find_weights, is_installed, is_small

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence

    from ferrule import Tool, ToolResult
    from ferrule.models import Message, ModelEvent, ModelRequest, ModelSettings
    from ferrule.models.local.weights import Weights


_WORKER = Path(__file__).with_name("worker.py")
_LONGEST_LINE = 1 << 26
_SECONDS_TO_END = 2.0


class Engine:
    """Weights in a process of their own, started with the first question and kept until `close`."""

    def __init__(self, path: Path, *, context: int, threads: int | None = None) -> None:
        self.path = path
        self.context = context
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        self._threads = threads or cores or 1
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._numbers = count(1)

    async def start(self) -> None:
        """Load the weights, unless that was done; raises `ModelError` where they cannot be."""
        async with self._starting:
            if self._process is not None and self._process.returncode is None:
                return
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                str(_WORKER),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                # Threads that wait shall sleep: on a busy machine spinning makes each token several times slower.
                env={**os.environ, "OMP_WAIT_POLICY": "passive"},
                start_new_session=True,
            )
            assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
            self._lines = LineReader(self._process.stdout, _LONGEST_LINE)
            try:
                await self._send({"path": str(self.path), "context": self.context, "threads": self._threads})
                heard = await self._hear()
            except BaseException:
                await self._end()
                raise
            if "failed" in heard:
                await self._end()
                raise cannot_load(self.path, heard["failed"], heard["said"])

    async def ask(self, body: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        """The chunks of one answer, in llama.cpp's form. Leaving early stops it; questions wait for one another."""
        async with self._asking:
            await self.start()
            number = next(self._numbers)
            is_over = False
            try:
                await self._send({"id": number, "body": {**body, "stream": True, "return_progress": True}})
                while True:
                    heard = await self._hear()
                    if "end" in heard:
                        is_over = True
                        return
                    if "error" in heard:
                        raise refused(heard["error"])
                    if "prompt_progress" not in heard["chunk"]:
                        yield heard["chunk"]
            finally:
                if not is_over:
                    # Have a request end, and read away what it had written; a process that does not listen is ended.
                    try:
                        async with asyncio.timeout(_SECONDS_TO_END):
                            await self._send({"cancel": number})
                            while "end" not in await self._hear():
                                pass
                    except (TimeoutError, ModelError):
                        await self._end()
                    except (
                        asyncio.CancelledError
                    ):  # whoever left early is told to stop altogether, which must not be lost
                        await self._end()
                        raise

    async def close(self) -> None:
        """End the process; nothing of it is left."""
        async with self._starting:
            await self._end()

    async def _send(self, message: Mapping[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            raise self._gone()
        with contextlib.suppress(ConnectionError):  # that it is gone is seen when nothing is heard
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()

    async def _hear(self) -> dict[str, Any]:
        if self._process is not None:
            if isinstance(line := await self._lines.read(), bytes):
                return json.loads(line)
            await self._end()
        raise self._gone()

    def _gone(self) -> ModelError:
        return ModelError(
            ModelFault.UNREACHABLE,
            phrase("The process that runs `{name}` ended unexpectedly.", name=self.path.name),
            suggestion=phrase(
                "There may be too little memory for this model, or its file is damaged. Ask again, or use a smaller "
                "model."
            ),
        )

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        # Waited for even when we are being cancelled ourselves: a process that was killed is gone at once.
        await asyncio.shield(process.wait())
        if process.stdin is not None:
            process.stdin.close()


def cannot_load(path: Path, why: str, said: str) -> ModelError:
    """What a person hears when the weights do not load: llama.cpp's own reason, without its clock and its names."""
    if "xllamacpp" in why:
        return ModelError(
            ModelFault.NOT_FOUND,
            phrase("Models on this machine need the extra `local`, which is not installed."),
            suggestion=phrase('Install it: pip install "ferrule[local]"'),
        )
    reasons = [line.rpartition("error loading model: ")[2] for line in said.splitlines() if "error loading" in line]
    reason = phrase(" llama.cpp says: {why}.", why=reasons[0].strip()) if reasons else ""
    return ModelError(
        ModelFault.REFUSED,
        phrase("The weights in `{path}` could not be loaded.{reason}", path=path, reason=reason),
        suggestion=phrase(
            "Check that the file is a complete GGUF that llama.cpp can read, and that there is enough memory."
        ),
    )


def refused(error: Mapping[str, Any]) -> ModelError:
    """An error of llama.cpp in our words."""
    message = str(error.get("message", error))
    if error.get("type") == "exceed_context_size_error":
        return ModelError(
            ModelFault.TOO_LONG,
            phrase(
                "The conversation is too long: {tokens} tokens, and the model reads {most}.",
                tokens=error.get("n_prompt_tokens", "?"),
                most=error.get("n_ctx", "?"),
            ),
            suggestion=phrase("Make it shorter, or start a new one."),
        )
    return ModelError(
        ModelFault.REFUSED, phrase("The model on this machine did not accept the request: {message}", message=message)
    )


# What comes next in a turn: a call for the next part of the request, a remedy for one that failed, or words.


_THEN = re.compile(
    r"[,;.，；。]?\s*(?:\b(?:and then|then|after that|afterwards)\b|然后|接着|之后再|随后)[,，]?\s*", re.IGNORECASE
)
_READ_FIRST = re.compile(r"\bread (?:it|the file) first\b", re.IGNORECASE)
_MOST_PARTS = 5


@dataclass(slots=True, frozen=True)
class DoneCall:
    """A call of this turn and what it gave."""

    call: RawCall
    result: ToolResult


@dataclass(slots=True, frozen=True)
class TurnSoFar:
    """The last thing the person said, and what was done about it."""

    request: str
    done: tuple[DoneCall, ...]

    @property
    def outcomes(self) -> tuple[DoneCall, ...]:
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
    done: list[DoneCall] = []
    calls: Sequence[RawCall] = ()
    for message in messages[start:]:
        if isinstance(message, UserMessage):
            request = message.text
        elif isinstance(message, AssistantMessage):
            calls = message.calls
        else:
            done += [DoneCall(call, result) for call, result in zip(calls, message.results, strict=False)]
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


def _asks_to_read(one: DoneCall) -> bool:
    error = one.result.error
    return error is not None and bool(_READ_FIRST.search(f"{error.message} {error.suggestion or ''}"))


# What is said of a result: its own lines, or words about them in which every number stands in the result.


_NUMBERED = re.compile(r"^\s*\d+\t")
_NUMBER = re.compile(r"\d+(?:[.,:/\-]\d+)*")
_MOST_LINE = 200
_MOST_QUOTED = 4000
_ASCII_GRAMMAR = "root ::= [ -~\\n]+\n"
_SYSTEM = "You are Ferrule, an assistant for the files and programs of a project. Answer in one or two short sentences."
_FROM_RESULT = "Answer the question in one or two short sentences, with what the result says and nothing else."


def lines_of(result: ToolResult, *, with_fields: bool = False) -> list[str]:
    """The lines of a result that can be quoted; an error is one, for half of it is worse than none.

    A document is told by its summary; `with_fields` adds each of its fields.
    """
    if result.error is not None:
        wrote = [line.rstrip()[:_MOST_LINE] for line in result.after_error.splitlines() if line.strip()]
        return _bounded([" ".join(f"{result.error.message} {result.error.suggestion or ''}".split()), *wrote])
    try:
        document = json.loads(result.llm_content)
    except ValueError:
        document = None
    if isinstance(document, dict):
        fields = _fields(cast("dict[str, Any]", document)) if with_fields else ()
        found = [result.display_content, *fields]
    else:
        found = [_NUMBERED.sub("", line).rstrip() for line in result.llm_content.splitlines()]
    return _bounded([line[:_MOST_LINE] for line in found if line.strip()]) or ["(nothing)"]


def _bounded(lines: list[str]) -> list[str]:
    kept: list[str] = []
    room = _MOST_QUOTED
    for at, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0 and kept:
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


def answer_grammar(sources: Sequence[str]) -> str:
    """A grammar for words about some texts: every number and every name of a file or of code stands in one of them."""
    known = "\n".join(sources)
    numbers = sorted({found.group() for found in _NUMBER.finditer(known)}, key=lambda one: (-len(one), one))[:200]
    named = {one.text for one in mentions(known)[:200] if "\n" not in one.text}
    names = sorted((one for one in named if any(mark.isdigit() for mark in one)), key=lambda one: (-len(one), one))
    given = " | ".join(literal(one) for one in [*names, *numbers])
    piece = "[^0-9\\x00-\\x08\\x0B-\\x1F]" + (" | given" if given else "")
    return f"root ::= ( {piece} )+\n" + (f"given ::= {given}\n" if given else "")


def _character(one: str) -> str:
    if one in '"\\':
        return "\\" + one
    if ord(one) < 0x20 or ord(one) == 0x7F:
        return f"\\x{ord(one):02X}"
    return one


def literal(text: str) -> str:
    """A text as a grammar's own words (GBNF, as llama.cpp reads it)."""
    return '"' + "".join(_character(one) for one in text) + '"'


CONTEXT = 4096
_MOST_OUTPUT = 300
_MOST_REQUEST = 3 * CONTEXT


def _silent(_text: str) -> None:
    pass


class LocalModel:
    """Weights on this machine; fetched and loaded when their words are first needed.

    A small model chooses badly and makes things up. So calls are picked by the words of the request alone, the smallest
    models answer with the result as it stands, and the others are held to its numbers. A model is shown the last thing
    the person said and the results since; neither the system prompt nor earlier turns.
    """

    def __init__(self, weights: Weights, *, threads: int | None = None) -> None:
        self._weights = weights
        self._threads = threads
        self._preparing = asyncio.Lock()
        self._engine: Engine | None = None
        self._picker = CallPicker(())

    @property
    def name(self) -> str:
        return f"local/{self._weights.name}"

    @property
    def context_tokens(self) -> int | None:
        """Nothing is gained by shortening a conversation of which only the end is read."""
        return None

    async def prepare(self, say: Callable[[str], None] = _silent) -> None:
        """Fetch and load now, so that the first answer need not wait for it; raises `ModelError` where it cannot be.

        `say` is told what takes long.
        """
        await self._ready(say)

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """Ask; closing the stream early stops the model at once."""
        turn = turn_so_far(request.messages)
        if len(turn.request) > _MOST_REQUEST:
            raise ModelError(
                ModelFault.TOO_LONG,
                phrase(
                    "The request has {count} characters; a model on this machine reads {most}.",
                    count=f"{len(turn.request):,}",
                    most=f"{_MOST_REQUEST:,}",
                ),
                suggestion=phrase("Name the file it is about instead of giving its text, or use a larger model."),
            )
        call = None
        choice = request.settings.tool_choice
        if request.tools and choice != "none":
            call = self._next_call(turn, request.tools, must=choice == "required")
        if call is not None:
            yield CallStarted(call.id, call.name)
            yield Finished(AssistantMessage(calls=(call,)), Usage(), "calls")
        elif turn.outcomes and is_small(self._weights):
            text = "\n".join(line for one in turn.outcomes for line in lines_of(one.result))
            yield TextDelta(text)
            yield Finished(AssistantMessage(text), Usage(), "end")
        else:
            async with aclosing(self._preparations()) as preparations:
                async for one in preparations:
                    yield one
            most = min(request.settings.max_output_tokens or _MOST_OUTPUT, CONTEXT // 2)
            async with aclosing(self._words(turn, most)) as events:
                async for event in events:
                    yield event

    is_priced = True

    def check_settings(self, settings: ModelSettings) -> None:
        """Raise `ModelError` for a setting that a model on this machine doesn't have."""
        given = settings.given()
        lacking = next((name for name in given if name not in ("max_output_tokens", "tool_choice")), "")
        if given.get("tool_choice") not in (None, "auto", "none", "required"):
            lacking = f"tool_choice={settings.tool_choice!r}"
        if lacking:
            raise ModelError(
                ModelFault.REFUSED,
                phrase("`{name}` has no `{setting}` setting.", name=self.name, setting=lacking),
                suggestion=phrase("Leave it out, or choose another model."),
            )

    async def close(self) -> None:
        """End the process that holds the model."""
        engine, self._engine = self._engine, None
        if engine is not None:
            await engine.close()

    def _next_call(self, turn: TurnSoFar, tools: Sequence[Tool[Any]], *, must: bool) -> RawCall | None:
        """The call to make now; None when it is time for words."""
        if turn.again is not None:
            return RawCall(turn.again.name, turn.again.arguments)
        has_failed = bool(turn.done) and not turn.done[-1].result.success
        part = turn.remedy or ("" if has_failed else turn.part)
        if not part:
            return None
        if self._picker.tools != tuple(tools):
            self._picker = CallPicker(tools)
        form = self._picker.pick(part, must=must)
        if form is None:
            return None
        if form.missing and not must:
            raise ModelError(
                ModelFault.REFUSED,
                phrase(
                    "The request does not say what `{parameters}` of `{tool}` is, and a small model would invent it.",
                    parameters=", ".join(form.missing),
                    tool=form.tool.name,
                ),
                suggestion=phrase("Say it in the request, texts in quotes, or use a larger model."),
            )
        arguments = json.dumps(form.arguments, ensure_ascii=False)
        if any((one.call.name, one.call.arguments) == (form.tool.name, arguments) for one in turn.done):
            return None  # it was done already: asking again gives the same
        return RawCall(form.tool.name, arguments)

    async def _words(self, turn: TurnSoFar, most_tokens: int) -> AsyncGenerator[ModelEvent, None]:
        """The model's own words, piece by piece. Greedy, so that the same question has the same answer."""
        lines = [line for one in turn.outcomes for line in lines_of(one.result, with_fields=True)]
        asked = "\n".join([turn.request, "", "Result:", *lines]) if lines else turn.request
        body: dict[str, Any] = {
            "messages": [
                {"role": "system", "content": _FROM_RESULT if lines else _SYSTEM},
                {"role": "user", "content": asked},
            ],
            "max_tokens": most_tokens,
            "repeat_penalty": 1.1,
            "temperature": 0,
            "seed": 0,
        }
        if lines:
            body["grammar"] = answer_grammar([turn.request, *lines])
        elif "smollm" in self._weights.path.name.lower():
            body["grammar"] = _ASCII_GRAMMAR  # it knows no other writing; left alone it fills the screen with signs
        text, usage, was_cut = "", Usage(), False
        engine = await self._ready(_silent)
        async with aclosing(engine.ask(body)) as chunks:
            async for chunk in chunks:
                if timings := chunk.get("timings"):
                    cached = timings["cache_n"]
                    usage += Usage(cached + timings["prompt_n"], timings["predicted_n"], cached)
                choice = chunk["choices"][0]
                was_cut = choice.get("finish_reason") == "length"
                if piece := choice["delta"].get("content"):
                    text += piece
                    yield TextDelta(piece)
        yield Finished(AssistantMessage(text.strip()), usage, "length" if was_cut else "end")

    async def _preparations(self) -> AsyncGenerator[Preparing, None]:
        """Get ready, and tell meanwhile what takes long."""
        told: asyncio.Queue[str] = asyncio.Queue()
        work = asyncio.create_task(self._ready(told.put_nowait))
        next_word: asyncio.Task[str] | None = None
        try:
            while not work.done() or not told.empty():
                next_word = asyncio.create_task(told.get())
                await asyncio.wait({next_word, work}, return_when=asyncio.FIRST_COMPLETED)
                if next_word.done():
                    yield Preparing(next_word.result())
                else:
                    next_word.cancel()
            await work
        finally:
            if next_word is not None:
                next_word.cancel()
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
                if not work.cancelled():
                    work.exception()  # seen: whoever left does not wait for it

    async def _ready(self, say: Callable[[str], None]) -> Engine:
        async with self._preparing:
            if self._engine is None:
                _require_binding()
                await fetch(self._weights, say)
                self._engine = Engine(self._weights.path, context=CONTEXT, threads=self._threads)
            await self._engine.start()
            return self._engine


def local_model(name: str = "") -> LocalModel:
    """The model that `--model local/NAME` means; without a name the smallest that can be fetched."""
    weights = find_weights(name)
    _require_binding()
    return LocalModel(weights)


def _require_binding() -> None:
    if not is_installed():
        raise ModelError(
            ModelFault.NOT_FOUND,
            phrase("Models on this machine need the extra `local`, which is not installed."),
            suggestion=phrase("Install it: {install}", install=INSTALL),
        )
