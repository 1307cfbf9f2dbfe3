"""`ferrule models`: what can be asked, and what the others need."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .conftest import Command

NOWHERE = "http://127.0.0.1:9/v1"


class Listing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.headers.get("x-api-key") != "secret-key":
            self.send_error(401)
            return
        names = ["claude-sonnet-4-5-20250929", "claude-nobody-knows", *(f"claude-old-{at:02}" for at in range(20))]
        body = json.dumps({"data": [{"id": name} for name in names]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def listing() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Listing)
    threading.Thread(target=server.serve_forever).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def alone(ferrule: Command) -> Command:
    """The command where nothing is set, and nothing listens."""
    kept = {key: value for key, value in ferrule.environment.items() if not key.endswith(("_API_KEY", "_BASE_URL"))}
    ferrule.environment = kept | {f"{name}_BASE_URL": NOWHERE for name in ("OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM")}
    return ferrule


def test_without_anything_it_says_what_each_needs(alone: Command) -> None:
    done = alone("models")
    assert done.code == 0
    assert "export ANTHROPIC_API_KEY=…" in done.out
    assert "start Ollama" in done.out
    assert "FERRULE_MODEL=PROVIDER/NAME" in done.out
    chinese = alone("--lang", "zh", "models").out
    assert "没有密钥" in chinese
    assert "启动 Ollama" in chinese


def test_what_can_be_asked_is_listed_with_size_and_price(alone: Command, listing: str) -> None:
    alone.environment |= {"ANTHROPIC_API_KEY": "secret-key", "ANTHROPIC_BASE_URL": listing}
    done = alone("models")
    assert "anthropic/claude-sonnet-4-5-20250929" not in done.out  # the 16th of a provider is left out, and counted
    assert "7 more" in done.out
    done = alone("models", "sonnet")
    line = next(line for line in done.out.splitlines() if line.startswith("anthropic/"))
    assert line.split() == ["anthropic/claude-sonnet-4-5-20250929", "200,000", "3", "/", "15"]
    assert alone("models", "--all").out.count("anthropic/claude-") == 22
    assert "secret-key" not in alone("models", "--json").out


def test_a_refused_key_is_said_with_where_it_came_from(alone: Command, listing: str) -> None:
    alone.environment |= {"ANTHROPIC_API_KEY": "wrong-key", "ANTHROPIC_BASE_URL": listing}
    done = alone("models")
    assert "key refused" in done.out
    assert "check ANTHROPIC_API_KEY" in done.out


def test_json_for_programs(alone: Command, listing: str) -> None:
    alone.environment |= {"ANTHROPIC_API_KEY": "secret-key", "ANTHROPIC_BASE_URL": listing, "FERRULE_LANG": "zh"}
    found = {one["provider"]: one for one in alone("models", "sonnet", "--json").json}
    assert found["anthropic"]["state"] == "ready"
    assert found["anthropic"]["models"] == [
        {
            "name": "anthropic/claude-sonnet-4-5-20250929",
            "context_tokens": 200_000,
            "usd_per_million_tokens": {"read": 3, "written": 15, "as_of": f"genai-prices {version('genai-prices')}"},
        }
    ]
    assert found["openai"]["state"] == "no_key"
    assert found["openai"]["key_variables"] == ["OPENAI_API_KEY"]


def test_a_provider_that_an_untrusted_workspace_names_is_not_contacted(alone: Command, listing: str) -> None:
    alone.environment |= {"ANTHROPIC_API_KEY": "secret-key"}
    (alone.workspace / "ferrule.toml").write_text(f'[providers.anthropic]\nbase_url = "{listing}"\n')
    alone.environment["ANTHROPIC_BASE_URL"] = NOWHERE
    done = alone("models")
    assert "asks for providers" in done.err
    assert "claude" not in done.out


def test_no_match_is_said(alone: Command) -> None:
    done = alone("models", "nothing-like-this")
    assert (done.code, done.out.strip(), done.err.strip()) == (0, "", "No model matches.")
