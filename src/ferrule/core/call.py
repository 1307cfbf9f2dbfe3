"""A call as a model asked for it, what it would do, and what one that was only tried did."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field, fields
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

from ferrule.core.phrases import joined, phrase
from ferrule.core.shown_text import cut, shown_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ferrule.core.access import Touch
    from ferrule.core.errors import ToolError


_numbers = count(1)
_process = ""


def _begin_process() -> None:
    global _process
    _process = os.urandom(3).hex()


_begin_process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_process)


def new_call_id() -> str:
    """An id for a call that came without one. No other process makes it, nor a model that counts `call_1`, `call_2`."""
    return f"call_{_process}_{next(_numbers)}"


class RawCall:
    """A call as it came in: a tool's name, and arguments that have not been checked yet.

    `arguments` is JSON text (as OpenAI sends it) or a mapping (as Anthropic, Gemini and MCP do). `version` pins
    one version of the tool; without it the current one runs.
    """

    __slots__ = ("arguments", "has_own_id", "id", "name", "version")

    def __init__(
        self,
        name: str,
        arguments: str | bytes | Mapping[str, Any] | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the providers' word
        version: str | None = None,
    ) -> None:
        self.name = name
        self.arguments: Any = arguments
        self.id = id or new_call_id()
        self.has_own_id = bool(id)
        self.version = version

    def __repr__(self) -> str:
        return f"RawCall({self.name!r}, {self.arguments!r}, id={self.id!r}, version={self.version!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RawCall) and (self.name, self.arguments, self.id, self.version) == (
            other.name,
            other.arguments,
            other.id,
            other.version,
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(slots=True, frozen=True)
class CallInfo:
    """What one call would do, as its tool describes it. Whatever is left out has a safe default.

    From this one description come the permission check, the question, the schedule of a batch, and the audit line.
    """

    touches: Iterable[Touch] | Touch | None = None
    """What it reads and writes. Left out, a read-only tool may read anything, and any other write anything."""
    signature: str | None = None
    """What the brackets of a rule are matched against: `deploy(staging)`. Left out, the arguments as JSON."""
    always_rule: str | None = None
    """What "always allow" remembers, such as `Edit:src/*`. Left out, the tool's name."""
    summary: str | None = None
    """One short line for the user: what is about to happen. Left out, the tool's name and the signature."""
    refusal: ToolError | None = None
    """Why the call would fail whoever approves it, so that nobody is asked in vain. It guards nothing: `run` must
    refuse by itself."""
    only_reads: bool = False
    """Whether this one call changes nothing although its tool can, as a preview does. It then runs as a read-only tool
    does, as long as it declares no write."""
    tentative: bool = False
    """Whether the call can be tried with its effects held back: it then runs without a question where nothing denies
    it, and asks for its outcome with `ToolContext.approve`. A tool that says this must try it so whenever
    `ToolContext.tentative` is true."""
    runs_alone: bool = False
    """Whether nothing else of a batch may run beside it, whatever it touches."""
    each: tuple[str, ...] = ()
    """What the brackets of rules are matched against where a call is about several things, such as the recipients of a
    message: those that allow it must cover each, in any letter case, and one that denies or asks matches any."""
    caution: Callable[[], str] | None = field(default=None, compare=False)
    """Gives a whole sentence that the user should know before they approve the call, or nothing. Used where the policy
    has no warning of its own."""
    asks_always: bool = False
    """Whether no mode and no rule for the whole tool lets it run: it asks unless rules cover `each`."""
    unconfined: Literal["", "ask", "refuse", "allow"] = ""
    """Of a command that nothing would confine: whether it asks whatever the rules and the mode say, is refused, or the
    user lets it run as any other. Empty where a sandbox confines it."""


NOTHING_SAID = CallInfo()


# What a call that was tried with its effects held back would change, and what it was kept from.


MOST_LINES = 20
"""What a question lists at most; more can be opened."""
Action = Literal["create", "change", "delete", "rename", "mode"]
NodeKind = Literal["file", "folder", "link", "special"]


@dataclass(slots=True, frozen=True)
class FileEffect:
    """What would happen to one path."""

    action: Action
    path: str
    """The real path, absolute."""
    shown: str
    """The same as the user knows it: relative to the workspace where it lies inside; what misleads in it is escaped."""
    node: NodeKind = "file"
    detail: str = ""
    """What the name does not say: `0644 -> 0755`, a link's target, where it was renamed from, a binary file's size."""
    added: int = 0
    removed: int = 0
    """Lines of a text file."""
    recoverable: bool = True
    """Whether git holds what a deletion or a change would remove; accepted edits never lose what nobody has."""
    opens: bool = False
    """Whether everyone may write it from then on, or it runs with its owner's rights, and did not before (S2)."""
    internal: bool = False
    """Whether it is a file inside a git directory that lines of `Effects.git` explain, and that was checked to be one
    of git's own: an object, a ref. Lists name these only on demand."""
    harmless: bool = False
    """Whether it is git's configuration and changes only remotes, branches or the user in it, so that git runs nothing
    that it did not run before."""
    moved: bool = False
    """Of a `delete`: whether the effect that renames the file names it, so that nothing is lost."""
    source: str = ""
    """Of a `rename`: the real path that it was renamed from."""
    target: str = ""
    """Of a link: where it leads, as it is written."""
    guarded: bool = False
    """Whether other programs run or obey what is there."""

    def __post_init__(self) -> None:
        if not self.shown.isascii():
            object.__setattr__(self, "shown", shown_row(self.shown))

    @property
    def words(self) -> str:
        """One line: `change src/a.py (+3 -1)`."""
        lines = f" (+{self.added} -{self.removed})" if self.added or self.removed else ""
        detail = f" ({self.detail})" if self.detail else ""
        return phrase(_LINES[self.action], what=f"{self.shown}{'/' if self.node == 'folder' else ''}{lines}{detail}")

    @property
    def stands_out(self) -> bool:
        """Whether a user must not miss it among others of its kind."""
        return self.guarded or self.opens or self.node in ("link", "special") or "\\u{" in self.shown


@dataclass(slots=True, frozen=True)
class Barrier:
    """Something that a call was kept from while it was tried: the network, a hidden or a guarded place, its time."""

    kind: Literal["network", "read", "write", "guarded", "time", "limit"]
    subject: str
    """The host or path, where that is known."""
    message: str
    """A whole sentence."""


@dataclass(slots=True, frozen=True)
class Effects:
    """All of it. `diff` is bounded; `left_out` counts the files whose changes it does not show.

    What is removed, renamed and changed comes before what is new, and first what stands out of each.
    """

    files: tuple[FileEffect, ...] = ()
    diff: str = ""
    left_out: int = 0
    barriers: tuple[Barrier, ...] = ()
    ignored: bool = False
    """Whether it is nothing but what git ignores, and the user's settings say that commands keep that."""
    git: tuple[str, ...] = ()
    """What changed in repositories, as git would say it: "1 commit on master: second; f.txt +1"."""

    def __post_init__(self) -> None:
        order = {action: at for at, action in enumerate(_LINES)}
        ordered = sorted(self.files, key=lambda one: (one.internal, order[one.action], one.moved, not one.stands_out))
        object.__setattr__(self, "files", tuple(ordered))

    def __bool__(self) -> bool:
        return bool(self.files or self.barriers)

    @property
    def runs_again(self) -> bool:
        """Whether a yes runs the call again for real: it was kept from something, or made what cannot be applied."""
        return bool(self.barriers) or any(one.node == "special" for one in self.files)

    @property
    def counts(self) -> dict[str, int]:
        """How many of each: `{"create": 2, "delete": 1}`. What `git` or a rename explains is not counted."""
        return dict(Counter(one.action for one in self._listed))

    @property
    def reason(self) -> str:
        """What it would do and what it was kept from: "it would change 2 files and delete 1 file"."""
        counts = self.counts
        listed = [phrase(said, what=_files(counts[one])) for one, said in _LINES.items() if counts.get(one)]
        if self.git:
            listed.append(phrase("change the git repository"))
        what = joined(", ", listed)
        if len(listed) > 1:
            what = phrase("{first} and {last}", first=joined(", ", listed[:-1]), last=listed[-1])
        done = [phrase("it would {what}", what=what)] if listed else []
        return joined(", ", [*done, *dict.fromkeys(_kept_from(barrier) for barrier in self.barriers)])

    def lines(self, most: int = MOST_LINES) -> list[str]:
        """What changed in repositories, then the other files and each barrier, in about so many lines.

        Files that there is no room for are counted by their folders, and none is left out of that.
        """
        listed = self._listed
        said = self.git[: most - min(len(listed), most // 2)]
        named: list[str] = [*said]
        if more := len(self.git) - len(said):
            named.append(phrase("… and {more} more in git", more=f"{more:,}"))
        kinds = {action: [one for one in listed if one.action == action] for action in _LINES}
        waiting = [found for found in kinds.values() if found]
        while waiting:
            found = waiting.pop(0)
            room = max(most - len(named) - 2 * len(waiting), 2) if len(self.git) + len(listed) > most else len(found)
            named += _by_folder(found, room)
        if inside := len(self.internals):
            named.append(
                phrase("and 1 file inside .git")
                if inside == 1
                else phrase("and {count} files inside .git", count=f"{inside:,}")
            )
        return [*named, *(one.message for one in self.barriers)]

    @property
    def internals(self) -> tuple[FileEffect, ...]:
        """The files that lists name only on demand."""
        return tuple(one for one in self.files if one.internal)

    @property
    def _listed(self) -> list[FileEffect]:
        return [one for one in self.files if not (one.internal or one.moved)]

    @property
    def every_line(self) -> list[str]:
        """All that would be applied, a line each."""
        return [*self.git, *(one.words for one in self.files)]

    def folded(self, most: int = MOST_LINES) -> bool:
        """Whether `lines` leaves out the name of anything."""
        return bool(self.internals) or len(self.git) + len(self._listed) > most

    def as_data(self, most: int | None = 1000) -> dict[str, Any]:
        """The same for JSON and for records; with None all of it."""
        return {
            "counts": self.counts,
            **({"git": list(self.git if most is None else self.git[:_MOST_SAID])} if self.git else {}),
            "files": [
                {
                    "action": one.action,
                    "path": one.shown,
                    "node": one.node,
                    **({"detail": one.detail} if one.detail else {}),
                    **({"internal": True} if one.internal else {}),
                }
                for one in self.files[:most]
            ],
            "kept_from": [{"kind": one.kind, "subject": one.subject} for one in self.barriers],
        }


_MOST_SAID = 50
_MOST_EXAMPLES, _LONGEST_EXAMPLE, _DEEPEST = 3, 30, 8
_LINES: dict[Action, str] = {
    "delete": phrase("delete {what}"),
    "rename": phrase("rename {what}"),
    "mode": phrase("change the permissions of {what}"),
    "change": phrase("change {what}"),
    "create": phrase("create {what}"),
}
"""What is said of each, in the order in which they are listed."""


def _by_folder(files: list[FileEffect], most: int) -> list[str]:
    """A line for each, or as many as fit, with the rest counted by the folders that they lie in."""
    if len(files) <= most:
        return [one.words for one in files]
    first = [one for one in files[: most // 2] if one.stands_out]
    named, rest, room = [one.words for one in first], files[len(first) :], most - len(first)
    parents = [one.shown.split("/")[:-1] for one in rest]
    folders: dict[str, list[FileEffect]] = {}
    for depth in range(min(_DEEPEST, max(map(len, parents))), -1, -1):
        folders = {}
        for one, parent in zip(rest, parents, strict=True):
            folders.setdefault("/".join(parent[:depth]), []).append(one)
        if len(folders) <= room or not depth:
            break
    for folder, inside in folders.items():
        if len(inside) == 1:
            named.append(inside[0].words)
            continue
        names = [cut(one.shown[len(folder) :].lstrip("/"), _LONGEST_EXAMPLE) for one in inside[:_MOST_EXAMPLES]]
        examples = ", ".join([*names, *(["…"] if len(inside) > len(names) else [])])
        count = _files(len(inside))
        what = phrase("{files}: {names}", files=count, names=examples)
        if folder:
            what = phrase("{files} in {folder}/: {names}", files=count, folder=folder, names=examples)
        named.append(phrase(_LINES[inside[0].action], what=what))
    return named


def _files(count: int) -> str:
    return phrase("1 file") if count == 1 else phrase("{count} files", count=f"{count:,}")


def _kept_from(barrier: Barrier) -> str:
    subject = barrier.subject
    match barrier.kind:
        case "network":
            return phrase("it tried to reach {host}", host=subject) if subject else phrase("it needs the network")
        case "read":
            return phrase("it tried to read `{path}`, which is hidden", path=subject)
        case "write" | "guarded":
            return phrase("it tried to write `{path}`, which is protected", path=subject)
        case "time":
            return phrase("its trial timed out")
        case _:
            return phrase("it hit a limit").because(barrier.message.rstrip("."))


@dataclass(slots=True, frozen=True)
class Approval:
    """Whether the effects of a tried call may be made real."""

    approved: bool
    reason: str = ""
    """Why not, or on whose word: completes "it was not kept: …"."""
    suggestion: str = ""
    refused: bool = True
    """Of what was not approved: whether that is a refusal. In plan mode it is not: the call was only meant to be tried,
    and its result counts."""


@dataclass(slots=True, frozen=True)
class Limits:
    """Limits on arguments, time, results and parallel work. A tool's own `timeout`, `max_result` and `grace` come
    first.
    """

    argument_bytes: int = 10_000_000
    """Size of a call's arguments as JSON."""
    argument_depth: int = 64
    """Levels of nesting in arguments."""
    number_digits: int = 400
    """Digits of one number in arguments."""
    timeout: float = 120.0
    """Seconds a call may run; waiting for a user's answer doesn't count."""
    grace: float = 1.0
    """Seconds a cancelled tool has to stop before it is abandoned."""
    result_chars: int = 100_000
    """Characters of a result that a model sees."""
    stream_items: int = 10_000
    """Pieces kept of what a generator yields, unless they are text."""
    concurrency: int = 200
    """Calls of one batch that run at once."""
    threads: int = 64
    """Sync tools that run at once."""
    stuck_threads: int = 256
    """Abandoned sync calls that may still hang before further sync calls are refused."""
    nesting: int = 16
    """How deep tools may call tools."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")
            if not is_number or (value == 0 and one.name != "grace"):
                least = "of 0 or more" if one.name == "grace" else "above 0"
                raise ValueError(f"Limits: {one.name} must be a number {least}, not {value!r}.")


SEARCH_TOOLS = "search_tools"
"""The name of the tool that finds other tools."""
DEFAULT_LIMITS = Limits()
