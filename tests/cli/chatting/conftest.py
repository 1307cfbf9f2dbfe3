"""A person at `ferrule chat`: the real program on a real terminal, with a model that follows a script."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.cli.mcp_peer import PATIENT
from tests.cli.terminal import Terminal

from ferrule.app.build import App
from ferrule.app.settings import Settings
from ferrule.cli.chatting.chat_session import Chat, ChatAssistant
from ferrule.cli.chatting.commands import run_command
from ferrule.cli.chatting.questions import chat_asker
from ferrule.cli.chatting.screen import PlainScreen
from ferrule.testing import ScriptedModel
from ferrule.testing.scripted_model import Reply


class Desk:
    """A workspace, a data folder and settings of its own; `chat` starts the program."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.settings = folder / "ferrule.toml"
        self.settings.write_text("")
        self.data = folder / "data"
        self._open: list[Terminal] = []
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("FERRULE_")},
            "FERRULE_DATA": str(self.data),
            "FERRULE_CONFIG": str(self.settings),
            "LC_ALL": "C.UTF-8",
            "TERM": "linux",
        }
        self.environment.pop("NO_COLOR", None)

    def script(self, *replies: Any) -> str:
        file = self.folder / "script.json"
        file.write_text(json.dumps(replies))
        return f"scripted:{file}"

    def chat(
        self, replies: list[Any], *arguments: str, columns: int = 80, rows: int = 24, rewraps: bool = False,
        environment: dict[str, str] | None = None,
    ) -> Terminal:  # fmt: skip
        return self.start(
            [sys.executable, PATIENT, "chat", "--model", self.script(*replies), *arguments],
            columns=columns, rows=rows, rewraps=rewraps, environment=environment,
        )  # fmt: skip

    def gated(
        self, pieces: list[str], *arguments: str, columns: int = 80, rows: int = 24, rewraps: bool = False
    ) -> Terminal:
        (self.folder / "answer.json").write_text(json.dumps(pieces))
        program = str(Path(__file__).parents[1] / "gated_chat.py")
        return self.start(
            [sys.executable, program, str(self.folder), "chat", *arguments],
            columns=columns, rows=rows, rewraps=rewraps,
            environment={"TERM": "xterm-256color"} if rewraps else None,
        )  # fmt: skip

    def let_through(self, piece: int) -> None:
        (self.folder / str(piece)).touch()

    def start(
        self, arguments: list[str], *, columns: int, rows: int, rewraps: bool, environment: dict[str, str] | None
    ) -> Terminal:
        terminal = Terminal(
            arguments, self.workspace, {**self.environment, **(environment or {})},
            columns=columns, rows=rows, rewraps=rewraps,
        )  # fmt: skip
        self._open.append(terminal)
        return terminal

    def file(self, name: str, text: str) -> Path:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def said(self) -> list[dict[str, Any]]:
        """Every line of every saved session, the last one used last; results stand where they are named."""
        files = sorted((self.data / "sessions").glob("*.jsonl"), key=lambda file: file.stat().st_mtime)
        lines: list[dict[str, Any]] = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        done = {line["result"]["call_id"]: line["result"] for line in lines if line.get("type") == "done"}
        for line in lines:
            if line.get("type") == "results":
                line["results"] = [done[one["of"]] if "of" in one else one for one in line["results"]]
        return lines

    def close(self) -> None:
        for terminal in self._open:
            terminal.__exit__()


class Room:
    """A conversation inside the test's own process, written to `out`; `typed` are the person's lines."""

    def __init__(self, folder: Path) -> None:
        self.out = io.StringIO()
        self.typed: list[str | BaseException] = []
        self.workspace = folder / "work"
        self.workspace.mkdir()
        self.chat = Chat(PlainScreen(self.out), self, run_command)
        self.by_person = True

    @asynccontextmanager
    async def open(self, *replies: Reply, settings: Settings | None = None) -> AsyncGenerator[Chat]:
        chat = self.chat
        asker = chat_asker(chat.place, chat.interrupted)
        ports = chat.questions.ports(signs_in=self.by_person)
        async with App(settings or Settings(), self.workspace, ask=asker, ports=lambda: ports) as app:
            assistant = ChatAssistant(app, ScriptedModel(list(replies)), resumed=None, asks=True)
            chat.enter(assistant)
            try:
                yield chat
            finally:
                await assistant.close()

    def reading(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    away = reading

    def put_back(self, text: str) -> None:
        self.typed.insert(0, text)

    async def message(self) -> str:
        return await self.answer()

    async def answer(self) -> str:
        if not self.typed:
            raise EOFError
        said = self.typed.pop(0)
        if isinstance(said, BaseException):
            raise said
        return said

    def interrupt(self) -> None:
        self.typed.insert(0, KeyboardInterrupt())

    def said(self) -> str:
        """What was written since the last time."""
        text = self.out.getvalue()
        self.out.seek(0)
        self.out.truncate()
        return text


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setenv("FERRULE_DATA", str(tmp_path / "data"))
    # What takes long on a busy machine is not said to run.
    monkeypatch.setattr("ferrule.cli.chatting.event_printer._LONG", 600.0)
    return Room(tmp_path)


def calls(text: str, *wanted: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """An answer with calls."""
    return {"text": text, "calls": [{"name": name, "arguments": arguments} for name, arguments in wanted]}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()
