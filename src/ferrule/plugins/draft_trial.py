"""Runs a draft and its examples, or one call of it, in a process that a box holds (M4).

Whoever opens the box gives the order on standard input, and what happens is reported line by line on descriptor 3, so
that it is known where a draft hangs. The draft shares this process and could write false reports: what it changed is
read from the box's layer and not from here.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import inspect
import json
import os
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferrule.plugins.drafts import REPORT

if TYPE_CHECKING:
    from ferrule import Tool

_BLOCKING_RULES = frozenset({"F010", "F011", "F012", "F023"})
"""Lint rules about words that a model cannot do without; they count like errors here."""
_CHANGES = frozenset({
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod", "os.link", "os.symlink", "os.utime",
    "os.chown", "os.setxattr", "shutil.rmtree",
})  # fmt: skip
_PROGRAMS = frozenset({"subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn"})
_OF_THE_SYSTEM = ("/usr", "/lib", "/lib64", "/dev", "/proc", "/sys", "/etc/localtime", "/etc/ld.so.cache")
_MOST_NAMED = 20
_SECONDS_TO_END = 1.0


def main() -> None:
    """Carry out one order."""
    order: dict[str, Any] = json.loads(sys.stdin.buffer.read())
    with os.fdopen(REPORT, "w", encoding="utf-8") as report:

        def tell(**said: Any) -> None:
            report.write(json.dumps(said, default=str) + "\n")
            report.flush()

        watch = _Watch()
        sys.addaudithook(watch.hear)
        with tempfile.TemporaryDirectory(prefix="draft-") as folder:
            path = Path(folder, f"{order['name']}.py")
            path.write_text(order["code"], encoding="utf-8")
            if "arguments" in order:
                asyncio.run(_call(order, path, tell))
            else:
                _try_out(order, path, watch, tell)
    os._exit(0)  # threads of the draft may never end


async def _call(order: dict[str, Any], path: Path, tell: Any) -> None:
    from pydantic_core import to_jsonable_python

    from ferrule import Runtime
    from ferrule.plugins.discovery import discover_file
    from ferrule.plugins.plugin import HeldByTheBox

    found = discover_file(path)
    runtime = Runtime([tool for plugin in found.plugins for tool in plugin.tools], policy=HeldByTheBox())
    result = await runtime.run(order["name"], order["arguments"], timeout=order["seconds"])
    if (error := result.error) is not None:
        why = "; ".join(one.reason for one in found.broken)
        tell(failed=why or error.message, kind=error.kind.value, suggestion=error.suggestion)
    else:
        tell(gave=to_jsonable_python(result.data, fallback=str), text=result.llm_content)


def _try_out(order: dict[str, Any], path: Path, watch: _Watch, tell: Any) -> None:
    from ferrule.extension.hosting import lint_tool
    from ferrule.plugins.discovery import discover_file

    tell(step="while it was loaded")
    with watch.listening():
        found = discover_file(path)
    tools = [tool for plugin in found.plugins for tool in plugin.tools]
    problems = [one.reason for one in found.broken]
    if not problems and [one.name for one in tools] != [order["name"]]:
        problems = [f"It offers {', '.join(f'`{one.name}`' for one in tools) or 'no tool'}, not `{order['name']}`."]
    if not problems and tools[0].kind != order["kind"]:
        problems = [f'It says kind="{order["kind"]}", but its tool is of the kind {tools[0].kind}.']
    if not problems and tools[0].fault:
        problems = [tools[0].fault]
    if not problems:
        findings = lint_tool(tools[0], ignore={"F031"})  # the tool is made of the text, which says no touches
        problems = [str(one) for one in findings if one.severity == "error" or one.rule in _BLOCKING_RULES]
        schemas = {"takes": tools[0].input_schema, "gives": tools[0].output_schema}
        tell(schemas=schemas, advice=[str(one) for one in findings if str(one) not in problems])
    if problems:
        tell(problems=problems, needs=watch.take())
        return
    tell(needs=watch.take())
    asyncio.run(_run_examples(tools[0], order["examples"], order["seconds"], watch, tell))
    _run_tests(tools[0], watch, tell)
    tell(step="at the end of its run")
    if problems := _left_behind(tools.pop()):
        tell(problems=problems)
    tell(step="done")


def _left_behind(tool: Tool[Any]) -> list[str]:
    """What of it would go on after its calls, where no run shows what it does; what is for the exit happens now."""
    atexit._run_exitfuncs()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] - this process ends without it
    if (module := sys.modules.pop(tool.__module__, None)) is not None:
        vars(module).clear()  # what its objects do when they are gone
    gc.collect()
    end = time.monotonic() + _SECONDS_TO_END
    others = [one for one in threading.enumerate() if one is not threading.current_thread() and not _is_ours(one)]
    for one in others:
        one.join(max(0.0, end - time.monotonic()))
    problems: list[str] = []
    if any(one.is_alive() for one in others):
        problems.append("It leaves a thread running after its calls. End it before the call returns.")
    while (left := _children()) and time.monotonic() < end:
        time.sleep(0.02)
    if left:
        problems.append("It leaves a process running after its calls. Wait for it before the call returns.")
    return problems


def _is_ours(thread: threading.Thread) -> bool:
    """One that waits for work, as those that run calls do, whatever it is called."""
    from concurrent.futures.thread import _worker  # pyright: ignore[reportPrivateUsage]

    from ferrule.extension.hosting import awaits_call

    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return frame is None or frame.f_code is _worker.__code__ or awaits_call(frame)


def _children() -> list[int]:
    """Every process in the box that came after this one."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    found = (int(one.name) for one in Path("/proc").iterdir() if one.name.isdigit())
    return [one for one in found if one > os.getpid() and _runs(one)]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2][:1] != "Z"
    except OSError:  # it has ended meanwhile
        return False


async def _run_examples(
    tool: Tool[Any], examples: list[dict[str, Any]], seconds: float, watch: _Watch, tell: Any
) -> None:
    from ferrule import Runtime
    from ferrule.plugins.plugin import HeldByTheBox

    runtime = Runtime([tool], policy=HeldByTheBox())
    for number, example in enumerate(examples, 1):
        tell(step=f"in example {number}")
        with watch.listening():
            result = await runtime.run(tool.name, example["arguments"], timeout=seconds)
        failed = result.error.message if result.error is not None else ""
        wrong = _judge(example, result.data, failed)
        tell(example=number, gave=result.llm_content, failed=failed, wrong=wrong, needs=watch.take())


def _judge(example: dict[str, Any], data: Any, failed: str) -> str:
    """What is wrong with an example's outcome; empty where it is as the draft says."""
    from pydantic_core import to_jsonable_python

    if example.get("fails"):
        return "" if failed else "it was to fail, and did not"
    if failed:
        return f"it failed: {failed}"
    result = to_jsonable_python(data, fallback=str)
    if "gives" in example and result != example["gives"]:
        return f"it was to give {json.dumps(example['gives'], ensure_ascii=False)}"
    if check := example.get("check"):
        try:
            if not eval(check, {"result": result}):  # noqa: S307 - the draft's own words, in its own box
                return f"`{check}` does not hold"
        except Exception as error:  # noqa: BLE001 - whatever an expression does
            return f"`{check}` raised {type(error).__name__}: {error}"
    return ""


def _run_tests(tool: Tool[Any], watch: _Watch, tell: Any) -> None:
    module = sys.modules[tool.__module__]
    for name, test in list(vars(module).items()):
        if not name.startswith("test_") or not inspect.isfunction(test):
            continue
        tell(step=f"in `{name}`")
        wrong = ""
        with watch.listening():
            try:
                outcome: Any = test()
                if inspect.isawaitable(outcome):
                    asyncio.run(cast("Any", outcome))
            except Exception as error:  # noqa: BLE001 - whatever a test does
                from ferrule.plugins.plugin import reason_of

                wrong = reason_of(error, str(module.__file__))
        tell(test=name, wrong=wrong, needs=watch.take())


class _Watch:
    """Notes what a draft reaches for: hosts, programs, files to change, and files outside of its workspace."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, None]] = {}
        self._listens = False
        self._workspace = os.path.realpath(Path.cwd())
        own = (*(one for one in sys.path if one), sys.prefix, sys.base_prefix, self._workspace, tempfile.gettempdir())
        self._known = (*map(os.path.realpath, own), *_OF_THE_SYSTEM)

    @contextlib.contextmanager
    def listening(self) -> Any:
        self._listens = True
        try:
            yield
        finally:
            self._listens = False

    def take(self) -> dict[str, list[str]]:
        """What was noted since the last time."""
        found, self._found = self._found, {}
        return {what: list(names)[:_MOST_NAMED] for what, names in found.items()}

    def hear(self, event: str, given: tuple[Any, ...]) -> None:
        """An audit hook: it must not raise, whatever it is given."""
        if not self._listens:
            return
        with contextlib.suppress(Exception):
            self._sort(event, given)

    def _sort(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(given[0], str | bytes):
            path, flags = os.path.realpath(os.fsdecode(given[0])), int(given[2] or 0)
            changes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if changes and not self._is_scratch(path, "/dev", "/proc"):
                self._note("files", path)
            elif not changes and not self._lies_in(path, self._known):
                self._note("reads", path)
        elif event == "sqlite3.connect" and isinstance(given[0], str | bytes):  # its own code opens the file
            path = os.path.realpath(os.fsdecode(given[0]).removeprefix("file:").partition("?")[0])
            if not self._lies_in(path, self._known):
                self._note("reads", path)
        elif event in _CHANGES:
            path = os.path.realpath(os.fsdecode(given[0]))
            if not self._is_scratch(path):
                self._note("files", path)
        elif event == "socket.getaddrinfo":
            self._note("hosts", str(given[0]))
        elif event == "socket.connect" and isinstance(given[1], tuple):
            self._note("hosts", str(cast("tuple[Any, ...]", given[1])[0]))
        elif event in _PROGRAMS:
            started = given[0] if event != "subprocess.Popen" or given[0] else given[1][0]
            self._note("programs", os.fsdecode(started) if isinstance(started, bytes) else str(started))

    def _is_scratch(self, path: str, *folders: str) -> bool:
        """A temporary file is no change; one of a workspace that itself lies among those is."""
        return self._lies_in(path, (tempfile.gettempdir(), *folders)) and not self._lies_in(path, (self._workspace,))

    def _lies_in(self, path: str, folders: tuple[str, ...]) -> bool:
        return any(path == folder or path.startswith(f"{folder}/") for folder in folders)

    def _note(self, what: str, name: str) -> None:
        self._found.setdefault(what, {})[name] = None
