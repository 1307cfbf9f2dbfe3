"""What providers say, read into faults and words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule.core.model import ModelError, ModelFault
from ferrule.models.faults import Endpoint, Faults, TryAgain

FAR = Faults(
    Endpoint("openai", "OpenAI", "https://api.openai.com/v1", "sk-key-1234567890abcdef", "OPENAI_API_KEY"), "gpt-5"
)
NEAR = Faults(Endpoint("ollama", "Ollama", "http://127.0.0.1:11434/v1"), "qwen3")


def error(status: int, body: Any, headers: dict[str, str] | None = None, faults: Faults = FAR) -> ModelError:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = faults.from_status(status, headers or {}, raw)
    return found.error if isinstance(found, TryAgain) else found


# As the providers' documents and servers write them.
SAID: list[tuple[int, Any, ModelFault, bool]] = [
    (401, {"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}}, ModelFault.KEY, False),
    (
        401,
        {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}},
        ModelFault.KEY,
        False,
    ),
    (
        400,
        {"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}},
        ModelFault.KEY,
        False,
    ),
    (403, {"error": {"message": "Country not supported"}}, ModelFault.REFUSED, False),
    (402, {"error": {"message": "Insufficient Balance"}}, ModelFault.MONEY, False),
    (
        429,
        {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}},
        ModelFault.MONEY,
        False,
    ),
    (400, {"type": "error", "error": {"message": "Your credit balance is too low"}}, ModelFault.MONEY, False),
    (429, {"error": {"message": "You exceeded your current quota. Please retry in 20s."}}, ModelFault.BUSY, True),
    (429, {"error": {"message": "Rate limit reached for requests per minute"}}, ModelFault.BUSY, True),
    (404, {"error": 'model "qwen3" not found, try pulling it first'}, ModelFault.NOT_FOUND, False),
    (400, {"error": {"message": "qwen/x is not a valid model ID"}}, ModelFault.NOT_FOUND, False),
    (404, {"error": {"message": "models/gemini-9 is not found for API version v1beta"}}, ModelFault.NOT_FOUND, False),
    (400, {"error": {"code": "context_length_exceeded", "message": "too much"}}, ModelFault.TOO_LONG, False),
    (400, {"error": {"message": "prompt is too long: 210000 tokens > 200000"}}, ModelFault.TOO_LONG, False),
    (400, {"error": {"message": "The input token count (1200000) exceeds the maximum"}}, ModelFault.TOO_LONG, False),
    (
        400,
        {"error": {"type": "exceed_context_size_error", "message": "the request exceeds"}},
        ModelFault.TOO_LONG,
        False,
    ),
    (413, b"", ModelFault.TOO_LONG, False),
    (400, {"error": {"message": "qwen3 does not support tools"}}, ModelFault.REFUSED, False),
    (422, {"detail": "what?"}, ModelFault.REFUSED, False),
    (529, {"error": {"type": "overloaded_error", "message": "Overloaded"}}, ModelFault.BUSY, True),
    (503, b"upstream connect error", ModelFault.BUSY, True),
    (500, {"error": {"message": "The server had an error"}}, ModelFault.UNREACHABLE, True),
    (502, b"<html>Bad Gateway</html>", ModelFault.UNREACHABLE, True),
    (599, b"", ModelFault.UNREACHABLE, True),
]


@pytest.mark.parametrize(("status", "body", "fault", "again"), SAID)
def test_the_fault_and_whether_another_try_helps(status: int, body: Any, fault: ModelFault, again: bool) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = FAR.from_status(status, {}, raw)
    assert isinstance(found, TryAgain) is again
    assert error(status, body).fault is fault
    assert error(status, body).suggestion


def test_the_words() -> None:
    assert str(error(401, {"error": {"message": "Incorrect API key provided: sk-key-1234567890abcdef."}})) == snapshot(
        "OpenAI did not accept the key from OPENAI_API_KEY (401): Incorrect API key provided: [redacted]. "
        "Check OPENAI_API_KEY: it may be mistyped, expired or for another service."
    )
    assert str(error(429, {"error": {"message": "slow down"}})) == snapshot(
        "OpenAI is getting too many requests (429): slow down. Wait a little and try again, or choose another model:"
        " `ferrule models`."
    )
    assert str(error(404, {"error": "not found"}, faults=NEAR)) == snapshot(
        "Ollama has no model `qwen3` (404): not found. Fetch it first: ollama pull qwen3"
    )
    assert str(error(401, {}, faults=NEAR)) == snapshot(
        "Ollama did not accept a request without a key (401). Give a key for Ollama; `ferrule models` says "
        "where it is looked for."
    )
    assert str(error(400, {"error": {"message": "qwen3 does not support tools"}}, faults=NEAR)) == snapshot(
        "Ollama does not accept the request (400): qwen3 does not support tools. qwen3 cannot call tools as "
        "it is served. Choose another model: `ferrule models`."
    )
    assert str(FAR.broken("the answer ended in the middle").error) == snapshot(
        "OpenAI (api.openai.com): the answer ended in the middle. Check the network and any proxy "
        "(HTTPS_PROXY), then try again."
    )
    assert str(NEAR.no_connection("refused")) == snapshot(
        "Ollama is not running on this machine, or not at this address (127.0.0.1). Start Ollama, or choose "
        "another model: `ferrule models`."
    )
    assert str(FAR.no_connection("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed")) == snapshot(
        "OpenAI (api.openai.com) shows a certificate that this machine does not trust. If a proxy of your "
        "organisation is in between, name its certificate: SSL_CERT_FILE=…"
    )


def test_the_server_decides_whether_to_try_again() -> None:
    assert isinstance(FAR.from_status(500, {"x-should-retry": "false"}, b""), ModelError)
    assert isinstance(FAR.from_status(400, {"x-should-retry": "true"}, b""), TryAgain)


def test_what_a_reseller_was_told_is_what_is_shown() -> None:
    body = {"error": {"message": "Provider returned error", "metadata": {"raw": "the real reason"}}}
    assert "the real reason" in error(400, body).message


def test_foreign_words_are_short_and_on_one_line() -> None:
    said = error(400, {"error": {"message": "a\n\x1b[31mb" + "c" * 9000}}).message
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) < 500


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"[[]]", b'"x"', b"{}", b'{"error": 5}', b'{"error": []}', b"\xff"]
)
def test_any_body_gives_an_error_with_words(body: bytes) -> None:
    assert error(400, body).message.startswith("OpenAI does not accept the request (400)")


def test_an_error_inside_a_stream_counts_as_its_status() -> None:
    found = FAR.from_body({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})
    assert isinstance(found, TryAgain)
    assert (found.error.fault, found.error.status) == (ModelFault.BUSY, 529)
    found = FAR.from_body({"error": {"code": 401, "message": "who are you"}})
    assert isinstance(found, ModelError)
    assert found.fault is ModelFault.KEY
