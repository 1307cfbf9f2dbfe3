"""What work costs when it is ten and a hundred times larger: `python benchmarks/growth.py [ROW …] [--quick] [--json]`.

Each row is done for each of three sizes in a process of its own, beside the bare work where there is one. It prints the
seconds of CPU, or for commands, which start processes, the seconds that a user waits; the megabytes that the work added
to the process at its peak; and the exponent between the two larger sizes: 1 is linear, 2 quadratic. Exits with 1 when a
row grows faster than its size to the power of 1.5.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Coroutine

    from ferrule import Runtime, ToolResult

STEEPEST = 1.5
_LEAST = 0.02
"""Seconds. Where the largest size takes less, its growth is noise."""

Figures = dict[str, float]


@dataclass(slots=True, frozen=True)
class Case:
    """Some work by its size. It gives its figures: `seconds`, and where there is one `bare`."""

    name: str
    work: Callable[[Path, int], Coroutine[Any, Any, Figures]]
    sizes: tuple[int, int, int]
    quick: tuple[int, int, int]
    unit: str


@dataclass(slots=True)
class Measured:
    """One row: the figures for each size."""

    name: str
    unit: str
    sizes: tuple[int, ...]
    figures: list[Figures] = field(default_factory=list[Figures])

    @property
    def exponent(self) -> float | None:
        """Of the seconds, between the two larger sizes; None where both take next to nothing."""
        (_, small, large), (_, less, more) = self.figures, self.sizes
        if large["seconds"] < _LEAST:
            return None
        return math.log(large["seconds"] / max(small["seconds"], 1e-6)) / math.log(more / less)

    def document(self) -> dict[str, Any]:
        """For a program."""
        return {
            "name": self.name, "unit": self.unit, "sizes": self.sizes, "figures": self.figures,
            "exponent": self.exponent, "too_steep": self.too_steep,
        }  # fmt: skip

    @property
    def too_steep(self) -> bool:
        return (self.exponent or 0.0) > STEEPEST


# The work


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu() -> float:
    """Seconds of this process and of those that it has waited for."""
    return process_time() + _children()


def _plant(folder: Path, files: int) -> None:
    """Small files, fifty to a folder, as a large project has them."""
    for number in range(files):
        inner = folder / f"package_{number // 2500}" / f"module_{number // 50 % 50}"
        if number % 50 == 0:
            inner.mkdir(parents=True, exist_ok=True)
        (inner / f"file_{number}.py").write_text(
            f"def work_{number}():\n    return {number}  # nothing to see here\n" * 20
        )


@asynccontextmanager
async def default_runtime(folder: Path, **permissions: Any) -> AsyncGenerator[Runtime]:
    """The runtime of the command line, with its rules."""
    from ferrule.app.build import App
    from ferrule.app.settings import AuditSettings, PermissionSettings, Settings

    settings = Settings(permissions=PermissionSettings(**permissions), audit=AuditSettings(enabled=False))
    async with App(settings, folder, single_call=True) as app:
        yield app.runtime


async def _call(runtime: Runtime, name: str, **arguments: Any) -> ToolResult:
    from ferrule import RawCall

    return await runtime.run(RawCall(name, json.dumps(arguments)))


async def _done(runtime: Runtime, name: str, **arguments: Any) -> str:
    result = await _call(runtime, name, **arguments)
    assert result.success, result.llm_content
    return result.llm_content


async def grep(folder: Path, files: int) -> Figures:
    from ferrule.workspace.paths import Paths
    from ferrule.workspace.searching.ripgrep import find_ripgrep

    _plant(folder, files)
    (folder / ".env").write_text("SECRET=1\n")
    program = find_ripgrep(Paths([folder]))
    flags = ["--no-config", "--hidden", "--glob=!.git", "-nH", "absent_from_all", "./"]
    bare, seconds = [], []
    async with default_runtime(folder) as runtime:
        await _call(runtime, "Grep", pattern="absent_from_all", output_mode="content", path="package_0/module_0")
        for _ in range(3):
            began = _children()
            await asyncio.to_thread(subprocess.run, [program, *flags], cwd=folder, check=False, capture_output=True)
            bare.append(_children() - began)
            began = _cpu()
            await _call(runtime, "Grep", pattern="absent_from_all", output_mode="content")
            seconds.append(_cpu() - began)
    return {"seconds": min(seconds), "bare": min(bare)}


async def protected_files(folder: Path, files: int) -> Figures:
    """Look for the files that a box hides, for the first time, beside a bare look at all names."""
    from ferrule.policy.decide import RulePolicy
    from ferrule.policy.restrictions import RuleRestrictions
    from ferrule.workspace.restrictions import files_concerned

    _plant(folder, files)
    (folder / "package_0" / ".env").write_text("SECRET=1\n")
    names = (str(folder),)
    rules = RuleRestrictions(RulePolicy())
    rules.may_hide(str(folder), ".env/", names)
    began = process_time()
    waiting = [str(folder)]
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            waiting += [one.path for one in entries if one.is_dir(follow_symlinks=False)]
    bare, began = process_time() - began, process_time()
    found = files_concerned(names, lambda inside, listed: rules.may_hide(inside, listed, names), "growth")
    assert found == (f"{folder}/package_0/.env",)
    return {"seconds": process_time() - began, "bare": bare}


async def _commands(folder: Path, files: int, count: int, command: str = "true", **permissions: Any) -> list[float]:
    """Seconds that a user waits for each of some commands, the first of the process among them."""
    _plant(folder, files)
    waited: list[float] = []
    async with default_runtime(folder, **permissions) as runtime:
        await _call(runtime, "getCurrentDateTime")
        for _ in range(count):
            began = perf_counter()
            await _done(runtime, "Bash", command=command)
            waited.append(perf_counter() - began)
    return waited


async def first_command(folder: Path, files: int) -> Figures:
    return {"seconds": (await _commands(folder, files, 1))[0]}


async def later_command(folder: Path, files: int) -> Figures:
    return {"seconds": min((await _commands(folder, files, 6))[2:])}


async def first_allowed_command(folder: Path, files: int) -> Figures:
    return {"seconds": (await _commands(folder, files, 1, allow=["Bash(true)"]))[0]}


async def later_allowed_command(folder: Path, files: int) -> Figures:
    return {"seconds": min((await _commands(folder, files, 6, allow=["Bash(true)"]))[2:])}


async def later_allowed_change(folder: Path, files: int) -> Figures:
    command = "sed -i 1p package_0/module_0/file_0.py"
    return {"seconds": min((await _commands(folder, files, 6, command, allow=["Bash(sed *)"]))[2:])}


_TOOL = '''
from typing import Annotated, Literal
from pydantic import Field
from ferrule import tool


@tool(kind="readonly")
def search_{n}(
    query: str, limit: Annotated[int, Field(ge=1, le=100)] = 10, order: Literal["new", "old"] = "new"
) -> str:
    """Search collection {n}. Use it for questions about department {n}.

    Args:
        query: The words to look for.
        limit: How many at most.
        order: Which come first.
    """
    return query * limit
'''


async def tools_folder(folder: Path, tools: int) -> Figures:
    from ferrule.app.build import build_tools
    from ferrule.app.settings import Settings, ToolSettings

    (folder / "tools").mkdir()
    for number in range(tools):
        (folder / "tools" / f"tool_{number}.py").write_text(_TOOL.format(n=number))
    settings = Settings(tools=ToolSettings(folders=[Path("tools")]))
    build_tools(settings, folder)  # the first start, of all
    began = _cpu()
    built = build_tools(settings, folder)
    assert "search_0" in built.registry
    return {"seconds": _cpu() - began}


async def definitions(_folder: Path, tools: int) -> Figures:
    from _definitions import typed_function
    from ferrule import Registry, tool
    from ferrule.dialects import KNOWN, Exporter

    registry = Registry(tool(typed_function(number), kind="readonly") for number in range(tools))
    began = _cpu()
    for dialect in KNOWN:
        Exporter(dialect).definitions(registry.tools())
    return {"seconds": _cpu() - began}


async def unknown_name(_folder: Path, tools: int) -> Figures:
    from _definitions import typed_function
    from ferrule import RawCall, Runtime, tool

    runtime = Runtime([tool(typed_function(number), kind="readonly") for number in range(tools)])
    began = _cpu()
    result = await runtime.run(RawCall("serch_nothing_like_it", "{}"))
    assert not result.success
    return {"seconds": _cpu() - began}


async def batch(_folder: Path, calls: int) -> Figures:
    from ferrule import RawCall, Runtime, tool

    @tool(kind="readonly")
    async def add_one(number: int) -> int:
        """Add one to a number. Use it to count."""
        return number + 1

    runtime = Runtime([add_one])
    await runtime.run(RawCall("add_one", '{"number": 1}'))
    given = [RawCall("add_one", '{"number": 0}', id="call_0")]
    given += [RawCall("add_one", f'{{"number": {{"$ref": "call_{n // 2}"}}}}', id=f"call_{n}") for n in range(1, calls)]
    began = _cpu()
    results = await runtime.batch(given)
    assert results[-1].success, results[-1].llm_content
    return {"seconds": _cpu() - began}


async def edit(folder: Path, megabytes: int) -> Figures:
    return await _edit(folder, megabytes, "line 5 of 9\n", "line five of 9\n")


async def edit_that_finds_nothing(folder: Path, megabytes: int) -> Figures:
    return await _edit(folder, megabytes, "line 5 of 10\n", "line five of 10\n")


async def _edit(folder: Path, megabytes: int, old: str, new: str) -> Figures:
    from ferrule.workspace.files import files_of
    from ferrule.workspace.tracker import digest_of

    # With one letter beyond U+FFFF, a string of all the text would take four bytes a character. It is never in
    # memory as a whole before the edit, so that the peak is the edit's own.
    filler = "".join(f"some words of line {number}, and é\n" for number in range(1000))
    with (folder / "large.txt").open("w") as large:
        large.write("line 5 of 9\n😀\n")
        for _ in range(megabytes * 1_000_000 // len(filler.encode())):
            large.write(filler)
    with (folder / "large.txt").open("rb") as large:
        name = digest_of(large)
    async with default_runtime(folder, mode="accept-edits") as runtime:
        (folder / "small.txt").write_text("a\n")
        await _call(runtime, "Read", file_path="small.txt")
        await _call(runtime, "Edit", file_path="small.txt", old_string="a", new_string="b")
        files = files_of(runtime.session)
        files.tracker.saw(files.paths.find("large.txt"), name=name)
        peak = _peak_now()
        began = _cpu()
        result = await _call(runtime, "Edit", file_path="large.txt", old_string=old, new_string=new)
        assert result.success or old.startswith("line 5 of 10"), result.llm_content
        added = _peak_now() - peak
        # The allocator keeps a few freed pieces of up to 32 MB for later.
        assert added <= 2.5 * megabytes + 16, f"{added:.1f} MB for a file of {megabytes} MB"
        return {"seconds": _cpu() - began, "megabytes": added}


async def refused_write(folder: Path, megabytes: int) -> Figures:
    async with default_runtime(folder, mode="accept-edits") as runtime:
        await _call(runtime, "Write", file_path="small.txt", content="a\n")
        arguments = json.dumps({"file_path": "large.txt", "content": "x" * (megabytes * 1_000_000)})
        from ferrule import RawCall

        peak = _peak_now()
        began = _cpu()
        result = await runtime.run(RawCall("Write", arguments))
        assert not result.success
        return {"seconds": _cpu() - began, "megabytes": _peak_now() - peak}


async def audit_verify(folder: Path, rows: int) -> Figures:
    from ferrule.records.verification import verify
    from records import build

    build(folder / "audit.db", rows)
    peak, began = _peak_now(), _cpu()
    assert verify(folder / "audit.db").ok
    return {"seconds": _cpu() - began, "megabytes": _peak_now() - peak}


async def _service(folder: Path, calls: int) -> Any:
    """A store with so many calls of the last month, summed up as the service does it; a read of it."""
    import sqlite3
    from time import time

    from ferrule.service.call_sums import CallSums, id_at
    from ferrule.service.database import Database
    from ferrule.service.directory import create_tenant
    from ferrule.service.documents import new_id
    from ferrule.service.messages import TenantRequest
    from ferrule.service.stored_calls import new_call_row
    from ferrule.service.writer import GroupWriter

    database = Database(f"sqlite:///{folder / 'service.db'}")
    database.migrate()
    with database.transaction("home", writes=True) as connection:
        create_tenant(connection, TenantRequest(name="home"))
    who: Any = type("Somebody", (), {"tenant": "home", "user": "ann", "key": "k"})()
    now, rows = time(), list[dict[str, Any]]()
    for number in range(calls):
        at = now - 30 * 86_400 * (1 - number / calls)
        row = new_call_row(who, f"tool_{number % 10}", {"a": number}, "r", status="succeeded")
        rows.append({**row, "id": f"{id_at(at)}{new_id()[12:]}", "created": at, "started": at, "finished": at + 0.01})
    with closing(sqlite3.connect(folder / "service.db")) as filling, filling:
        names = list(rows[0])
        quoted = ", ".join(f'"{name}"' for name in names)
        filling.executemany(
            f"INSERT INTO calls ({quoted}) VALUES ({', '.join('?' * len(names))})",
            [[row[name] for name in names] for row in rows],
        )
    writer = GroupWriter(database)
    sums = CallSums(database, writer)
    while await sums.keep_up():
        pass
    writer.close()
    return database


async def filter_that_matches_nothing(folder: Path, calls: int) -> Figures:
    from ferrule.service.stored_calls import StoredCalls

    stored = StoredCalls(await _service(folder, calls))
    peak, began = _peak_now(), _cpu()
    for filters in ({"tool": "none"}, {"user": "nobody"}, {"session": "none"}, {"status": "failed"}):
        assert (await stored.page("home", user=None, filters=filters, cursor=None, most=50))[0] == []
    return {"seconds": _cpu() - began, "megabytes": _peak_now() - peak}


async def service_statistics(folder: Path, calls: int) -> Figures:
    from time import time

    from ferrule.service.call_sums import figures_of

    database = await _service(folder, calls)
    peak, began = _peak_now(), _cpu()
    for period in ("day", "month"):
        await database.read(
            "home",
            lambda one, period=period: figures_of(one, "home", period, "tool", time(), user=None),  # pyright: ignore[reportUnknownLambdaType]
        )
    return {"seconds": _cpu() - began, "megabytes": _peak_now() - peak}


async def audit_export(folder: Path, rows: int) -> Figures:
    from ferrule.records.reader import AuditReader
    from records import build

    build(folder / "audit.db", rows)
    peak, began = _peak_now(), _cpu()
    for _ in AuditReader(folder / "audit.db").export():
        pass
    return {"seconds": _cpu() - began, "megabytes": _peak_now() - peak}


async def audit_statistics(folder: Path, rows: int) -> Figures:
    from ferrule.records.statistics import statistics_of
    from records import build

    build(folder / "audit.db", rows)
    began = _cpu()
    statistics_of(folder / "audit.db")
    return {"seconds": _cpu() - began}


async def many_calls(_folder: Path, calls: int) -> Figures:
    """Calls of one process, one after another: what it keeps of them."""
    import threading

    from ferrule import RawCall, Runtime, tool

    @tool(kind="readonly")
    def add_one(number: int) -> int:
        """Add one to a number. Use it to count."""
        return number + 1

    runtime = Runtime([add_one])
    for number in range(2000):
        await runtime.run(RawCall("add_one", f'{{"number": {number}}}'))
    peak, threads, began = _peak_now(), threading.active_count(), _cpu()
    for number in range(calls):
        await runtime.run(RawCall("add_one", f'{{"number": {number}}}'))
    assert threading.active_count() <= threads + 1
    return {"seconds": _cpu() - began, "megabytes": _peak_now() - peak}


async def mixed_calls(folder: Path, calls: int) -> Figures:
    """Calls of every kind in sessions that come and go, as in `soak.py`: nothing of them is left."""
    from soak import soaked

    warm, done = (await soaked(folder, 2, lambda soak, number: soak.calls >= 600 + number * calls)).samples
    assert (done.tasks, done.sessions) == (warm.tasks, warm.sessions), (warm, done)
    assert done.files <= warm.files + 4, (warm, done)  # the databases of a history may have grown a file each
    return {"seconds": done.cpu - warm.cpu, "megabytes": done.megabytes - warm.megabytes}


def _peak_now() -> float:
    """The most memory that the process ever had, in megabytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


FILES, FEW_FILES = (1_000, 10_000, 100_000), (500, 2_000, 8_000)
TOOLS, FEW_TOOLS = (100, 1_000, 10_000), (100, 400, 1_600)
ROWS, FEW_ROWS = (10_000, 100_000, 1_000_000), (4_000, 16_000, 64_000)
CASES = (
    Case("Grep under the default rules", grep, FILES, FEW_FILES, "files"),
    Case("first command of a process", first_command, FILES, FEW_FILES, "files"),
    Case("later command", later_command, FILES, FEW_FILES, "files"),
    Case("first command under an allow rule", first_allowed_command, FILES, FEW_FILES, "files"),
    Case("later command under an allow rule", later_allowed_command, FILES, FEW_FILES, "files"),
    Case("later change under an allow rule", later_allowed_change, FILES, FEW_FILES, "files"),
    Case("look for protected files", protected_files, FILES, FEW_FILES, "files"),
    Case("start with a folder of tools", tools_folder, (10, 100, 1_000), (20, 80, 320), "tools"),
    Case("definitions in five dialects", definitions, TOOLS, FEW_TOOLS, "tools"),
    Case("a name that no tool has", unknown_name, TOOLS, FEW_TOOLS, "tools"),
    Case("batch of calls that use each other's results", batch, (100, 1_000, 10_000), (100, 400, 1_600), "calls"),
    Case("Edit of one line", edit, (1, 8, 60), (1, 4, 16), "MB"),
    Case("Edit that finds nothing", edit_that_finds_nothing, (1, 8, 60), (1, 4, 16), "MB"),
    Case("Write that is refused for its size", refused_write, (12, 24, 60), (12, 24, 48), "MB"),
    Case("audit verify", audit_verify, ROWS, FEW_ROWS, "rows"),
    Case("audit export", audit_export, ROWS, FEW_ROWS, "rows"),
    Case("filters of calls that match nothing", filter_that_matches_nothing, ROWS, FEW_ROWS, "calls"),
    Case("statistics of the service", service_statistics, ROWS, FEW_ROWS, "calls"),
    Case("audit statistics", audit_statistics, ROWS, FEW_ROWS, "rows"),
    Case("calls of every kind of one process", mixed_calls, (1_000, 4_000, 16_000), (300, 900, 2_700), "calls"),
    Case("calls of one process", many_calls, (1_000, 10_000, 100_000), (1_000, 4_000, 16_000), "calls"),
)


# Measuring


def measure(case: Case, *, quick: bool) -> Measured:
    """Each size in a process of its own, so that no size has the memory or the caches of another.

    What looks too steep is measured once more, and the better figures count: a busy machine only ever adds time.
    """
    sizes = case.quick if quick else case.sizes
    measured = Measured(case.name, case.unit, sizes, [_alone(case, size) for size in sizes])
    if measured.too_steep:
        again = [_alone(case, size) for size in sizes]
        measured.figures = [
            min(pair, key=lambda one: one["seconds"]) for pair in zip(measured.figures, again, strict=True)
        ]
    return measured


def _alone(case: Case, size: int) -> Figures:
    done = subprocess.run(
        [sys.executable, __file__, "--one", case.name, str(size)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{case.name} with {size:,} {case.unit} failed:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def one(name: str, size: int) -> None:
    case = next(case for case in CASES if case.name == name)
    with tempfile.TemporaryDirectory(prefix="ferrule-growth-") as made:
        folder = Path(made).resolve() / "work"
        folder.mkdir()
        os.environ.update(FERRULE_DATA=f"{made}/data", FERRULE_CONFIG=f"{made}/none.toml")
        before = _peak_now()
        figures = asyncio.run(case.work(folder, size))
        print(json.dumps({"megabytes": _peak_now() - before, **figures}))


def line(row: Measured) -> str:
    cells = [f"{size:>9,} {row.unit}: {_shown(figures)}" for size, figures in zip(row.sizes, row.figures, strict=True)]
    growth = "   -" if row.exponent is None else f"{row.exponent:4.2f}"
    return f"{'✗' if row.too_steep else ' '} {row.name}\n      exponent {growth}\n" + "\n".join(
        f"  {cell}" for cell in cells
    )


def _shown(figures: Figures) -> str:
    shown = f"{figures['seconds'] * 1e3:9.1f} ms"
    if figures.get("bare"):
        shown += f", {figures['seconds'] / figures['bare']:.2f} × {figures['bare'] * 1e3:.1f} ms of the bare work"
    if "megabytes" in figures:
        shown += f", {figures['megabytes']:.1f} MB"
    return shown


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="words of the rows to measure; all unless named")
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("ROW", "SIZE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        one(options.one[0], int(options.one[1]))
        return 0
    found: list[Measured] = []
    for case in CASES:
        if not options.rows or any(words in case.name for words in options.rows):
            found.append(measure(case, quick=options.quick))
            if not options.json:
                print(line(found[-1]), flush=True)
    if options.json:
        print(json.dumps([row.document() for row in found], indent=2))
    return 1 if any(row.too_steep for row in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
