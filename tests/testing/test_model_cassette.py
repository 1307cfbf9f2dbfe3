"""X3: what goes over the wire to a provider, recorded once and replayed without it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from anthropic.types import RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from inline_snapshot import snapshot
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter
from tests.models.endpoints.server import CUT, HANG, Reply, Server, body, sse
from tests.models.endpoints.wire import FORMS, KEY, Call, Says, Waits, chat_chunk, model_at, reply

from ferrule.agent import Agent
from ferrule.core.function_tool import tool
from ferrule.core.model import ModelError, ModelEvent, ModelFault, ModelRequest, Retrying, UserMessage
from ferrule.models import open_model
from ferrule.models.http_model import HttpModel
from ferrule.pipeline.run import Runtime
from ferrule.testing import Cassette, CassetteMissError, ScriptedModel
from ferrule.testing.tape import TapedRequest

GONE = "http://127.0.0.1:9"  # nothing listens there


@tool(kind="readonly")
async def get_rate(base: str, api_key: str = "") -> float:
    """The rate of a currency."""
    return 1.25


CONVERSATION = (
    Says(thinking=["Hm", "m."], calls=[Call("c1", "get_rate", ['{"ba', 'se": "EUR"}'])], stop="calls"),
    Says(text=["It is ", "1.25."]),
)


async def converse(cassette: Cassette, model: HttpModel, text: str = "What is the rate?") -> list[Any]:
    """What an agent shows of a turn with this model."""
    taped = cassette.model(model)
    agent = Agent(taped, runtime=Runtime([get_rate]))
    events = [event async for event in agent.run(text)]
    await taped.close()
    return [event for event in events if type(event).__name__ not in ("Pending", "Done", "CallAsked")]


def secret_free(path: Path, *secrets: str) -> str:
    text = path.read_text(encoding="utf-8")
    for secret in (KEY, *secrets):
        assert secret not in text
    return text


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
async def test_a_conversation_is_replayed_as_it_was_without_a_provider(form: str, stream: bool, tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    async with Server(*(reply(form, says, stream=stream) for says in CONVERSATION)) as server:
        with Cassette(path) as cassette:
            recorded = await converse(cassette, model_at(server.url, form))
    assert len(server.requests) == 2
    with Cassette(path, mode="replay") as cassette:
        replayed = await converse(cassette, model_at(GONE, form, key="another key"))
        assert cassette.unused == []
    assert [str(event) for event in replayed] == [str(event) for event in recorded]
    assert recorded[-1].text == "It is 1.25."
    secret_free(path)


def sent(cassette: Cassette) -> Iterable[TapedRequest]:
    return (one for one in cassette.requests if one.request.startswith("POST"))


def in_full(answer: Reply) -> Reply:
    """With all that the Responses API says of a response in its events."""
    said: dict[str, Any] = {
        "created_at": 1, "model": "m", "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
        "max_output_tokens": None, "prompt_cache_key": None,
    }  # fmt: skip
    pieces: list[bytes] = []
    for piece in answer.pieces:
        head, _, data = piece.partition(b"data: ")
        event: dict[str, Any] = {"logprobs": [], **json.loads(data)}
        if "response" in event:
            event["response"] = {**said, **event["response"]}
            event["response"]["usage"]["input_tokens_details"]["cache_write_tokens"] = 0
        pieces.append(head + b"data: " + json.dumps(event).encode() + b"\n\n")
    return Reply(pieces)


async def recorded_by(form: str, path: Path, *says: Says) -> Cassette:
    answers = [reply(form, one) for one in says]
    async with Server(*(map(in_full, answers) if form == "responses" else answers)) as server:
        with Cassette(path) as cassette:
            await converse(cassette, model_at(server.url, form), f"My password=hunter2 and {KEY}.")
    return Cassette(path, mode="replay")


SDK_TYPES: dict[str, tuple[Any, Any]] = {
    "chat": (CompletionCreateParamsStreaming, ChatCompletionChunk),
    "responses": (dict[str, Any], ResponseStreamEvent),
    "anthropic": (MessageCreateParamsStreaming, RawMessageStreamEvent),
}


@pytest.mark.parametrize("form", SDK_TYPES)
async def test_what_is_on_a_cassette_is_what_the_sdk_reads_and_sends(form: str, tmp_path: Path) -> None:
    """Secrets that were removed leave the form as it was."""
    cassette = await recorded_by(form, tmp_path / "c.json", *CONVERSATION)
    request, event = (TypeAdapter(one) for one in SDK_TYPES[form])
    requests = list(sent(cassette))
    assert len(requests) == 2
    for one in requests:
        request.validate_python(one.body)
        assert one.events
        for each in one.events:
            if each.data not in ("[DONE]", {"type": "ping"}):
                event.validate_json(json.dumps(each.data))


SPLIT = f"the key is {KEY} indeed"


@pytest.mark.parametrize("form", FORMS)
async def test_secrets_are_removed_before_anything_is_written(form: str, tmp_path: Path) -> None:
    """In headers, query, requests and answers, also where an answer streams one in pieces."""
    path = tmp_path / "c.json"
    pieces = [SPLIT[at : at + 5] for at in range(0, len(SPLIT), 5)]
    arguments = '{"base": "EUR", "api_key": "hunter3"}'
    calls = [Call("c1", "get_rate", [arguments[at : at + 4] for at in range(0, len(arguments), 4)])]
    cassette = await recorded_by(form, path, Says(text=pieces, calls=calls, stop="calls"), Says(text=["Done."]))
    text = secret_free(path, "hunter2", "hunter3", "authorization", "x-api-key", "x-goog")
    assert KEY[:12] not in text
    replayed = await converse(cassette, model_at(GONE, form), f"My password=hunter2 and {KEY}.")
    cassette.check()
    first = next(event for event in replayed if type(event).__name__ == "Answered")
    assert first.message.text == "the key is [redacted] indeed"
    given = first.message.calls[0].arguments
    assert (json.loads(given) if isinstance(given, str) else given) == {"base": "EUR", "api_key": "[redacted]"}


async def test_a_key_of_no_known_shape_is_removed_wherever_it_is_echoed(tmp_path: Path) -> None:
    key = "plain-and-ordinary-words"
    path = tmp_path / "c.json"
    refused = body({"error": {"message": f"Incorrect key {key}", "code": "invalid_api_key"}}, 401, x_echo=key)
    async with Server(refused) as server:
        with Cassette(path) as cassette, pytest.raises(ModelError) as first:
            await ask_taped(cassette, model_at(server.url, key=key))
        cassette.save()
    assert key not in path.read_text(encoding="utf-8")
    with Cassette(path, mode="replay") as cassette, pytest.raises(ModelError) as second:
        await ask_taped(cassette, model_at(GONE))
    assert (first.value.fault, second.value.fault) == (ModelFault.KEY, ModelFault.KEY)


async def ask_taped(cassette: Cassette, model: HttpModel, text: str = "hello") -> list[ModelEvent]:
    taped = cassette.model(model)
    try:
        return [event async for event in taped.stream(ModelRequest([UserMessage(text)]))]
    finally:
        await taped.close()


HELLO = reply("chat", Says(text=["Hello", "."]))


def what(events: list[ModelEvent]) -> list[str]:
    return [str(event) if not isinstance(event, Retrying) else f"{event.why} {event.restarted}" for event in events]


@pytest.mark.parametrize(
    "failure",
    [
        body({"error": {"message": "Slow down.", "code": "rate_limit_exceeded"}}, 429, retry_after="20"),
        body({"error": {"message": "Overloaded."}}, 503),
        Reply([*sse(chat_chunk({"content": "Hel"})), CUT]),
        Reply([*sse(chat_chunk({"content": "Hel"})), b'data: {"choi']),
        Reply([b'{"choices": ['], content_type="application/json"),
        Reply([CUT]),
    ],
    ids=["rate limit", "overloaded", "torn", "ended early", "torn JSON", "nothing"],
)
async def test_a_failed_try_and_the_next_are_replayed_without_a_wait(failure: Reply, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    async with Server(failure, HELLO) as server:
        with Cassette(path) as cassette:
            recorded = await ask_taped(cassette, model_at(server.url))
    with Cassette(path, mode="replay") as cassette:
        waits = Waits()
        replayed = await ask_taped(cassette, model_at(GONE, waits=waits))
        assert cassette.unused == []
    assert what(replayed) == what(recorded)
    assert any(isinstance(event, Retrying) for event in recorded)
    assert waits.seconds == []


async def test_a_connection_that_cannot_be_made_is_replayed_too(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    words: list[str] = []
    for mode in ("record", "replay"):
        cassette = Cassette(path, mode=mode)  # pyright: ignore[reportArgumentType]
        with pytest.raises(ModelError) as error:
            await ask_taped(cassette, model_at(GONE))
        words.append(str(error.value))
        if cassette.recording:
            cassette.save()
    assert words[0] == words[1]
    assert "is not running on this machine" in words[0]


async def test_packed_answers_are_written_so_that_they_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    packed = Reply(HELLO.pieces, zipped=True)
    async with Server(packed) as server:
        with Cassette(path) as cassette:
            recorded = await ask_taped(cassette, model_at(server.url))
    with Cassette(path, mode="replay") as cassette:
        assert what(await ask_taped(cassette, model_at(GONE))) == what(recorded)
    assert '"content": "Hello"' in path.read_text(encoding="utf-8")


async def test_an_answer_that_was_left_early_is_kept_as_far_as_it_came(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    first: list[str] = []
    for mode, url in (("record", ""), ("replay", GONE)):
        async with Server(Reply([*sse(chat_chunk({"content": "Hel"})), HANG])) as server:
            cassette = Cassette(path, mode=mode)  # pyright: ignore[reportArgumentType]
            taped = cassette.model(model_at(url or server.url))
            stream = taped.stream(ModelRequest([UserMessage("hello")]))
            first.append(str(await anext(aiter(stream))))
            await stream.aclose()  # type: ignore[attr-defined]
            await taped.close()
            if cassette.recording:
                cassette.save()
    assert first[0] == first[1]


async def test_what_was_not_recorded_is_refused_and_says_what_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with Server(HELLO) as server:
        with Cassette("c.json") as cassette:
            await ask_taped(cassette, model_at(server.url), "What is the rate of the euro in Swiss francs, please?")
            requests = len(server.requests)
        with pytest.raises(CassetteMissError) as miss, Cassette("c.json") as cassette:
            await ask_taped(cassette, model_at(server.url), "What is the rate of the euro in Danish krones, please?")
        assert len(server.requests) == requests
    assert str(miss.value) == snapshot("""\
Not recorded in c.json: POST chat/completions to scripted/m
The nearest that was differs at `messages[0].content`:
  recorded: …at is the rate of the euro in Swiss francs, please?"
  now:      …at is the rate of the euro in Danish krones, please?"
To record again, delete the file or open it with mode="record".\
""")
    with pytest.raises(CassetteMissError) as miss, Cassette("c.json") as cassette:
        await ask_taped(cassette, model_at(GONE, provider="elsewhere"))
    assert str(miss.value) == snapshot("""\
Not recorded in c.json: POST chat/completions to elsewhere/m
No request to `elsewhere/m` was, nor to a model with a name like it.
To record again, delete the file or open it with mode="record".\
""")


async def test_a_turn_that_asks_for_more_fails_the_test_in_every_way_it_is_run(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    async with Server(HELLO) as server:
        with Cassette(path) as cassette:
            await ask_taped(cassette, model_at(server.url))
    with pytest.raises(CassetteMissError), Cassette(path, mode="replay") as cassette:
        await Agent(cassette.model(model_at(GONE)), runtime=Runtime([])).answer("Something else.")
    with pytest.raises(CassetteMissError), Cassette(path, mode="replay") as cassette:
        events = Agent(cassette.model(model_at(GONE)), runtime=Runtime([])).run("Something else.")
        assert [event async for event in events][-1].ending == "failed"  # type: ignore[union-attr]


async def test_ids_that_ferrule_makes_do_not_make_another_request(tmp_path: Path) -> None:
    """Gemini gives its calls no ids."""
    path = tmp_path / "c.json"
    says = [Says(calls=[Call("", "get_rate", ['{"base": "EUR"}'])] * 2, stop="calls"), Says(text=["Done."])]
    for form in ("gemini", "chat"):
        path = tmp_path / f"{form}.json"
        async with Server(*(reply(form, one) for one in says)) as server:
            with Cassette(path) as cassette:
                await converse(cassette, model_at(server.url, form))
        with Cassette(path, mode="replay") as cassette:
            assert (await converse(cassette, model_at(GONE, form)))[-1].text == "Done."


async def test_tools_and_models_share_a_cassette(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    ran: list[str] = []

    @tool(kind="readonly")
    async def get_rate(base: str) -> float:
        """The rate of a currency."""
        ran.append(base)
        return 1.25

    async def play(cassette: Cassette, url: str) -> str:
        taped = cassette.model(model_at(url))
        ended = await Agent(taped, runtime=Runtime(cassette.tools([get_rate]))).answer("What is the rate?")
        await taped.close()
        return ended.text

    async with Server(*(reply("chat", says) for says in CONVERSATION)) as server:
        with Cassette(path) as cassette:
            recorded = await play(cassette, server.url)
    with Cassette(path, mode="replay") as cassette:
        assert await play(cassette, GONE) == recorded
        assert cassette.unused == []
    assert ran == ["EUR"]


async def test_a_function_of_ones_own_takes_out_what_changes(tmp_path: Path) -> None:
    def redact(value: Any) -> Any:
        text = json.dumps(value)
        return json.loads(text.replace("Monday", "today").replace("Tuesday", "today"))

    path = tmp_path / "c.json"
    async with Server(HELLO) as server:
        with Cassette(path, redact=redact) as cassette:
            await ask_taped(cassette, model_at(server.url), "It is Monday.")
    with Cassette(path, mode="replay", redact=redact) as cassette:
        await ask_taped(cassette, model_at(GONE), "It is Tuesday.")


async def test_a_name_needs_no_key_to_be_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.json"
    async with Server(reply("anthropic", Says(text=["Hello."]))) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        with Cassette(path) as cassette:
            taped = cassette.model("anthropic/claude-x")
            recorded = [event async for event in taped.stream(ModelRequest([UserMessage("hello")]))]
            await taped.close()
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    with pytest.raises(ModelError):
        open_model("anthropic/claude-x")
    with Cassette(path, mode="replay") as cassette:
        taped = cassette.model("anthropic/claude-x")
        assert what([event async for event in taped.stream(ModelRequest([UserMessage("hello")]))]) == what(recorded)
        await taped.close()


def test_a_model_that_is_not_asked_over_http_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="records models that are asked over HTTP, which <ferrule"):
        Cassette(tmp_path / "c.json").model(ScriptedModel())


async def test_the_file_is_made_to_be_read(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    async with Server(HELLO) as server:
        with Cassette(path) as cassette:
            model = cassette.model(HttpModel(*parts_of(server.url), context_tokens=1000))
            _ = [event async for event in model.stream(ModelRequest([UserMessage("hello")], "Be brief."))]
            await model.close()
    assert path.read_text(encoding="utf-8") == snapshot("""\
{
  "ferrule_cassette": 2,
  "tools": {},
  "calls": [],
  "requests": [
    {
      "model": "scripted/m",
      "request": "POST chat/completions",
      "body": {
        "model": "m",
        "messages": [
          {
            "role": "system",
            "content": "Be brief."
          },
          {
            "role": "user",
            "content": "hello"
          }
        ],
        "stream": true,
        "stream_options": {
          "include_usage": true
        }
      },
      "status": 200,
      "headers": {
        "content-type": "text/event-stream"
      },
      "events": [
        {
          "data": {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [
              {
                "index": 0,
                "delta": {
                  "role": "assistant",
                  "content": ""
                },
                "finish_reason": null
              }
            ]
          }
        },
        {
          "data": {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [
              {
                "index": 0,
                "delta": {
                  "content": "Hello"
                },
                "finish_reason": null
              }
            ]
          }
        },
        {
          "data": {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [
              {
                "index": 0,
                "delta": {
                  "content": "."
                },
                "finish_reason": null
              }
            ]
          }
        },
        {
          "data": {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [
              {
                "index": 0,
                "delta": {},
                "finish_reason": "stop"
              }
            ]
          }
        },
        {
          "data": {
            "id": "c1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [],
            "usage": {
              "prompt_tokens": 120,
              "completion_tokens": 30,
              "total_tokens": 150,
              "prompt_tokens_details": {
                "cached_tokens": 40
              }
            }
          }
        },
        {
          "data": "[DONE]"
        }
      ]
    }
  ]
}
""")


def parts_of(url: str) -> Any:
    model: Any = model_at(url)
    return model._form, model._endpoint, "m"
