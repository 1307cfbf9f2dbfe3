"""A model behind an HTTP endpoint: asks in its provider's form, tries again where that helps, reports as it goes."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ferrule.core.model import Finished, ModelError, ModelFault, Retrying
from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined, phrase
from ferrule.models.faults import PATIENT, Faults, Tries, TryAgain
from ferrule.models.known_models import context_of, cost_of
from ferrule.models.loose_json import an_item, count, items, words
from ferrule.models.transport import USUAL, TimeLimits, Transport

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from ferrule.core.model import ModelEvent, ModelRequest
    from ferrule.models.endpoint import Endpoint
    from ferrule.models.transport import WireForm


# How much a model on a local server may read: each server has its own place to say it, and none has it in common.


async def served_context(endpoint: Endpoint, model: str, get: Callable[[str], Awaitable[Any]]) -> int | None:
    """The context in tokens; `get` fetches a path under the endpoint's base address, and may give None."""
    up = "../" * len([part for part in urlsplit(endpoint.base_url).path.split("/") if part])
    if endpoint.provider == "ollama":
        running = items(an_item(await get(f"{up}api/ps")).get("models"))
        return _first(count(one.get("context_length")) for one in running if _is(one, model))
    if endpoint.provider == "llamacpp":
        props = an_item(await get(f"{up}props"))
        return _first([count(an_item(props.get("default_generation_settings")).get("n_ctx"))])
    if endpoint.provider == "lmstudio":
        offered = items(an_item(await get(f"{up}api/v0/models")).get("data"))
        return _first(count(one.get("loaded_context_length")) for one in offered if _is(one, model))
    offered = items(an_item(await get("models")).get("data"))
    return _first(count(one.get("max_model_len")) for one in offered if _is(one, model))


def _is(listed: dict[str, Any], model: str) -> bool:
    names = {words(listed.get("name")), words(listed.get("model")), words(listed.get("id"))}
    return model in names or f"{model}:latest" in names


def _first(sizes: Any) -> int | None:
    return next((size for size in sizes if size), None)


_LIST_SECONDS = 3.0


class HttpModel:
    """Implements `Model` for any wire form. `sleep` waits between two tries; tests give their own."""

    def __init__(
        self,
        form: WireForm,
        endpoint: Endpoint,
        model: str,
        *,
        context_tokens: int | None = None,
        tries: Tries = PATIENT,
        limits: TimeLimits = USUAL,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._form = form
        self._endpoint = endpoint
        self._model = model
        self._context = context_tokens or context_of(endpoint.provider, model)
        self._tries = tries
        self._sleep = sleep
        self._transport = Transport(endpoint, limits)
        self._faults = Faults(endpoint, model)
        self._refused_fields: set[str] = set()
        self._asked_context = False

    def __repr__(self) -> str:
        return f"HttpModel({self.name!r})"

    @property
    def name(self) -> str:
        return f"{self._endpoint.provider}/{self._model}"

    @property
    def context_tokens(self) -> int | None:
        return self._context

    async def stream(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        attempt = 0
        while True:
            attempt += 1
            shown = False
            try:
                async with aclosing(self._attempt(request)) as events:
                    async for event in events:
                        if isinstance(event, Finished):
                            await self._learn_context()
                        shown = True
                        yield event
                return  # noqa: TRY300 - the loop goes on after a failure alone
            except TryAgain as failed:
                seconds = self._tries.wait(attempt, failed.after)
                if seconds is None:
                    raise self._given_up(failed, attempt) from None
                yield Retrying(attempt, seconds, failed.error.message, restarted=shown)
                await self._sleep(seconds)
            except ModelError as error:
                if not shown and self._can_do_without(error):
                    attempt -= 1  # each field can be refused once, so this ends
                    continue
                raise await self._with_nearest(error) from None

    async def _attempt(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        body = {
            key: value
            for key, value in self._form.body(request, self._model).items()
            if key not in self._refused_fields
        }
        reader = self._form.reader(self._faults, self._model)
        exchange = self._transport.exchange(self._faults)
        frames = exchange.frames(self._form.path(self._model), self._form.headers(self._endpoint), body)
        try:
            async with aclosing(frames):
                async for frame in frames:
                    for event in reader.read(frame):
                        yield event
                    if reader.is_complete:
                        exchange.expect_the_end(is_over=reader.is_over)
        except TryAgain:
            if not reader.is_complete:
                raise
        if not reader.is_complete:
            raise self._faults.broken(phrase("the answer ended in the middle"))
        for event in reader.finish():
            if isinstance(event, Finished) and event.usage.cost is None:
                yield replace(
                    event, usage=replace(event.usage, cost=cost_of(self._endpoint.provider, self._model, event.usage))
                )
            else:
                yield event

    async def list_models(self, seconds: float = _LIST_SECONDS) -> list[str] | None:
        """The names that its provider offers; None when it does not say in time."""
        headers = self._form.headers(self._endpoint)
        status, found = await self._transport.get(self._form.models_path(), headers, seconds)
        return self._form.model_names(found) if status == 200 else None

    async def close(self) -> None:
        await self._transport.close()

    # After a failure

    def _given_up(self, failed: TryAgain, attempt: int) -> ModelError:
        error = failed.error
        if failed.after is not None and attempt < self._tries.most:
            why = phrase("It asks to wait {seconds} s, which is too long to wait for.", seconds=f"{failed.after:,.0f}")
        else:
            why = phrase("Tried {count} times.", count=attempt) if attempt > 1 else ""
        message = joined(" ", [error.message, why])
        return ModelError(error.fault, message, suggestion=error.suggestion, status=error.status)

    def _can_do_without(self, error: ModelError) -> bool:
        """Whether the server refused a field that is not essential; it is left out from now on."""
        if error.fault is not ModelFault.REFUSED:
            return False
        named = {field for field in self._form.optional_fields - self._refused_fields if field in error.message}
        self._refused_fields |= named
        return bool(named)

    async def _with_nearest(self, error: ModelError) -> ModelError:
        if error.fault is not ModelFault.NOT_FOUND:
            return error
        close = nearest(self._model, await self.list_models() or [])
        if not close:
            return error
        listed = " or ".join(f"`{self._endpoint.provider}/{name}`" for name in close)
        return ModelError(
            error.fault, error.message, suggestion=phrase("Did you mean {names}?", names=listed), status=error.status
        )

    async def _learn_context(self) -> None:
        """Ask a server on this machine how much it lets a model read, once the model is loaded."""
        if self._context is None and not self._asked_context and self._endpoint.is_local:
            self._asked_context = True
            self._context = await served_context(self._endpoint, self._model, self._ask_server)

    async def _ask_server(self, path: str) -> Any:
        status, found = await self._transport.get(path, self._form.headers(self._endpoint), _LIST_SECONDS)
        return found if status == 200 else None
