"""A real model in a process beside this one: asked, stopped, broken, and never left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from ferrule.core.model import ModelError, ModelFault
from ferrule.models.local.local_model import Engine, answer_grammar, cannot_load, refused


def asking(text: str, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 8, "temperature": 0, **more}


SHORT = asking("What is the capital of France?")


async def text_of(engine: Engine, body: dict[str, Any]) -> str:
    return "".join([chunk["choices"][0]["delta"].get("content") or "" async for chunk in engine.ask(body)])


def process_of(engine: Engine) -> int:
    assert engine._process is not None
    return engine._process.pid


def is_running(process: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, 0)
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text() if Path("/proc/self").exists() else True
    return False


async def test_it_answers_stops_in_the_middle_and_answers_again(gguf: Path, capfd: pytest.CaptureFixture[str]) -> None:
    engine = Engine(gguf, context=512)
    first = await text_of(engine, SHORT)
    assert first
    process = process_of(engine)
    async with contextlib.aclosing(engine.ask(asking("Tell me a long story.", max_tokens=400))) as chunks:
        async for _ in chunks:
            break
    assert await text_of(engine, SHORT) == first
    assert process_of(engine) == process
    with pytest.raises(ModelError, match="did not accept"):
        await text_of(engine, {**SHORT, "grammar": "root ::= nothing"})
    with pytest.raises(
        ModelError, match=r"The conversation is too long: \d+ tokens, and the model reads 512"
    ) as caught:
        await text_of(engine, asking("x " * 2000))
    assert caught.value.fault is ModelFault.TOO_LONG
    await engine.close()
    assert not is_running(process)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
async def test_llama_cpp_reads_every_grammar_of_ours(gguf: Path) -> None:
    engine = Engine(gguf, context=256)
    for given in ([], ['read "a \\ b" in 目录/文件2.py, 20 lines'], ["no number"]):
        assert await text_of(engine, asking("hello", max_tokens=1, grammar=answer_grammar(given)))
    await engine.close()


@pytest.mark.slow
async def test_one_whose_process_dies_says_so_and_starts_anew(gguf: Path) -> None:
    engine = Engine(gguf, context=256)
    await engine.start()
    os.kill(process_of(engine), signal.SIGKILL)
    with pytest.raises(ModelError, match="ended unexpectedly") as caught:
        await text_of(engine, SHORT)
        await text_of(engine, SHORT)
    assert caught.value.fault is ModelFault.UNREACHABLE
    assert await text_of(engine, SHORT)
    await engine.close()


async def test_being_cancelled_while_it_loads_leaves_nothing(gguf: Path) -> None:
    engine = Engine(gguf, context=256)
    task = asyncio.create_task(engine.start())
    while engine._process is None:
        await asyncio.sleep(0)
    process = process_of(engine)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_running(process)


_STUBBORN = """
import json, sys
sys.stdin.readline()
print(json.dumps({"ready": True}), flush=True)
print(json.dumps({"chunk": {"id": json.loads(sys.stdin.readline())["id"]}}), flush=True)
sys.stdin.readline()
open(__file__ + ".told", "w").close()
sys.stdin.readline()
"""


async def test_being_cancelled_while_it_stops_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: whoever leaves an answer early, and is told to stop while the process does not listen."""
    (tmp_path / "worker.py").write_text(_STUBBORN)
    monkeypatch.setattr("ferrule.models.local.local_model._WORKER", tmp_path / "worker.py")
    monkeypatch.setattr("ferrule.models.local.local_model._SECONDS_TO_END", 60.0)
    engine = Engine(tmp_path / "any.gguf", context=256)

    async def leave_early() -> None:
        async with contextlib.aclosing(engine.ask(SHORT)) as chunks:
            async for _ in chunks:
                break

    task = asyncio.create_task(leave_early())
    while not (tmp_path / "worker.py.told").exists():
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine._process is None


@pytest.mark.parametrize("content", [None, b"hello", b"GGUF" + b"\xff" * 1000])
async def test_weights_that_are_none_are_named_with_the_reason(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "bad.gguf"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=r"The weights in `.*bad.gguf` could not be loaded. llama.cpp says: "):
        await Engine(path, context=256).start()


def test_it_ends_with_whoever_started_it(gguf: Path) -> None:
    script = (
        "import asyncio, os, signal, sys\nfrom pathlib import Path\n"
        "from ferrule.models.local.local_model import Engine\n"
        "async def main():\n    engine = Engine(Path(sys.argv[1]), context=256)\n    await engine.start()\n"
        "    print(engine._process.pid, flush=True)\n    os.kill(os.getpid(), signal.SIGKILL)\nasyncio.run(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(gguf)], capture_output=True, text=True, check=False)
    process = int(done.stdout)
    deadline = monotonic() + 30
    while is_running(process) and monotonic() < deadline:
        sleep(0.02)
    assert not is_running(process)


def test_a_missing_binding_says_what_to_install() -> None:
    error = cannot_load(Path("a.gguf"), "No module named 'xllamacpp'", "")
    assert 'pip install "ferrule[local]"' in str(error)


def test_an_error_without_a_reason_is_still_an_error() -> None:
    assert "a.gguf" in str(cannot_load(Path("a.gguf"), "Failed", "nothing of use"))
    assert "too warm" in str(refused({"message": "too warm"}))
