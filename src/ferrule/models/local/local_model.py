"""A model that runs on this machine, as the agent sees every other one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

from ferrule.core.model import AssistantMessage, CallStarted, Finished, ModelError, ModelFault, Preparing, TextDelta
from ferrule.core.phrases import phrase
from ferrule.models.guided.guide import Ability, Guide, turn_so_far
from ferrule.models.local.engine import Engine
from ferrule.models.local.fetch import fetch
from ferrule.models.local.weights import INSTALL, find_weights, is_installed, is_small

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from ferrule.core.model import ModelEvent, ModelRequest
    from ferrule.models.local.weights import Weights

CONTEXT = 4096
_MOST_OUTPUT = 300
_MOST_REQUEST = 3 * CONTEXT


def _silent(_text: str) -> None:
    pass


class LocalModel:
    """Weights on this machine; fetched, loaded and asked as needed.

    Small models read little: the last thing the person said, and the results since. Neither the system prompt nor
    earlier turns are shown to them.
    """

    def __init__(self, weights: Weights, *, threads: int | None = None) -> None:
        self._weights = weights
        self._threads = threads
        self._preparing = asyncio.Lock()
        self._engine: Engine | None = None
        self._guide: Guide | None = None

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
        asked = turn_so_far(request.messages).request
        if len(asked) > _MOST_REQUEST:
            raise ModelError(
                ModelFault.TOO_LONG,
                phrase(
                    "The request has {count} characters; a model on this machine reads {most}.",
                    count=f"{len(asked):,}",
                    most=f"{_MOST_REQUEST:,}",
                ),
                suggestion=phrase("Name the file it is about instead of giving its text, or use a larger model."),
            )
        async with aclosing(self._preparations()) as preparations:
            async for one in preparations:
                yield one
        guide = await self._ready(_silent)
        guide.begin()
        call = None
        if request.tools and request.tool_choice != "none":
            must = request.tool_choice == "required"
            call = await guide.next_call(request.messages, request.tools, must=must)
        if call is not None:
            yield CallStarted(call.id, call.name)
            yield Finished(AssistantMessage(calls=(call,)), guide.usage, "calls")
            return
        text = ""
        most = min(request.max_output_tokens or _MOST_OUTPUT, CONTEXT // 2)
        async with aclosing(guide.words(request.messages, most)) as pieces:
            async for piece in pieces:
                text += piece
                yield TextDelta(piece)
        yield Finished(AssistantMessage(text.strip()), guide.usage, "length" if guide.was_cut else "end")

    async def close(self) -> None:
        """End the process that holds the model."""
        engine, self._engine, self._guide = self._engine, None, None
        if engine is not None:
            await engine.close()

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

    async def _ready(self, say: Callable[[str], None]) -> Guide:
        async with self._preparing:
            if self._guide is None:
                _require_binding()
                await fetch(self._weights, say)
                self._engine = Engine(self._weights.path, context=CONTEXT, threads=self._threads)
                self._guide = Guide(self._engine, _ability(self._weights))
            if self._engine is not None:
                await self._engine.start()
            return self._guide


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


def _ability(weights: Weights) -> Ability:
    if is_small(weights):
        return Ability(only_ascii="smollm" in weights.path.name.lower())
    return Ability(margin=5.0, voice=1.0, quotes=False, result_chars=4000)
