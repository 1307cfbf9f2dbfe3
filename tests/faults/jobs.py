"""What programs do here while something befalls them: one job for each way in which Ferrule changes files."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ferrule.workspace.files import history_folder
from ferrule.workspace.paths import Paths
from ferrule.workspace.snapshots.changes import Caps, Write
from ferrule.workspace.snapshots.history import History
from tests.faults.bench import Bench, Tree
from tests.faults.programs import Body, Call, Program, Reporter, command_line, ready_then, session
from tests.faults.tracing import Fate

TORN = (".new", "typed.txt.new")
"""What a command makes on the way to a file; killed with it, it may hold anything."""
_STEPS = (
    "printf 'new\\n' > .new && mv .new notes.txt; rm many/3.txt; mkdir made; mv many/4.txt made/4.txt; "
    "chmod 700 run.sh; ln -s notes.txt another; rmdir empty; printf 'x%.0s' {1..5000} > .new && mv .new large.txt"
)
_TYPED = "read -r line; printf '%s\\n' \"$line\" > typed.txt.new && mv typed.txt.new typed.txt; rm many/5.txt"
_LATER = f"{_STEPS}; echo ready; sleep 300"
_EDITS = [
    {"old_string": "a line with the word two", "new_string": "a short line", "replace_all": True},
    {"old_string": " in it", "new_string": "", "replace_all": True},
]
_REPLACEMENT = {"pattern": "two", "path": "many", "replace_with": "2", "preview_only": False}
CHANGES: tuple[Call, ...] = (
    ("Write", {"file_path": "new/deep/file.txt", "content": "new\n" * 3000}),
    ("Edit", {"file_path": "notes.txt", "old_string": "one", "new_string": "1", "replace_all": True}),
    ("FileSearch", _REPLACEMENT),
    (
        "Bash",
        {"command": "rm many/3.txt; mv many/4.txt moved.txt; chmod 700 run.sh; mkdir made; ln -s run.sh made/run"},
    ),
    ("Write", {"file_path": "run.sh", "content": "#!/bin/sh\nexit 1\n"}),
)
"""A history to undo and redo."""


@dataclass(frozen=True)
class Job:
    """Calls of one session, or a program of its own that begins with `setup` done."""

    tool: str
    calls: Sequence[Call] = ()
    first: Sequence[Call] = ()
    """Calls that come before, in the same session, and change nothing."""
    setup: Sequence[Call] = ()
    allow: Sequence[str] = ()
    body: Callable[[], Body] | None = None
    prepare: Sequence[Sequence[str]] = ()
    """Commands of `ferrule` that come before."""
    steps: bool = False
    """Whether it changes one file after the other, so that a kill may leave some old and some new."""

    def program(self) -> Body:
        if self.body is not None:
            return ready_then(self.body())
        return session(self.calls, first=self.first, allow=self.allow, wait=True)


def read(*names: str) -> list[Call]:
    return [("Read", {"file_path": name}) for name in names]


_UNDO_ALL, _REDO_ALL = ("undo", "--to", "0"), ("redo", "--to", str(len(CHANGES)))
_MULTI_EDIT: Call = ("MultiEdit", {"file_path": "large.txt", "edits": _EDITS})
_EDIT_DOCUMENT: Call = ("EditDocument", {"file_path": "letter.docx", "edits": [{"find": "two", "replace": "2"}]})
_READ_DOCUMENT: Call = ("ReadDocument", {"file_path": "letter.docx"})
_CONVERT_DOCUMENT: Call = ("ConvertDocument", {"file_path": "page.html", "to_path": "page.md"})
_COMMAND: Call = ("Bash", {"command": _STEPS})

JOBS: dict[str, Job] = {
    "a new file": Job("Write", [CHANGES[0]]),
    "a file": Job("Write", [CHANGES[4]], first=read("run.sh")),
    "an edit": Job("Edit", [CHANGES[1]], first=read("notes.txt")),
    "many edits": Job("MultiEdit", [_MULTI_EDIT], first=read("large.txt")),
    "a replacement": Job("FileSearch", [CHANGES[2]]),
    "a new document": Job("WriteDocument", [("WriteDocument", {"file_path": "made.docx", "content": "# Two"})]),
    "an edit of a document": Job("EditDocument", [_EDIT_DOCUMENT], first=[_READ_DOCUMENT]),
    "a converted document": Job("ConvertDocument", [_CONVERT_DOCUMENT]),
    "a command held back": Job("Bash", [_COMMAND]),
    "a command": Job("Bash", [_COMMAND], allow=["Bash"], steps=True),
    "a simple command": Job(
        "executeCommand", [("executeCommand", {"command": _STEPS})], allow=["executeCommand"], steps=True
    ),
    "a command at a terminal": Job(
        "BashInput",
        [("BashInput", {"text": "typed\n"})],
        first=[("Bash", {"command": _TYPED, "terminal": True})],
        allow=["Bash", "BashInput"],
        steps=True,
    ),
    "a command in the background": Job(
        "KillShell",
        [
            ("Bash", {"command": _LATER, "run_in_background": True}),
            ("BashOutput", {"shell_id": "bash_1", "wait_for": "ready"}),
            ("KillShell", {"shell_id": "bash_1"}),
        ],
        allow=["Bash", "KillShell"],
        steps=True,
    ),
    "undo": Job("undo", setup=CHANGES, body=lambda: command_line(*_UNDO_ALL)),
    "redo": Job("redo", setup=CHANGES, prepare=[_UNDO_ALL], body=lambda: command_line(*_REDO_ALL)),
}  # fmt: skip


@dataclass
class Course:
    """How a job goes when nothing befalls it: how many system calls that change something, and the states it passes."""

    calls: int = 0
    seconds: float = 0
    states: list[Tree] = field(default_factory=list[Tree])


def begin(bench: Bench, name: str) -> Program:
    """Bring a workspace to where a job begins; the job is ready to go."""
    job = JOBS[name]
    for call in job.setup:
        make(bench, call)
    for arguments in job.prepare:
        assert bench.ferrule(*arguments).code == 0
    return bench.start(job.program()).until_ready()


@cache
def course_of(name: str, folder: Path) -> Course:
    """Do a job once, in a workspace of its own."""
    bench, course = Bench(folder), Course()
    try:
        if JOBS[name].setup:  # it passes the states that its setup left, forwards or backwards
            for number in range(len(CHANGES) + 1):
                if number:
                    make(bench, CHANGES[number - 1])
                course.states.append(bench.tree())
            for arguments in JOBS[name].prepare:
                assert bench.ferrule(*arguments).code == 0
            program = bench.start(JOBS[name].program()).until_ready()
        else:
            course.states.append(bench.tree())
            program = begin(bench, name)
        began = time.monotonic()
        course.calls = bench.follow({program.process: Fate()})[program.process].calls
        course.seconds = time.monotonic() - began
        assert program.code == 0, program.text()
        for report in program.reports():
            assert report.success, report.text
        if not JOBS[name].setup:
            course.states.append(bench.tree())
            assert course.states[0] != course.states[1], "the job changes nothing"
    finally:
        bench.close()
    return course


def make(bench: Bench, call: Call, allow: Sequence[str] = ()) -> None:
    """Make one call in a session of its own, which has read the file that it changes."""
    named = call[1].get("file_path")
    first = read(named) if named and (bench.workspace / named).is_file() else []
    done = bench.session(*first, call, allow=allow)
    assert done[-1].success, done[-1].text


CAPS = Caps(total=9_000_000, changes=12)
"""Of a history that forgets."""


def forgetting(reporter: Reporter) -> int:
    """Changes files in a history with little room, so that each change makes it forget an older one."""
    workspace = Path.cwd()
    paths = Paths([workspace])
    history = History(history_folder(workspace), paths, CAPS)
    for number in range(30):
        if number == 15:
            reporter.ready()
        data = random.Random(number).randbytes(80_000 * (1 + number % 7))  # sometimes too many bytes, sometimes changes
        history.apply([Write(paths.locate(f"file-{number % 5}.txt"), data)])
    return 0
