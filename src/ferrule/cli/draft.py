"""`ferrule draft`: a model writes a new tool from a description, and the user looks at it and agrees to it, or not."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import click

from ferrule.app.build import App
from ferrule.cli.ask import TerminalAsker, asker, show, understood
from ferrule.cli.call import EXIT_CODES
from ferrule.cli.completion import complete_models
from ferrule.cli.group import LazyGroup
from ferrule.cli.models import model_words
from ferrule.cli.options import (
    PlainError,
    SignalExit,
    json_option,
    recorded_code,
    report_broken,
    sandbox_options,
    settings_for,
    warn_of_freedom,
    workspace_option,
)
from ferrule.cli.output import show_list, write
from ferrule.cli.words import _, as_error, localised, result_text, said_of
from ferrule.core.call import RawCall
from ferrule.core.errors import ErrorKind, Stage, StoppedError
from ferrule.core.model import (
    Finished,
    ModelError,
    ModelRequest,
    ModelSettings,
    Preparing,
    Retrying,
    ToolResults,
    UserMessage,
)
from ferrule.core.phrases import phrase
from ferrule.pipeline.confirm import Answer, Choice
from ferrule.plugins.drafts import DRAFT_TOOL, FOLDER, WAITING, DraftProblem, read_draft, split_draft
from ferrule.workspace.atomic import write_whole
from ferrule.workspace.files import files_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from ferrule.builtin.draft_tool import DraftAccepted, DraftParams
    from ferrule.core.events import Question
    from ferrule.core.model import AssistantMessage, Message, Model
    from ferrule.core.result import ToolResult
    from ferrule.pipeline.run import Runtime

ROUNDS = 3
EXIT_USAGE = 2
SYSTEM = """\
You write one new tool for language models, in Python, and hand it in with draft_tool.

Write the smallest code that does what the user describes, and nothing else. Prefer the standard library. Raise \
`ToolError` from `ferrule` with a clear message where the tool cannot do what it was asked. Read no secrets, and \
reach no host that the description does not name.

Give at least two examples: an ordinary call, and one at the edge (an empty text, a missing file). Files that an \
example needs must be in the workspace already; what needs others is shown by a test_… function in the code.

If the draft is not accepted, the result says what is wrong. Fix exactly that and call draft_tool again."""


class DraftGroup(LazyGroup):
    """Without the name of a command, its words are the description of a new tool."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.list_commands(ctx), "-h", "--help"):
            args = ["new", *args]
        return super().parse_args(ctx, args)


COMMANDS = {
    "accept": ("draft", "Look at a draft that waits, and accept it."),
    "list": ("draft", "List the drafts that wait."),
    "new": ("draft", "Have a model write a new tool from a description."),
}
draft_command = DraftGroup(
    COMMANDS,
    name="draft",
    help=_(
        'Have a model write a new tool, and look at it before it is used: `ferrule draft "count the words of a text"`.'
    ),
)


_yes_option = click.option(
    "--yes", is_flag=True, help=_("Accept it without being asked. What it is and does is printed.")
)


@click.command(
    "new",
    help=_("Have a model write a new tool from a DESCRIPTION. You see its code and agree to it before it is used."),
    epilog=_("Exit codes: 0 accepted or kept for later, 1 no draft was good enough, 2 usage, 3 you said no."),
)
@click.argument("description")
@click.option(
    "--model", default="", metavar="NAME", help=_("The model, as provider/name."), shell_complete=complete_models
)
@_yes_option
@workspace_option
@sandbox_options
def new_command(description: str, model: str, yes: bool, workspace: Path) -> None:
    from ferrule.app.assistant import model_for

    if not description.strip():
        raise click.UsageError(_("The description is empty."))
    settings = settings_for(workspace).settings
    warn_of_freedom(settings)
    try:
        chosen = model_for(model, settings)
    except ModelError as error:
        write(as_error(model_words(error)), err=True)
        sys.exit(EXIT_USAGE)
    ending = SignalExit()
    who = DraftAsker(ending.note_sigterm, yes=yes)
    app = _app(settings, workspace, who)
    _finish(app, ending, _new(app, chosen, description, who, ending))


@click.command("accept", help=_("Look at the draft NAME that waits in this workspace, and accept it."))
@click.argument("name")
@_yes_option
@workspace_option
@sandbox_options
def accept_command(name: str, yes: bool, workspace: Path) -> None:
    settings = settings_for(workspace).settings
    warn_of_freedom(settings)
    ending = SignalExit()
    who = DraftAsker(ending.note_sigterm, yes=yes)
    if not yes and not who.can_ask:
        raise PlainError(_("A draft is accepted by someone who looks at it: run this at a terminal, or add --yes."))
    app = _app(settings, workspace, who)
    _finish(app, ending, _accept(app, name, who, ending))


@click.command("list", help=_("List the drafts that wait in this workspace to be accepted."))
@json_option
@workspace_option
def list_command(as_json: bool, workspace: Path) -> None:
    drafts: list[dict[str, str]] = []
    for file in sorted((workspace / WAITING).glob("*.py")):
        try:
            description = read_draft(*split_draft(file.read_text(encoding="utf-8"))).description
        except (DraftProblem, OSError, UnicodeDecodeError) as problem:
            description = str(problem)
        drafts.append({"name": file.stem, "file": str(WAITING / file.name), "description": description})
    rows = ([one["name"], one["description"]] for one in drafts)
    show_list(drafts, as_json, _("No draft waits here."), [_("NAME"), _("DESCRIPTION")], rows)


def _app(settings: Any, workspace: Path, who: DraftAsker) -> App:
    if not settings.tools.drafts:
        raise PlainError(_("Drafts are turned off in your settings (`tools.drafts`)."))
    try:
        return App(settings, workspace.resolve(), ask=who)
    except (ValueError, OSError) as error:
        raise click.UsageError(said_of(error)) from None


def _finish(app: App, ending: SignalExit, work: Coroutine[Any, Any, int]) -> None:
    try:
        code = asyncio.run(work)
    except asyncio.CancelledError:
        code = 130
    code = recorded_code(app, code)
    sys.exit(code if ending.code is None else ending.code)


class DraftAsker(TerminalAsker):
    """Shows a draft and takes yes, edit or no. Where nobody can be asked it says no, and the draft waits."""

    def __init__(self, on_sigterm: Callable[[], None] = lambda: None, *, yes: bool = False) -> None:
        super().__init__(on_sigterm)
        self._yes = yes
        self.can_ask = asker(False, on_sigterm) is not None
        self.seen: Question | None = None
        """What was asked last."""
        self.edits = False
        """Whether the user wants to change it first."""

    async def __call__(self, question: Question) -> Answer:
        self.seen, self.edits = question, False
        if self._yes:
            write(localised(question.preview))
            return Answer(Choice.ONCE)
        if not self.can_ask:
            return Answer(Choice.NO, "approval isn't available here; the draft is kept for later")
        return await super().__call__(question)

    def show(self, question: Question) -> None:
        choices = _("Accept it? Yes (y), edit it first (e), or no (n, or n and why) [y/e/N] ")
        show(replace(question, rule="", covers="", not_covers=""), choices)

    def understood(self, typed: str, question: Question) -> Answer:
        if typed.strip().lower() in ("e", "edit", "编辑"):
            self.edits = True
            return Answer(Choice.NO, "the user edits it")
        return understood(typed, replace(question, rule="", rules=()))


async def _new(app: App, model: Model, description: str, who: DraftAsker, ending: SignalExit) -> int:
    task = asyncio.current_task()
    ending.watch(lambda: task and task.cancel())
    async with app:
        report_broken(app.tools)
        try:
            result = await drafted(model, app.runtime, description)
        except ModelError as error:
            write(as_error(model_words(error)), err=True)
            return 1
        finally:
            await model.close()
        if result is None:
            write(as_error(_("The model handed in no draft.")), err=True)
            return 1
        return await _decided(app, result, who)


async def drafted(model: Model, runtime: Runtime, description: str, rounds: int = ROUNDS) -> ToolResult | None:
    """Have a model draft a tool until one is good enough to be asked about, at most `rounds` times.

    What is wrong with a draft goes back to the model. The result is that of the last draft; None where there was none.
    """
    tool = runtime.tools.get(DRAFT_TOOL)
    if tool is None:
        raise LookupError(f"The runtime has no tool `{DRAFT_TOOL}`.")
    messages: list[Message] = [UserMessage(description)]
    last: ToolResult | None = None
    for _round in range(rounds):
        answer = await _answer(
            model, ModelRequest(tuple(messages), SYSTEM, [tool], ModelSettings(tool_choice="required"))
        )
        messages.append(answer)
        if not answer.calls:
            messages.append(UserMessage("Hand the tool in with draft_tool."))
            continue
        results = [await _handed_in(runtime, call) for call in answer.calls]
        last = results[-1]
        if any(one.success or _was_asked(one) for one in results):
            return next(one for one in results if one.success or _was_asked(one))
        messages.append(ToolResults(tuple(results)))
    return last


async def _answer(model: Model, request: ModelRequest) -> AssistantMessage:
    async for event in model.stream(request):
        if isinstance(event, Finished):
            return event.message
        if isinstance(event, Preparing):
            write(localised(event.text), err=True)
        elif isinstance(event, Retrying):
            wait = _("retrying in {seconds} s: {why}")
            write(wait.format(seconds=f"{event.seconds:.0f}", why=localised(event.why)), err=True)
    raise AssertionError("a model's stream ends with Finished")


async def _handed_in(runtime: Runtime, call: RawCall) -> ToolResult:
    if call.name == DRAFT_TOOL:
        return await runtime.run(call)
    why = StoppedError(
        Stage.LOOKUP,
        ErrorKind.NOT_FOUND,
        phrase("There is no tool `{name}` here.", name=call.name),
        phrase("Call {name}.", name=DRAFT_TOOL),
    )
    return await runtime.refuse(call, why)


def _was_asked(result: ToolResult) -> bool:
    return result.error is not None and result.error.kind is ErrorKind.PERMISSION


async def _decided(app: App, result: ToolResult, who: DraftAsker) -> int:
    """See a draft through: the user may edit it, as often as they like; where nobody was asked it is kept."""
    while not result.success and who.seen is not None and _was_asked(result):
        params = cast("DraftParams", who.seen.invocation.params)
        examples = [one.model_dump(exclude_unset=True) for one in params.examples]
        if not who.can_ask:
            draft = read_draft(params.code, examples)
            files = files_of(app.runtime.session)
            place = files.paths.locate(str(app.runtime.session.workspace / WAITING / f"{draft.name}.py"))
            write_whole(files.paths, place, draft.text.encode(), over_link=True)
            write(localised(who.seen.preview))
            write(
                _("The draft is kept in {file}, and is not used. To accept it: ferrule draft accept {name}").format(
                    file=WAITING / f"{draft.name}.py", name=draft.name
                ),
                err=True,
            )
            return 0
        if not who.edits:
            break
        who.edits = False
        arguments = _edited(read_draft(params.code, examples).text, params.description)
        if arguments is None:
            break
        result = await app.runtime.run(RawCall(DRAFT_TOOL, arguments))
    if result.error is not None:
        write(result_text(result), err=True)
        return EXIT_CODES.get(result.error.kind, 1)
    words = _("Accepted: {name} {version} is in {file}, and is used from now on. `ferrule undo` removes it.")
    made = cast("DraftAccepted", result.data)
    write(words.format(name=made["name"], version=made["version"], file=made["file_path"]))
    return 0


def _edited(text: str, description: str) -> dict[str, Any] | None:
    """The draft as the user leaves it in their editor; None where they leave it as it was, or give up on it."""
    while True:
        changed = click.edit(text, extension=".py", require_save=True)
        if changed is None or changed == text:
            write(_("Nothing was changed."), err=True)
            return None
        text = changed
        try:
            code, examples = split_draft(text)
            read_draft(code, examples)
        except DraftProblem as problem:
            write(as_error(" ".join(problem.problems)), err=True)
            if click.confirm(_("Edit it again?"), default=True, err=True):
                continue
            return None
        return {"description": description, "code": code, "examples": examples}


async def _accept(app: App, name: str, who: DraftAsker, ending: SignalExit) -> int:
    task = asyncio.current_task()
    ending.watch(lambda: task and task.cancel())
    workspace = app.runtime.session.workspace
    found = next((file for file in (workspace / WAITING / f"{name}.py", workspace / FOLDER / f"{name}.py")
                  if os.path.basename(name) == name and file.is_file()), None)  # noqa: PTH119  # fmt: skip
    if found is None:
        raise PlainError(_("There is no draft {name} in {folder}.").format(name=name, folder=WAITING))
    try:
        code, examples = split_draft(found.read_text(encoding="utf-8"))
    except (DraftProblem, OSError, UnicodeDecodeError) as error:
        raise PlainError(f"{found.relative_to(workspace)}: {error}") from None
    async with app:
        report_broken(app.tools)
        arguments = {"description": _("the draft {name}").format(name=name), "code": code, "examples": examples}
        result = await app.runtime.run(RawCall(DRAFT_TOOL, arguments))
        code_of = await _decided(app, result, who)
    if code_of == 0 and found.parent.name == WAITING.name:
        found.unlink(missing_ok=True)
    return code_of
