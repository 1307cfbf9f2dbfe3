"""What a tool may know and use while it runs."""

from __future__ import annotations

import threading
import uuid
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, cast

from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.languages import require_language
from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence

    from typing_extensions import TypeVar as DefaultTypeVar

    from ferrule.core.access import Restrictions
    from ferrule.core.call import Approval, Effects, RawCall
    from ferrule.core.result import PartialOutput, Progress, ToolResult
    from ferrule.extension import SessionHistory


T = TypeVar("T")
if TYPE_CHECKING:
    DepsT = DefaultTypeVar("DepsT", default=object, covariant=True)
else:  # without its default, which only type checkers need: importing typing_extensions takes time
    DepsT = TypeVar("DepsT", covariant=True)


@dataclass(slots=True, frozen=True)
class Caller:
    """On whose behalf a call runs."""

    tenant: str | None = None
    user: str | None = None
    role: str | None = None


ANYONE = Caller()


class ModelAdapter(Protocol):
    """The model in use, for tools: one prompt, one answer."""

    async def complete(self, prompt: str) -> str: ...


def refuse_single(kind: str, **given: object) -> None:
    """Refuse a text where a list is wanted: it would be read as a list of its letters."""
    for name, value in given.items():
        if isinstance(value, (str, Path)):
            raise TypeError(f"{kind}: `{name}` takes a list. Write {name}=[{str(value)!r}].")


def require_type(kind: type[Any], *, or_none: bool = False, **given: object) -> None:
    """Refuse what is of another type."""
    for name, value in given.items():
        if not isinstance(value, kind) and not (or_none and value is None):
            article = "an" if kind.__name__[0] in "AEIOU" else "a"
            raise TypeError(f"`{name}` is {article} {kind.__name__}, not {type(value).__name__}.")


@dataclass(slots=True, frozen=True, kw_only=True)
class SandboxChoice:
    """The user's choices for shell commands: whether they are sandboxed, what the sandbox allows, and what becomes of
    files that git ignores if an unapproved command made them.

    `memory` and `file_size` are bytes, `processes` counts threads too; "auto" takes them from the machine. `unconfined`
    is about commands where no sandbox works: each asks, all run as with one, or none runs, whoever approves it.
    """

    enabled: bool = True
    hosts: Sequence[str] | None = None
    writable: Sequence[Path] = ()
    see: Sequence[Path] = ()
    """Folders that commands may read besides the workspace."""
    ignored: Literal["session", "drop", "keep", "ask"] = "session"
    memory: int | Literal["auto", "off"] = "auto"
    processes: int | Literal["auto", "off"] = "auto"
    file_size: int | Literal["auto", "off"] = "auto"
    unconfined: Literal["ask", "allow", "refuse"] = "ask"

    def __post_init__(self) -> None:
        refuse_single("SandboxChoice", hosts=self.hosts, writable=self.writable, see=self.see)


@dataclass(slots=True, frozen=True, kw_only=True)
class Environment:
    """Where a session's tools work; chosen by the program that makes the session."""

    roots: Sequence[Path | str] = ()
    """Folders that tools may use besides the workspace."""
    hard_links: bool = False
    """Whether a file with several hard links may be changed. The other names keep the old content."""
    sandbox: SandboxChoice = SandboxChoice()
    guarded: Sequence[Path] = ()
    """Folders that no command may write."""
    history_folder: Path | None = None
    """Where snapshots are kept; None for the user's data folder."""
    single_call: bool = False
    """Whether the session is for a single call, which may change files that were not read before."""

    def __post_init__(self) -> None:
        refuse_single("Environment", roots=self.roots, guarded=self.guarded)


# Every call of a service has a session of its own, and `dict[str, Any]()` takes several times as long as `dict()`.
_new_dict = cast("Callable[[], dict[Any, Any]]", dict)
_new_list = cast("Callable[[], list[Any]]", list)


@dataclass(slots=True)
class CommandNames:
    """Names that a session's shell has for commands."""

    defined: Mapping[str, str] = field(default_factory=_new_dict)
    """Functions and aliases, with their definitions."""
    tainted: frozenset[str] = frozenset()
    """Functions, aliases and variables that an unapproved command changed."""


@dataclass(slots=True)
class Session:
    """What the calls of one conversation share. `config`, `state` and `deps` are for tools; Ferrule uses none of them.

    `deps` is what tools get as `ToolContext.deps` where a call was given none of its own.
    """

    workspace: Path = field(default_factory=Path.cwd)
    working_directory: Path | None = None
    caller: Caller = ANYONE
    environment: Environment = Environment()
    config: Mapping[str, Any] = field(default_factory=_new_dict)
    state: dict[str, Any] = field(default_factory=_new_dict)
    model: str | None = None
    model_adapter: ModelAdapter | None = None
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    restrictions: Restrictions | None = None
    """What tools that walk folders or run programs must leave out; the policy's own unless given."""
    language: str = "en"
    """The user's, in which `display_content` is: `en` or `zh`."""
    deps: Any = field(default=None, repr=False, compare=False)
    turn: str = field(default="", init=False)
    """The current turn of a conversation with a model."""
    command_names: CommandNames = field(default_factory=CommandNames, init=False, repr=False, compare=False)
    notes: list[str] = field(default_factory=_new_list, init=False, repr=False, compare=False)
    """Notes for the next result; nearly always empty."""
    _closers: list[Callable[[], Awaitable[None]]] = field(
        default_factory=_new_list, init=False, repr=False, compare=False
    )
    _command_directory: Path | None = field(default=None, init=False, repr=False, compare=False)
    _parts: dict[type, Any] = field(default_factory=_new_dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.environment, Environment):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Session: `environment` must be an Environment, not {self.environment!r}.")
        require_language(self.language)

    def part(self, kind: type[T], make: Callable[[], T]) -> T:
        """The session's one object of a type, made at first use. Safe from any thread."""
        found = self._parts.get(kind)
        return found if found is not None else self._parts.setdefault(kind, make())

    def drop_part(self, kind: type) -> None:
        """Forget the object of a type, so that the next use makes another."""
        self._parts.pop(kind, None)

    def note(self, text: str) -> None:
        """Add a note to the next result. Safe from any thread."""
        self.notes.append(text)

    def take_notes(self) -> list[str]:
        """Remove and return the notes so far."""
        return [self.notes.pop(0) for _ in range(len(self.notes))]

    def on_close(self, close: Callable[[], Awaitable[None]]) -> None:
        """Call `close` when the session ends, for a process, a connection or anything else kept between calls."""
        self._closers.append(close)

    @property
    def has_something_open(self) -> bool:
        """Whether `close` has anything to do."""
        return bool(self._closers)

    async def close(self) -> None:
        """End everything that the session's calls left running, the last first. The session can be used again."""
        problems: list[Exception] = []
        while self._closers:
            try:
                await self._closers.pop()()
            except Exception as error:  # noqa: BLE001 - one that fails must not keep the others open
                problems.append(error)
        if problems:
            raise problems[0] if len(problems) == 1 else ExceptionGroup("a session could not be closed", problems)

    @property
    def directory(self) -> Path:
        """Where relative paths start: the working directory, or else the workspace."""
        return self.working_directory or self.workspace

    @property
    def command_directory(self) -> Path:
        """Where the session's next command starts: a `cd` of the last one counts."""
        return self._command_directory or self.directory

    @command_directory.setter
    def command_directory(self, folder: Path) -> None:
        self._command_directory = folder

    @property
    def history(self) -> SessionHistory:
        """What the session's calls changed in files: `recent`, `diff`, `undo` and `redo`."""
        from ferrule.extension import SessionHistory

        return SessionHistory(self)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The workspace, and the folders added to it (`Environment.roots`)."""
        return (self.workspace, *(Path(folder) for folder in self.environment.roots))


_LONGER_FOR_EACH_ABOVE = 0.1


class Cancellation:
    """Tells a running tool that its call was cancelled. Safe to use from any thread."""

    __slots__ = ("_event", "_parent", "_then", "until")

    def __init__(self, parent: Cancellation | None = None) -> None:
        self._parent = parent
        self._event = threading.Event()
        self._then: list[Callable[[], None]] = []
        self.until = 0.0
        """The end of the call's grace period, by the event loop's clock."""

    @property
    def requested(self) -> bool:
        return self._event.is_set()

    def request(self) -> None:
        self._event.set()
        for then in list(self._then):
            then()

    @contextmanager
    def telling(self, then: Callable[[], None]) -> Generator[None]:
        """Call `then` if the call is cancelled inside this block, in the thread that cancels it."""
        self._then.append(then)
        try:
            if self._event.is_set():
                then()
            yield
        finally:
            self._then.remove(then)

    def allow(self, until: float) -> None:
        """Extend the grace period, and those of the calls above by a little more each."""
        self.until = max(self.until, until)
        if self._parent is not None:
            self._parent.allow(until + _LONGER_FOR_EACH_ABOVE)

    def wait(self, seconds: float) -> bool:
        """Sleep in a sync tool, waking early (and returning True) when the call is cancelled."""
        return self._event.wait(seconds)

    def raise_if_requested(self) -> None:
        """Leave a sync tool's loop cleanly once the call is cancelled."""
        if self._event.is_set():
            raise ToolError(phrase("The call was cancelled."), kind=ErrorKind.CANCELLED)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread, while it runs."""
    import asyncio

    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


class _HomeModel:
    """The model, used on the loop that it belongs to."""

    def __init__(self, model: ModelAdapter, at_home: Callable[[Coroutine[Any, Any, str]], Awaitable[str]]) -> None:
        self._model = model
        self._at_home = at_home

    async def complete(self, prompt: str) -> str:
        return await self._at_home(_complete(self._model, prompt))


async def _complete(model: ModelAdapter, prompt: str) -> str:
    return await model.complete(prompt)


class CallPort(Protocol):
    """How a tool calls other tools: through the pipeline that runs the tool itself."""

    def run(
        self, call: RawCall, *, session: Session | None = None, parent: ToolContext | None = None
    ) -> Coroutine[Any, Any, ToolResult]: ...

    async def batch(
        self,
        calls: Sequence[RawCall],
        *,
        session: Session | None = None,
        parent: ToolContext | None = None,
        given: Mapping[str, Any] | None = None,
    ) -> list[ToolResult]: ...

    def run_sync(
        self, call: RawCall, *, session: Session | None = None, parent: ToolContext | None = None
    ) -> ToolResult: ...


class ToolContext(Generic[DepsT]):
    """Annotate a parameter with this type, and Ferrule passes it in. It never shows in the schema.

    `ToolContext[Shop]` says that the tool works with a `Shop`, which the program passes with the run or the call
    (`deps=…`), or sets on the session. Without one the tool isn't run.
    """

    __slots__ = (
        "_approve", "_asked_at", "_emit", "_keeper", "_loop", "_parent", "_pauses", "_port", "_waited", "call_id",
        "cancellation", "change", "deps", "lineage", "opened_hosts", "session", "stopped_words", "tentative", "tool",
    )  # fmt: skip

    def __init__(
        self,
        session: Session,
        call_id: str,
        tool: str,
        emit: Callable[[Progress | PartialOutput], None] | None = None,
        port: CallPort | None = None,
        lineage: tuple[str, ...] = (),
        parent: ToolContext | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        deps: DepsT | None = None,
    ) -> None:
        self.session = session
        self.deps: DepsT = cast("DepsT", deps)
        """What the program passed for its tools. It is never recorded, logged or shown."""
        self.call_id = call_id
        self.tool = tool
        self.lineage = lineage
        """The tools that led to this call, outermost first, its own last."""
        self.change: str = parent.change if parent is not None else ""
        """The call as part of which its changes are undone, if that is not its own."""
        self.cancellation = Cancellation(parent.cancellation if parent is not None else None)
        self.stopped_words = ""
        """A sentence for the error if the call times out: what its tool was waiting for."""
        self.tentative = False
        """Whether the call is only tried: its effects must be held back until `approve` allows them. Only for tools
        that describe their calls as `tentative`."""
        self.opened_hosts: tuple[str, ...] = ()
        """Hosts that the call may reach because the user approved that."""
        self._keeper: tuple[Any, str] | None = None
        self._approve: Callable[[Effects], Coroutine[Any, Any, Approval]] | None = None
        self._emit = emit
        self._port = port
        self._loop = loop
        self._parent = parent
        self._pauses = 0
        self._asked_at = self._waited = 0.0

    @property
    def session_id(self) -> str:
        return self.session.id

    @property
    def caller(self) -> Caller:
        return self.session.caller

    @property
    def workspace(self) -> Path:
        return self.session.workspace

    @property
    def working_directory(self) -> Path:
        return self.session.directory

    @property
    def config(self) -> Mapping[str, Any]:
        return self.session.config

    @property
    def state(self) -> dict[str, Any]:
        return self.session.state

    @property
    def model(self) -> str | None:
        return self.session.model

    @property
    def model_adapter(self) -> ModelAdapter:
        """The model in use. A tool that needs one declares `needs=("model",)`."""
        if self.session.model_adapter is None:
            raise ToolError(phrase("This tool asks a model, and the session has none."))
        if self._loop is None or self._loop is running_loop():
            return self.session.model_adapter
        return _HomeModel(self.session.model_adapter, self._at_home)

    @property
    def cancelled(self) -> bool:
        return self.cancellation.requested

    @property
    def watched(self) -> bool:
        """Whether anyone may see partial output. If not, a tool needn't produce it."""
        return self._emit is not None

    def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Report how far the call has come. Safe from any thread."""
        if self._emit is not None:
            from ferrule.core.result import Progress

            self._emit(Progress(self.call_id, self.tool, done, total, message))

    def partial(self, content: object) -> None:
        """Show a piece of output before the call is done. Safe from any thread."""
        if self._emit is not None:
            from ferrule.core.result import PartialOutput

            self._emit(PartialOutput(self.call_id, self.tool, content))

    @contextmanager
    def asking_person(self) -> Generator[None]:
        """Use it around a question to the user: their time doesn't count for the call, nor for its parents."""
        self._pauses += 1
        if self._pauses == 1:
            self._asked_at = perf_counter()
        try:
            with self._parent.asking_person() if self._parent is not None else nullcontext():
                yield
        finally:
            self._pauses -= 1
            if self._pauses == 0:
                self._waited += perf_counter() - self._asked_at

    @property
    def waited(self) -> float:
        """Seconds that this call and those that it made have waited for the user."""
        return self._waited + (perf_counter() - self._asked_at if self._pauses else 0.0)

    async def approve(self, effects: Effects) -> Approval:
        """Ask whether the effects of a tried call may be kept: rules and the mode decide, or the user does.

        The time that the user takes doesn't count for the call.
        """
        if self._approve is None:
            raise ToolError(
                phrase("This call had no trial run with its effects held back; there is nothing to approve.")
            )
        return await self._at_home(self._approve(effects))

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Call another tool: looked up, validated, authorised and recorded like any other call."""
        from ferrule.core.call import RawCall

        call = RawCall(name, dict(arguments or {}))
        return await self._at_home(self._calls().run(call, session=self.session, parent=self))

    def call_sync(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """The same for a sync tool, which blocks its thread until the other call has ended."""
        from ferrule.core.call import RawCall

        return self._calls().run_sync(RawCall(name, dict(arguments or {})), session=self.session, parent=self)

    async def batch(self, calls: Sequence[RawCall], *, given: Mapping[str, Any] | None = None) -> list[ToolResult]:
        """Run many calls; they may refer to each other's results and to the named values in `given`."""
        return await self._at_home(self._calls().batch(calls, session=self.session, parent=self, given=given))

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop that the call was made on. The tool itself may run on another, or in a thread."""
        return self._loop

    async def _at_home(self, work: Coroutine[Any, Any, T]) -> T:
        """Await a coroutine on the loop that the call was made on."""
        if self._loop is None or self._loop is running_loop():
            return await work
        from ferrule.core.loops import elsewhere

        return await elsewhere(work, self._loop)

    def _calls(self) -> CallPort:
        if self._port is None:
            raise ToolError(phrase("This context has no runtime, so it cannot call other tools."))
        return self._port


# For the pipeline and agents, not for tools.
# pyright: reportPrivateUsage=false


def runtime_of(context: ToolContext) -> CallPort | None:
    """What runs the calls that the tool makes; None if it can make none."""
    return context._port  # noqa: SLF001


def innermost(tool: str, context: ToolContext | None) -> ToolContext | None:
    """The innermost call of a tool among this one and those that led to it."""
    while context is not None and context.tool != tool:
        context = context._parent  # noqa: SLF001
    return context


def keep_by(context: ToolContext, keeper: tuple[Any, str] | None) -> None:
    """Say what keeps the agent's call that a call belongs to, and that call's id; None if nothing does."""
    context._keeper = keeper  # noqa: SLF001


def keeper_of(context: ToolContext | None) -> tuple[Any, str] | None:
    return context._keeper if context is not None else None  # noqa: SLF001


def try_first(context: ToolContext, approve: Callable[[Effects], Coroutine[Any, Any, Approval]]) -> None:
    """Make the call one that is only tried; `approve` decides about its effects."""
    context.tentative = True
    context._approve = approve  # noqa: SLF001
