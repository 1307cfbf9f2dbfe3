"""A model at work in a process beside this one: starts it, asks it, stops it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.core.model import ModelError, ModelFault
from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

_WORKER = Path(__file__).with_name("worker.py")
_LONGEST_LINE = 1 << 26
_SECONDS_TO_END = 2.0


class Engine:
    """Weights in a process of their own, started with the first question and kept until `close`."""

    def __init__(self, path: Path, *, context: int, threads: int | None = None) -> None:
        self.path = path
        self.context = context
        self._threads = threads or _cores()
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
                env=_environment(),
                start_new_session=True,
                limit=_LONGEST_LINE,
            )
            try:
                await self._send({"path": str(self.path), "context": self.context, "threads": self._threads})
                heard = await self._hear()
            except BaseException:
                await self._end()
                raise
            if "failed" in heard:
                await self._end()
                raise cannot_load(self.path, heard["failed"], heard["said"])

    async def ask(self, body: Mapping[str, Any], *, chat: bool = False) -> AsyncGenerator[dict[str, Any]]:
        """The chunks of one answer, in llama.cpp's form. Leaving early stops it; questions wait for one another."""
        async with self._asking:
            await self.start()
            number = next(self._numbers)
            is_over = False
            try:
                await self._send(
                    {"id": number, "chat": chat, "body": {**body, "stream": True, "return_progress": True}}
                )
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
                    await self._stop(number)

    async def close(self) -> None:
        """End the process; nothing of it is left."""
        async with self._starting:
            await self._end()

    async def _stop(self, number: int) -> None:
        """Have a request end, and read away what it had written; a process that does not listen is ended."""
        try:
            async with asyncio.timeout(_SECONDS_TO_END):
                await self._send({"cancel": number})
                while "end" not in await self._hear():
                    pass
        except (TimeoutError, ModelError):
            await self._end()
        except asyncio.CancelledError:  # whoever left early is told to stop altogether, which must not be lost
            await self._end()
            raise

    async def _send(self, message: Mapping[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            raise self._gone()
        with contextlib.suppress(ConnectionError):  # that it is gone is seen when nothing is heard
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            await self._process.stdin.drain()

    async def _hear(self) -> dict[str, Any]:
        if self._process is not None and self._process.stdout is not None:
            line = await self._process.stdout.readline()
            if line.endswith(b"\n"):
                return json.loads(line)
            await self._end()
        raise self._gone()

    def _gone(self) -> ModelError:
        return ModelError(
            ModelFault.UNREACHABLE,
            phrase("The process that runs `{name}` ended in the middle of its work.", name=self.path.name),
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
            "Check that the file is a whole GGUF of a kind that llama.cpp knows, and that memory suffices."
        ),
    )


def refused(error: Mapping[str, Any]) -> ModelError:
    """An error of llama.cpp in our words."""
    message = str(error.get("message", error))
    if error.get("type") == "exceed_context_size_error":
        return ModelError(
            ModelFault.TOO_LONG,
            phrase(
                "The conversation does not fit: {tokens} tokens, and the model reads {most}.",
                tokens=error.get("n_prompt_tokens", "?"),
                most=error.get("n_ctx", "?"),
            ),
            suggestion=phrase("Make it shorter, or start a new one."),
        )
    return ModelError(
        ModelFault.REFUSED, phrase("The model on this machine did not accept the request: {message}", message=message)
    )


def _environment() -> dict[str, str]:
    """Ours, but threads that wait shall sleep: on a busy machine spinning makes each token several times slower."""
    return {**os.environ, "OMP_WAIT_POLICY": "passive"}


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return max(1, os.cpu_count() or 1)
