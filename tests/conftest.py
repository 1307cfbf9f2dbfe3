"""Shared settings of the tests, and what holds for each of them: it leaves no temporary files behind."""

from __future__ import annotations

import asyncio
import gc
import inspect
import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Hundreds of tests start Python: compiling everything anew for each of them, as this variable has it, takes minutes.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What `filterwarnings` does here, in the programs that tests start: what a later Python removes, and what is left open.
WARNINGS = ("DeprecationWarning", "PendingDeprecationWarning", "ResourceWarning", "SyntaxWarning")
os.environ["PYTHONWARNINGS"] = ",".join(f"error::{category}" for category in WARNINGS)

# A program that a script starts in the background ignores Ctrl-C, and so would all that the tests start in turn.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A loaded machine is no reason to fail, and no test may depend on the order of examples. In CI the examples are the
# same in every run, so that a change is judged by what it changed; elsewhere they are new each time.
settings.register_profile("ferrule", deadline=None, print_blob=True, derandomize=bool(os.environ.get("CI")))
settings.load_profile("ferrule")
# `./test` tries a fifth of the examples; `./test --all`, CI, and a test that is run by its name try them all.
settings.register_profile("quick", settings.get_profile("ferrule"))
FEWER = 5


_LISTED = Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").splitlines()[1:]
QUICK_CASES = {name: int(few or 0) for name, _, few in (line.partition(" ") for line in _LISTED)}
"""What takes long, as `scripts/slow-tests` found it in a whole run, and how many of its cases `./test` runs."""


def pytest_itemcollected(item: pytest.Item) -> None:
    name = item.nodeid.partition("[")[0]
    if name in QUICK_CASES and item.get_closest_marker("slow") is None:
        QUICK_CASES[name] -= 1
        if QUICK_CASES[name] < 0:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With the profile `quick`, fewer examples of each property, whatever number it names itself."""
    if settings.get_current_profile_name() != "quick":
        return
    properties: dict[int, tuple[Any, str]] = {}
    for item in items:
        test = getattr(item.obj, "__func__", item.obj) if isinstance(item, pytest.Function) else None
        if hasattr(test, "_hypothesis_internal_use_settings"):
            properties[id(test)] = test, "_hypothesis_internal_use_settings"
        elif isinstance(item, pytest.Function) and isinstance(getattr(item.cls, "settings", None), settings):
            properties[id(item.cls)] = item.cls, "settings"  # a state machine
    for owner, name in properties.values():
        own: settings = getattr(owner, name)
        setattr(owner, name, settings(own, max_examples=max(own.max_examples // FEWER, 5)))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine in a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`, half as many workers again as there are cores: many tests wait for what takes its time."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + (cores + 1) // 2


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[Any]:
    """Thousands of tests and all that they import stay to the end: no collection looks at them again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call() -> Iterator[None]:
    """Restore logging after each test: an example of the docs sets it up for good, as a program would."""
    names = [None, *(name for name in logging.root.manager.loggerDict if name.partition(".")[0] == "ferrule")]
    before = [(one := logging.getLogger(name), one.level, one.propagate, one.handlers[:]) for name in names]
    try:
        return (yield)
    finally:
        for logger, level, propagate, handlers in before:
            logger.setLevel(level)
            logger.propagate, logger.handlers[:] = propagate, handlers


# Counts and chances


def pytest_addoption(parser: pytest.Parser) -> None:
    """Chances of `tests/faults`; in CI the same in every run, as with hypothesis.

    The variables are taken away: Ferrule itself has something to say to a variable of its own that it does not know.
    """
    seed = "0" if os.environ.get("CI") else str(secrets.randbelow(10**6))
    parser.addoption("--faults-seed", default=os.environ.pop("FERRULE_FAULTS_SEED", seed))
    parser.addoption("--faults-count", type=int, default=int(os.environ.pop("FERRULE_FAULTS_COUNT", "0")))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Each worker has the chances of the whole run."""
    option = node.config.option
    node.workerinput["faults"] = {"faults_seed": option.faults_seed, "faults_count": option.faults_count}


def pytest_configure(config: pytest.Config) -> None:
    vars(config.option).update(getattr(config, "workerinput", {}).get("faults", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have counted (`count of …` among their properties), so that a run says how much it tried."""
    counts: Counter[str] = Counter()
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            counts.update({name: many for name, many in report.user_properties if name.startswith("count of ")})
    if counts:
        words = ", ".join(f"{many:,} {name.removeprefix('count of ')}" for name, many in sorted(counts.items()))
        seed = terminalreporter.config.getoption("--faults-seed")
        terminalreporter.write_line(f"Faults, with FERRULE_FAULTS_SEED={seed}: {words}")


# Temporary files


class TemporaryFolder:
    """The folder for temporary files while tests run in this process, and what stands in it since which test."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="ferrule-tests-"))
        self.path.chmod(0o1777)  # as /tmp is: some tests become another user
        self._before = os.environ.get("TMPDIR"), tempfile.tempdir
        self._since: dict[str, str] = {}
        os.environ["TMPDIR"] = tempfile.tempdir = str(self.path)

    def left(self, test: str, *, fixtures_ended: bool) -> list[str]:
        """What tests left, once the fixtures that they share have ended too; told once."""
        names = os.listdir(self.path)  # noqa: PTH208 - after each of thousands of tests
        there = {name for name in names if not name.startswith(".org.chromium.")}  # a closed browser may leave its own
        self._since = {name: self._since.get(name, test) for name in there}
        if not fixtures_ended or not there:
            return []
        told = [f"{name}, since {since}" for name, since in sorted(self._since.items())]
        for name in there:
            shutil.rmtree(self.path / name, ignore_errors=True)
            (self.path / name).unlink(missing_ok=True)
        return told

    def close(self) -> None:
        variable, tempfile.tempdir = self._before
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable
        shutil.rmtree(self.path, ignore_errors=True)


TEMPORARY = pytest.StashKey[TemporaryFolder]()


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Iterator[None]:
    """Not where workers run the tests. The folders of pytest itself stay where they are, to be looked at."""
    if session.config.getoption("numprocesses", None):
        return (yield)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    session.config.stash[TEMPORARY] = folder = TemporaryFolder()
    try:
        return (yield)
    finally:
        folder.close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    shared = nextitem is not None and nextitem.path == item.path
    if left := item.config.stash[TEMPORARY].left(item.nodeid, fixtures_ended=not shared):
        pytest.fail(f"Left among the temporary files: {'; '.join(left)}")
