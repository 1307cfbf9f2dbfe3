"""draft_tool: a model writes a new tool, a box tries it, and the user agrees to it or not (M4).

Nothing of a draft runs in this process before the user has agreed. Its examples run in a look box: without network or
secrets, with every change held back in a layer. That layer, and not the draft, says what it changed.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from pydantic import BaseModel, ConfigDict, Field

from ferrule.builtin.boxed_draft import (
    BoxedDraft,
    DraftedTool,
    boxed,
    call_profile,
    confining_sandbox,
    permitted,
    run_boxed,
)
from ferrule.builtin.session_shells import layered_box, look_profile
from ferrule.core.access import writes
from ferrule.core.call import CallInfo
from ferrule.core.errors import ErrorKind, MissingExtraError, ToolError
from ferrule.core.phrases import joined, phrase
from ferrule.core.problems import Problem
from ferrule.core.result import Output
from ferrule.core.tool import Kind, Tool
from ferrule.plugins.drafts import (
    DRAFT_TOOL,
    FOLDER,
    AgreedDraft,
    AgreedDrafts,
    Draft,
    DraftProblem,
    read_draft,
    version_of,
)
from ferrule.workspace.changing import SECONDS_TO_CHANGE, change_file
from ferrule.workspace.files import files_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ferrule.core.context import Session, ToolContext
    from ferrule.plugins.draft_types import TypeCheck
    from ferrule.registry.registry import Registry

SECONDS = 30.0
"""What a draft may take in all, and of those each example."""
EXAMPLE_SECONDS = 5.0
_MOST_SHOWN = 2000


class DraftExample(BaseModel):
    """A call of the drafted tool, and what must come of it."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    arguments: dict[str, Any] = Field(description="The arguments of the call.")
    gives: Any = Field(default=None, description="The exact result, as JSON.")
    check: str = Field(default="", description="Or a Python expression about `result` that must hold.")
    fails: bool = Field(default=False, description="Or true where the call must fail.")


class DraftParams(BaseModel):
    """A new tool."""

    model_config = ConfigDict(extra="forbid", defer_build=True)  # not at start-up, but when the tool is first used

    description: str = Field(
        min_length=1, max_length=500, description="What the new tool is for, in a sentence for the user."
    )
    code: str = Field(
        min_length=1,
        description="One Python file: its imports, and one function with @tool(kind=…) from `ferrule`, types and a "
        "docstring. Functions called test_… are run too.",
    )
    examples: list[DraftExample] = Field(
        min_length=1, max_length=20, description="Calls that show and prove it; each says what must come of it."
    )


class DraftAccepted(TypedDict):
    """The tool that a draft became."""

    name: str
    version: str
    kind: str
    file_path: str


class DraftTool(Tool[DraftParams]):
    r"""Write a new tool that can be called from then on, once the user has agreed to it.

    Use this when the same work will come up again and no tool does it, or when the user asks for a tool.

    Usage notes:
        - Every parameter and the result have a type; the docstring says in its first sentences what the tool does and
          when to use it, and describes each parameter under `Args:`.
        - `kind` is "readonly" if it changes nothing, "write" if it changes files, "execute" if it does more. It is
          checked: what a run changes is seen.
        - Only the standard library and installed packages can be imported. Examples run in the workspace without
          network, and what they write is thrown away.
        - If the draft is not accepted the result says why; fix it and call this again, at most three times.

    Examples:
        - write a tool that counts words:
          {"description": "Counts the words of a text.",
          "code": "from ferrule import tool\n\n\n@tool(kind='readonly')\ndef count_words(text: str)
          -> int:\n    '''Count the words of a text. Use this for questions about length.\n\n    Args:\n        text:
          Any text.\n    '''\n    return len(text.split())\n",
          "examples": [{"arguments": {"text": "one two"}, "gives": 2}, {"arguments": {"text": ""}, "gives": 0}]}
    """

    name = DRAFT_TOOL
    category = "agent"
    tags = frozenset({"standard", "agent"})
    kind = Kind.WRITE
    may_block = False  # the sandbox belongs to the program's loop
    timeout = 120.0
    grace = SECONDS_TO_CHANGE
    preview_seconds = 2 * SECONDS
    doing = "drafting a tool: {description}"

    def __init__(self, registry: Registry) -> None:
        super().__init__()
        self._registry = registry

    def check(self, params: DraftParams) -> Iterable[Problem]:
        """What is wrong with a draft before it runs."""
        for number, example in enumerate(params.examples):
            said = {"gives", "check", "fails"} & example.model_fields_set
            if not said:
                why = phrase("it does not say what must come of it; add `gives`, `check` or `fails`")
                yield Problem(("examples", number), "value", why)
        try:
            read_draft(params.code, plain_examples(params))
        except DraftProblem as problem:
            for one in problem.problems:
                yield Problem(("code",), "value", one.rstrip("."))

    def describe(self, params: DraftParams, session: Session) -> CallInfo:
        draft = self._draft(params, session)
        return CallInfo(
            touches=writes("path", str(_file_of(draft, session))),
            signature=f"{draft.name} {sha256(draft.text.encode()).hexdigest()[:16]}",
            summary=phrase("{tool}: {description}", tool=f"{DRAFT_TOOL} {draft.name}", description=params.description),
            asks_always=True,
        )

    async def preview(self, params: DraftParams, session: Session) -> str:
        import asyncio

        draft = self._draft(params, session)
        try:
            async with asyncio.timeout(self.preview_seconds - 5):
                return self._shown(draft, await self._tried(draft, session), session)
        except ToolError:
            raise
        except Exception as error:  # the user is not asked about a draft that cannot be shown
            raise ToolError(
                phrase("The draft could not be tried: {why}", why=str(error) or type(error).__name__)
            ) from error

    async def run(self, params: DraftParams, context: ToolContext) -> Output[DraftAccepted]:
        import asyncio

        session = context.session
        draft = self._draft(params, session)
        trial = await self._tried(draft, session)
        content = draft.text.encode()
        AgreedDrafts(session.workspace).add(content, _agreed(draft, trial))
        path = _file_of(draft, session)
        changed = await asyncio.to_thread(
            lambda: change_file(context, str(path), lambda _before, _text: content, must_exist=False)
        )
        place = changed.place.name
        return Output(
            {"name": draft.name, "version": draft.version, "kind": draft.kind.value, "file_path": place},
            llm_content=f"Accepted: `{draft.name}` {draft.version} ({draft.kind}) is in `{place}` and can be called in "
            f"a moment. The user can undo this.",
            display_content=phrase("accepted as {name} {version}", name=draft.name, version=draft.version),
            metadata={"file_path": place, **changed.metadata},
        )

    async def _tried(self, draft: Draft, session: Session) -> Trial:
        return await tried(draft, session)

    def _shown(self, draft: Draft, trial: Trial, session: Session) -> str:
        return shown_draft(draft, trial, f"{FOLDER / draft.name}.py", session)

    def _draft(self, params: DraftParams, session: Session) -> Draft:
        """The draft as a file of this workspace: its version follows the one that is there."""
        code, examples = params.code, plain_examples(params)
        draft = read_draft(code, examples)
        files, path = files_of(session), _file_of(draft, session)
        if not path.is_file():
            if self._registry.entry(draft.name) is None:
                return draft
            from ferrule.plugins.discovery import holder_of

            holder = holder_of(draft.name, self._registry)
            raise ToolError(
                phrase("The name `{name}` is taken by {holder}.", name=draft.name, holder=holder),
                kind=ErrorKind.VALIDATION,
                suggestion=phrase("Give the function another name."),
            )
        # The user sees the file that a draft replaces when they approve it, so it counts as seen.
        place = files.paths.locate(str(path))
        before = files.paths.read(place)
        files.tracker.saw(place, before)
        return read_draft(code, examples, after=version_of(before.decode(errors="replace")))


def plain_examples(params: DraftParams) -> list[dict[str, Any]]:
    return [one.model_dump(exclude_unset=True) for one in params.examples]


def _file_of(draft: Draft, session: Session) -> Path:
    return session.workspace / FOLDER / f"{draft.name}.py"


# How a draft is tried


@dataclass(slots=True)
class Trial:
    """What came of a draft in its box."""

    problems: list[str] = field(default_factory=list[str])
    definition: dict[str, Any] = field(default_factory=dict[str, Any])
    """What a model will read of it, in the form of MCP."""
    outcomes: list[str] = field(default_factory=list[str])
    """What each example gave, and each test."""
    advice: list[str] = field(default_factory=list[str])
    unchecked: str = ""
    """Why its types were not checked, where they were not."""
    needs: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    """What it reached for, as the run showed it: files, hosts, programs, reads."""

    def need(self, what: str, names: Iterable[str]) -> None:
        self.needs.setdefault(what, {}).update(dict.fromkeys(names))


class _Trials:
    """The drafts of a session that were tried and found good, so that none runs again when it is accepted."""

    def __init__(self) -> None:
        self.good: dict[str, Trial] = {}


async def tried(draft: Draft, session: Session, *, closed: bool = False) -> Trial:
    """Try a draft once; raises `ToolError` with all that is wrong with it. `closed`: it sees the workspace alone."""
    trials = session.part(_Trials, _Trials)
    key = sha256(f"{session.workspace}\0{draft.text}".encode()).hexdigest()
    if (known := trials.good.get(key)) is not None:
        return known
    trial = await try_draft(draft, session, closed=closed)
    if trial.problems:
        raise ToolError(
            phrase(
                "The draft `{name}` was not accepted:\n{problems}",
                name=draft.name,
                problems="\n".join(f"- {one}" for one in trial.problems),
            ),
            suggestion=phrase("Fix it and call draft_tool again with the whole code."),
        )
    trials.good[key] = trial
    return trial


async def try_draft(draft: Draft, session: Session, *, closed: bool = False) -> Trial:
    """Check a draft's types, load it and run its examples, in boxes. Whatever it does there leaves nothing behind."""
    import asyncio

    from ferrule.plugins.draft_types import check_types

    sandbox = await confining_sandbox(session)
    types = await check_types(draft, sandbox)
    notes: list[str] = []
    async with layered_box(
        session, lambda mounts: boxed(look_profile(session, mounts), session, closed=closed), notes
    ) as box:
        order = {
            "name": draft.name, "kind": draft.kind.value, "code": draft.text, "examples": draft.examples,
            "seconds": EXAMPLE_SECONDS,
        }  # fmt: skip
        ran = await run_boxed(sandbox, box.profile, order, SECONDS)
        changed: list[str] = []
        if box.aside is not None and ran.layered:
            found = await asyncio.to_thread(box.aside.read, box.layers)
            changed = [one.inner for one in (*found.changes, *found.ignored)]
    return _judged(draft, session, types, ran, changed)


def _judged(draft: Draft, session: Session, types: TypeCheck, ran: BoxedDraft, changed: list[str]) -> Trial:
    trial = Trial(list(types.problems), unchecked=types.unchecked)
    where, schemas = "while it started", None
    for said in ran.report:
        where = str(said.get("step", where))
        trial.problems += map(str, said.get("problems", ()))
        trial.advice += map(str, said.get("advice", ()))
        schemas = said.get("schemas", schemas)
        needs: dict[str, list[str]] = said.get("needs", {})
        for what, names in needs.items():
            trial.need(what, map(str, names))
        if "example" in said or "test" in said:
            _outcome(draft, said, trial, hosts=bool(needs.get("hosts")))
    inside = f"{os.path.realpath(session.workspace)}/"
    reached = [one.removeprefix(inside) for one in trial.needs.pop("files", {})]
    trial.need("files", [*changed, *(one for one in reached if one not in changed)])
    if ran.late:
        trial.problems.append(f"It did not finish within {SECONDS:g} s and was stopped {where}.")
    elif where != "done" and len(trial.problems) == len(types.problems):
        last = f": {ran.complaint.splitlines()[-1][:300]}" if ran.complaint else ""
        trial.problems.append(f"Its process ended {where} with code {ran.code}{last}.")
    if draft.kind is Kind.READONLY and (written := list(trial.needs["files"])):
        names = ", ".join(f"`{one}`" for one in written[:5])
        did = "changed" if any(one in changed or not Path(one).is_absolute() for one in written) else "tried to change"
        trial.problems.append(
            f'It says kind="readonly", but its run {did} {names}. Say kind="write", or change nothing.'
        )
    trial.needs = {what: names for what, names in trial.needs.items() if names}
    if not trial.problems:
        _define(draft, schemas, trial)
    return trial


def _define(draft: Draft, schemas: Any, trial: Trial) -> None:
    """Its definition, of its docstring and the schemas that its process reported: held to what any stranger's is."""
    from ferrule.mcp_client.remote_tool import RefusedTool, read_definition

    told = cast("dict[str, Any]", schemas) if isinstance(schemas, dict) else {}
    payload = {
        "name": draft.name, "description": draft.description, "inputSchema": told.get("takes"),
        "outputSchema": told.get("gives"),
    }  # fmt: skip
    try:
        trial.definition = dict(read_definition(payload).payload)
        fault = DraftedTool(_agreed(draft, trial), b"").fault
    except (RefusedTool, MissingExtraError) as error:
        fault = str(error)
    trial.problems += [fault] if fault else []


def _agreed(draft: Draft, trial: Trial) -> AgreedDraft:
    return AgreedDraft(draft.name, draft.kind, draft.version, trial.definition, draft.display_name, draft.timeout)


def _outcome(draft: Draft, said: dict[str, Any], trial: Trial, *, hosts: bool) -> None:
    wrong = str(said.get("wrong", ""))
    if "test" in said:
        trial.outcomes.append(f"{said['test']}: {wrong or 'passed'}")
        if wrong:
            trial.problems.append(f"`{said['test']}` failed: {wrong}.")
        return
    number = int(said["example"])
    arguments = json.dumps(draft.examples[number - 1]["arguments"], ensure_ascii=False, default=str)
    failed, gave = str(said.get("failed", "")), str(said.get("gave", ""))[:_MOST_SHOWN]
    if wrong and hosts:  # there is no network here: only the user can say whether it may have one
        trial.outcomes.append(f"{arguments} → not tried: it needs the network")
        return
    trial.outcomes.append(f"{arguments} → {failed or gave}")
    if wrong:
        came = "" if failed else f" It gave: {gave}"
        trial.problems.append(f"Example {number}, {arguments}: {wrong.rstrip('.')}.{came}")


# What the user is shown


def shown_draft(draft: Draft, trial: Trial, place: str, session: Session, *, closed: bool = False) -> str:
    """All that an agreement is about: what a model will read, what its examples gave, what its box permits, its code.

    `place` is where it will be, and `closed` says in which box it runs.
    """
    from ferrule.plugins.model_texts import read_lines

    permits = permitted(call_profile(draft.kind, session, closed=closed), session, closed=closed)
    reached = [
        *_listed(phrase("changed or tried to change"), trial.needs.get("files", ())),
        *_listed(phrase("tried to reach"), trial.needs.get("hosts", ())),
        *_listed(phrase("started"), trial.needs.get("programs", ())),
        *_listed(phrase("read outside the workspace"), trial.needs.get("reads", ())),
    ]
    parts: list[str] = [f"{draft.name} {draft.version} ({draft.kind}) → {place}", phrase("What a model reads of it:")]
    parts += [f"{'!' if one.marked else '-'} {one.text}" for one in read_lines(trial.definition)]
    parts += [phrase("Its run, in a box without network:"), *(f"- {one}" for one in trial.outcomes)]
    parts += [phrase("What the run reached for, as Python saw it:")] if reached else []
    parts += [joined(" ", ["-", one]) for one in reached]
    parts += [phrase("What its box permits, on every call:"), *(joined(" ", ["-", one]) for one in permits)]
    parts += [phrase("Types were not checked: {why}.", why=trial.unchecked)] if trial.unchecked else []
    parts += [phrase("Advice: {advice}", advice=one) for one in trial.advice]
    return joined("\n", [*parts, f"\n{draft.text.rstrip()}"])


def _listed(what: str, names: Iterable[str]) -> list[str]:
    listed = ", ".join(f"`{one}`" for one in names)
    return [joined(" ", [what, listed])] if listed else []
