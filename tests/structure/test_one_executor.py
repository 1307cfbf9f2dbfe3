"""One executor: the modules that start threads and event loops for tools, and no others."""

from __future__ import annotations

from tests.structure.test_structure import MODULES, calls, name

THREADS = {"pipeline/threads.py", "pipeline/tool_loops.py", "pipeline/loop_watch.py"}
"""Threads for sync tools, the thread of the tools' loop, and the one that watches loops."""
LOOPS = {"pipeline/tool_loops.py"}
SIZE = 1_825
"""Lines of the executor in all."""


def callers(*functions: str) -> set[str]:
    """Modules that call one of these, whatever it was imported from."""
    return {module for module, called, _ in calls() if called.rpartition(".")[2] in functions}


def test_an_event_loop_is_made_in_one_place() -> None:
    """A second loop for tools would have its own way to be blocked, abandoned and ended."""
    assert callers("new_event_loop") == LOOPS
    assert callers("set_default_executor") == LOOPS


def test_threads_that_run_tools_are_started_in_one_place() -> None:
    of_tools = {one for one in callers("Thread") if one.startswith(("core/", "pipeline/", "registry/", "service/"))}
    assert of_tools - THREADS == {"service/database.py", "service/writer.py"}, "run it in `pipeline/threads.py`"


def test_a_thread_is_interrupted_in_one_place() -> None:
    assert callers("PyThreadState_SetAsyncExc") == {"pipeline/threads.py"}


def test_a_tool_is_started_in_one_place() -> None:
    """Whatever runs a tool gives it a time limit, its context variables and a way to be stopped."""
    assert {module for module, called, _ in calls() if called == "tool.start"} == {"pipeline/execute.py"}


def test_the_executor_can_be_read_in_one_sitting() -> None:
    parts = [*THREADS, "pipeline/execute.py", "core/loops.py"]
    lines = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES if name(path) in parts}
    assert sum(lines.values()) <= SIZE, lines
