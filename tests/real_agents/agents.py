"""How each coding agent is started without a terminal and without a network, with Ferrule as its MCP server.

`scripts/real-agents` installs them. Each gets a home of its own, so nothing of the machine's user is read or written.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.real_agents.endpoint import Wire
from tests.real_agents.wire_anthropic import AnthropicMessages
from tests.real_agents.wire_chat import OpenAIChat
from tests.real_agents.wire_gemini import GeminiGenerate
from tests.real_agents.wire_responses import OpenAIResponses

ROOT = Path(__file__).parents[2]
TOOLS = Path(os.environ.get("MCP_NODE_TOOLS") or ROOT / ".venv" / "node-tools") / "agents"
SECONDS = 180
_QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "GEMINI_CLI_TRUST_WORKSPACE": "true",
    "NO_COLOR": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "npm_config_offline": "true",  # opencode would install what only plugins need
}


@dataclass
class Place:
    """Where an agent runs: its home, its workspace, its model, and Ferrule as a command or as an address."""

    home: Path
    workspace: Path
    model_url: str
    command: list[str] = field(default_factory=list[str])
    variables: dict[str, str] = field(default_factory=dict[str, str])
    url: str = ""

    def write(self, path: str, text: str) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file


Prepare = Callable[[Place], tuple[list[str], dict[str, str]]]
"""Writes an agent's settings, and gives its arguments and variables."""


@dataclass(frozen=True)
class Agent:
    name: str
    program: str
    wire: Callable[[], Wire]
    prepare: Prepare

    @property
    def path(self) -> Path:
        return TOOLS / "bin" / self.program

    def run(self, place: Place) -> subprocess.CompletedProcess[str]:
        """One turn, until the agent ends by itself."""
        arguments, variables = self.prepare(place)
        env = {
            "PATH": f"{TOOLS / 'bin'}:{os.environ['PATH']}",
            "HOME": str(place.home),
            "TMPDIR": str(place.home),
            "XDG_CONFIG_HOME": str(place.home / ".config"),
            "XDG_DATA_HOME": str(place.home / ".local/share"),
            **_QUIET,
            **variables,
        }
        return subprocess.run(
            [str(self.path), *arguments],
            cwd=place.workspace,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )


def _claude(place: Place) -> tuple[list[str], dict[str, str]]:
    server: dict[str, Any] = (
        {"type": "http", "url": place.url}
        if place.url
        else {"command": place.command[0], "args": place.command[1:], "env": place.variables}
    )
    config = place.write("mcp.json", json.dumps({"mcpServers": {"ferrule": server}}))
    arguments = ["-p", "Go on.", "--mcp-config", str(config), "--strict-mcp-config", "--output-format", "json"]
    arguments += ["--debug-file", str(place.home / "claude.log"), "--allowedTools", "mcp__ferrule"]
    return arguments, {"ANTHROPIC_BASE_URL": place.model_url, "ANTHROPIC_API_KEY": "none"}


def _codex(place: Place) -> tuple[list[str], dict[str, str]]:
    quoted = json.dumps  # a JSON string is a TOML string
    server = (
        [f"url = {quoted(place.url)}"]
        if place.url
        else [
            f"command = {quoted(place.command[0])}",
            f"args = {quoted(place.command[1:])}",
            "[mcp_servers.ferrule.env]",
        ]
        + [f"{name} = {quoted(value)}" for name, value in place.variables.items()]
    )
    lines = [
        'model = "gpt-5"', 'model_provider = "scripted"', 'approval_policy = "never"',
        "check_for_update_on_startup = false",
        "[model_providers.scripted]", 'name = "Scripted"', f"base_url = {quoted(place.model_url + '/v1')}",
        'wire_api = "responses"', "[analytics]", "enabled = false", "[mcp_servers.ferrule]", "required = true", *server,
    ]  # fmt: skip
    place.write(".codex/config.toml", "\n".join(lines))
    arguments = ["exec", "--skip-git-repo-check", "--sandbox", "danger-full-access", "Go on."]
    return arguments, {"CODEX_HOME": str(place.home / ".codex")}


def _gemini(place: Place) -> tuple[list[str], dict[str, str]]:
    server: dict[str, Any] = (
        {"httpUrl": place.url}
        if place.url
        else {"command": place.command[0], "args": place.command[1:], "env": place.variables}
    )
    settings = {
        "mcpServers": {"ferrule": server},
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    }
    place.write(".gemini/settings.json", json.dumps(settings))
    arguments = ["-p", "Go on.", "--yolo", "-m", "gemini-2.5-pro", "--output-format", "json"]
    return arguments, {"GOOGLE_GEMINI_BASE_URL": place.model_url, "GEMINI_API_KEY": "none"}


def _opencode(place: Place) -> tuple[list[str], dict[str, str]]:
    server: dict[str, Any] = (
        {"type": "remote", "url": place.url}
        if place.url
        else {"type": "local", "command": place.command, "environment": place.variables}
    )
    model: dict[str, Any] = {"name": "Scripted", "attachment": True, "tool_call": True}
    model["modalities"] = {"input": ["text", "image"], "output": ["text"]}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Scripted",
        "options": {"baseURL": place.model_url + "/v1", "apiKey": "none"},
        "models": {"scripted": model},
    }
    config = {
        "mcp": {"ferrule": {**server, "enabled": True}},
        "provider": {"scripted": provider},
        "model": "scripted/scripted",
        "autoupdate": False,
        "share": "disabled",
    }
    file = place.write("opencode.json", json.dumps(config))
    arguments = ["run", "--auto", "--print-logs", "Go on."]
    return arguments, {"OPENCODE_CONFIG": str(file)}


CLAUDE = Agent("Claude Code", "claude", AnthropicMessages, _claude)
CODEX = Agent("Codex", "codex", OpenAIResponses, _codex)
GEMINI = Agent("Gemini CLI", "gemini", GeminiGenerate, _gemini)
OPENCODE = Agent("opencode", "opencode", OpenAIChat, _opencode)
ALL = (CLAUDE, CODEX, GEMINI, OPENCODE)
