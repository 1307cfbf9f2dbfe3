"""Drafted tools in use (M4): every call of one runs in a box, and its code is never loaded in this process.

What a call may do is held by the box that its kind gets, and not guessed from its code: a read-only draft finds nothing
that it could change and no network, one that writes may change the workspace outside guarded places, and one that
executes may also reach the hosts that commands may. What it changed can be undone, as after a command.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ferrule.builtin.session_shells import SECONDS_TO_END, look_profile, roots_of, shell_of, try_sandbox, work_profile
from ferrule.core.access import READS_ANYTHING, WRITES_ANYTHING
from ferrule.core.errors import DefinitionError, ErrorKind, MissingExtraError, ToolError
from ferrule.core.function_tool import RawTool
from ferrule.core.json_lines import parse_line
from ferrule.core.phrases import joined, phrase, said_by
from ferrule.core.result import Output
from ferrule.core.tool import Kind
from ferrule.plugins.drafts import FOLDER, REPORT, AgreedDraft, AgreedDrafts
from ferrule.plugins.plugin import BrokenModule
from ferrule.plugins.tools_folder import FileTools
from ferrule.workspace.confined import read_given

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ferrule.core.context import Session, ToolContext
    from ferrule.plugins.tools_index import Sources
    from ferrule.process.profile import Profile
    from ferrule.process.sandbox.sandbox import Sandbox

_SECONDS = 3600.0
"""In the box; outside of it the call's own time limit holds, and ends the box."""
_MOST_MEMORY = 2 << 30
_MOST_FILE = 64 << 20
_MOST_REPORT = 4 << 20
_MOST_SAID = 2000
_START = "import sys; sys.path[:] = {path!r}; from ferrule.plugins.draft_trial import main; main()"


# Its box


async def confining_sandbox(session: Session) -> Sandbox:
    """What holds a draft; raises `ToolError` where nothing does."""
    shell_of(session)  # whose end removes what boxes of the session keep aside
    sandbox = await try_sandbox(session)
    if not sandbox.confines:
        raise ToolError(
            phrase("No sandbox works here, and a drafted tool only runs in one."),
            kind=ErrorKind.PERMISSION,
            suggestion=phrase("Run `ferrule doctor` to see what the sandbox needs."),
        )
    return sandbox


def call_profile(kind: Kind, session: Session, *, closed: bool = False) -> Profile:
    """The box that calls of a draft run in. `closed`: it sees the workspace alone, and reaches no host."""
    if kind is Kind.READONLY:
        return boxed(look_profile(session, ()), session, closed=closed)
    profile = work_profile(session)
    return boxed(
        profile if kind is Kind.EXECUTE and not closed else replace(profile, hosts=None), session, closed=closed
    )


def permitted(profile: Profile, session: Session, *, closed: bool) -> list[str]:
    """What a box permits, line by line, for a user who is to agree to what will run in it."""

    def named(folders: Iterable[Path]) -> str:
        own = Path(os.path.realpath(session.workspace))
        return joined(", ", [phrase("the workspace") if one == own else f"`{one}`" for one in folders])

    folders, changed = named(roots_of(session)), named(profile.writable)
    if closed:
        read = phrase("read {folders} and the system's programs, but no secret files", folders=folders)
        change = phrase("change {folders}, but no guarded places", folders=changed)
    else:
        read = phrase("read {folders} and what else commands see, but no secret files", folders=folders)
        change = phrase("change {folders}, but no guarded places; `ferrule undo` restores it", folders=changed)
    if profile.look:
        change = phrase("change nothing")
    hosts = ", ".join(f"`{one}`" for one in profile.hosts or ())
    return [read, change, phrase("reach {hosts}", hosts=hosts) if hosts else phrase("reach no host")]


def boxed(profile: Profile, session: Session, *, closed: bool) -> Profile:
    """A box that starts in the workspace, and shows this Python and its packages wherever they lie."""
    from ferrule.process.profile import Bounds

    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111
    needed = {os.path.realpath(one) for one in (sys.prefix, sys.base_prefix, *_library_path())}
    shown = (Path(one) for one in sorted(needed) if Path(one).is_dir() and not Path(home).is_relative_to(one))
    return replace(
        profile,
        folder=Path(os.path.realpath(session.workspace)),
        readable=(*profile.readable, *shown),
        temporary=None,
        closed=closed,
        bounds=Bounds(processes=64, memory=_MOST_MEMORY, file_size=_MOST_FILE, layer=_MOST_FILE),
    )


def _library_path() -> list[str]:
    here = ("", os.getcwd())  # noqa: PTH109 - plain text
    return [str(Path(__file__).resolve().parents[2]), *(os.path.realpath(one) for one in sys.path if one not in here)]


def _python() -> str:
    """The interpreter where it really lies; not what it links to, which is none of this environment."""
    folder, name = os.path.split(sys.executable)
    return os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - plain text


@dataclass(slots=True)
class BoxedDraft:
    """How an order ended, and what its process reported of it."""

    late: bool
    layered: bool
    code: int
    report: list[dict[str, Any]]
    complaint: str
    kept_from: list[str]
    """What its box kept it from, in sentences."""


async def run_boxed(
    sandbox: Sandbox, profile: Profile, order: dict[str, Any], seconds: float | None = None
) -> BoxedDraft:
    """Have an order carried out in a box, by `draft_trial`, within these seconds or for as long as it is waited for."""
    import asyncio
    from tempfile import TemporaryFile

    from ferrule.process.box import open_box

    arguments = (_python(), "-P", "-s", "-B", "-X", "utf8", "-c", _START.format(path=_library_path()))
    with TemporaryFile() as given, TemporaryFile() as report, TemporaryFile() as said:
        given.write(json.dumps(order, default=str).encode())
        given.seek(0)
        box = await open_box(
            sandbox,
            profile,
            arguments,
            stdin=given.fileno(),
            stdout=said.fileno(),
            stderr=said.fileno(),
            passed={REPORT: report.fileno()},
        )
        try:
            try:
                done, _ = await asyncio.wait({box.ended}, timeout=seconds)
            finally:  # also for a call that was stopped: when that is said, nothing of it runs any more
                await box.end(patience=0)
            denials = await asyncio.to_thread(box.denials)  # what it wrote where it must not is undone
        finally:
            box.close()
        lines = os.pread(report.fileno(), _MOST_REPORT, 0).splitlines()
        words = os.pread(said.fileno(), _MOST_SAID, max(0, os.fstat(said.fileno()).st_size - _MOST_SAID))
        return BoxedDraft(
            not done,
            box.layered,
            box.ended.result(),
            list(_understood(lines)),
            words.decode("utf-8", "replace").strip(),
            [f"{one.message} {one.suggestion}".strip() for one in denials],
        )


def _understood(lines: Sequence[bytes]) -> Iterable[dict[str, Any]]:
    """What a draft's process reported, as far as that is in form: the draft could write there too."""
    for line in lines:
        try:
            said = parse_line(line)
        except ValueError:
            continue
        if isinstance(said, dict):
            yield cast("dict[str, Any]", said)


# A call


async def call_draft(
    name: str, text: str, arguments: Any, session: Session, kind: Kind, *, closed: bool = False
) -> Output[Any]:
    """Run one call of a draft in the box of its kind; raises `ToolError` for whatever comes of it but an answer."""
    import asyncio

    sandbox = await confining_sandbox(session)
    profile = await asyncio.to_thread(lambda: call_profile(kind, session, closed=closed))
    ran = await run_boxed(sandbox, profile, {"name": name, "code": text, "arguments": arguments, "seconds": _SECONDS})
    said = ran.report[-1] if ran.report else {}
    if "gave" in said:
        return Output(said["gave"], llm_content="\n".join([str(said.get("text", "")), *_bracketed(ran.kept_from)]))
    if "failed" in said:
        raise ToolError(
            "\n".join([str(said["failed"]), *_bracketed(ran.kept_from)]),
            kind=_kind_of(said.get("kind")),
            suggestion=str(said.get("suggestion") or "") or None,
        )
    why = f": {ran.complaint.splitlines()[-1][:300]}" if ran.complaint else ""
    raise ToolError(
        phrase(
            "`{name}` gave no answer that could be read; its process ended with code {code}{why}.",
            name=name, code=ran.code, why=why,
        )
    )  # fmt: skip


def _bracketed(notes: Iterable[str]) -> list[str]:
    return [f"[{note}]" for note in notes]


def _kind_of(said: object) -> ErrorKind:
    try:
        return ErrorKind(cast("str", said))
    except ValueError:
        return ErrorKind.EXECUTION


class DraftedTool(RawTool):
    """A draft that the user agreed to."""

    def __init__(self, draft: AgreedDraft, content: bytes) -> None:
        self._text = content.decode("utf-8", "replace")
        definition = draft.definition
        super().__init__(
            draft.name,
            definition["inputSchema"],
            self._call,
            output_schema=definition.get("outputSchema"),
            description=str(definition.get("description") or ""),
            display_name=draft.display_name or draft.name,
            kind=draft.kind,
            version=draft.version,
            timeout=draft.timeout,
            grace=SECONDS_TO_END,
            # Said, so that accepted edits do not cover it: nobody knows what one that writes will remove.
            touches=READS_ANYTHING if draft.kind is Kind.READONLY else WRITES_ANYTHING,
            may_block=False,  # the sandbox belongs to the program's loop
        )

    async def _call(self, arguments: Any, context: ToolContext) -> Output[Any]:
        if self.kind is Kind.READONLY:
            return await call_draft(self.name, self._text, arguments, context.session, self.kind)
        from ferrule.builtin.shell_run import undoable

        await confining_sandbox(context.session)  # before the workspace is looked at
        async with undoable(context) as told:
            output = await call_draft(self.name, self._text, arguments, context.session, self.kind)
        words = "\n".join([str(output.llm_content), *_bracketed(told.notes)])
        return replace(output, llm_content=words, metadata={"changed": told.changed})


class DraftsFolder:
    """The drafts of a workspace, those that the user agreed to; the others are named, with what to do about them."""

    def __init__(self, workspace: Path) -> None:
        self.path = str(workspace / FOLDER)
        self.files: list[FileTools] = []
        self.broken: list[BrokenModule] = []
        self.sources: Sources | None = None
        self._agreed = AgreedDrafts(workspace)

    def look(self) -> Sources | None:
        """The files that the user agreed to as they are, and of each other one why it is not used."""
        try:
            files = sorted(one for one in Path(self.path).iterdir() if one.suffix == ".py" and one.name[0] not in "._")
        except (FileNotFoundError, NotADirectoryError):
            return None
        found: Sources = {}
        for file in files:
            try:
                found[str(file)] = content = read_given(file)
            except OSError as error:
                found[str(file)] = f"it cannot be read: {error.strerror or error}"
            else:
                if self._agreed.find(content) is None:
                    found[str(file)] = _not_agreed(file.stem)
        return found

    def refresh(self, sources: Sources | None) -> None:
        """Make tools of what changed; a tool whose file is as it was stays the very same."""
        before, known = self.sources or {}, {one.path: one for one in self.files}
        self.sources = sources
        self.files = [
            known[path] if path in known and before.get(path) == source else self._made(path, source)
            for path, source in (sources or {}).items()
        ]

    def _made(self, path: str, source: bytes | str) -> FileTools:
        draft = None if isinstance(source, str) else self._agreed.find(source)
        if isinstance(source, str) or draft is None:
            why = source if isinstance(source, str) else _not_agreed(Path(path).stem)
            return FileTools(path, broken=[BrokenModule(path, why)])
        try:
            return FileTools(path, tools=[DraftedTool(draft, source)])
        except (MissingExtraError, DefinitionError) as error:
            return FileTools(path, broken=[BrokenModule(path, said_by(error))])


def _not_agreed(name: str) -> str:
    return f"you have not agreed to it as it is now; look at it with `ferrule draft accept {name}`"
