"""The way of a command: tried in a look box and judged by what it did, or run in a work box once it is approved.

A look box holds every change back. What only read, or only filled caches, is answered at once; what changed something
asks with exactly that in hand, and a yes puts it into the workspace, where it can be undone. A work box changes the
workspace itself.
"""

from __future__ import annotations

import os
import re
import shlex
from contextlib import asynccontextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ferrule.builtin.session_shells import (
    confinement,
    layered_box,
    look_profile,
    sandbox_of,
    settle,
    shell_of,
    try_sandbox,
    watch,
    work_profile,
)
from ferrule.builtin.working_apart import NotApartError, can_be_apart, covers_all, keep_temporary, require_apart
from ferrule.core.access import WRITES_ANYTHING, writes
from ferrule.core.call import Barrier, CallInfo, Effects
from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.guarded_names import guarded_by_name
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import advice, phrase
from ferrule.core.problems import Problem
from ferrule.workspace.changing import origin_of
from ferrule.workspace.files import files_of
from ferrule.workspace.problems import PathError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from ferrule.core.call import Approval
    from ferrule.core.context import Session, ToolContext
    from ferrule.process.output import Piece
    from ferrule.process.profile import LayerMount, Profile
    from ferrule.process.sandbox.denials import Denial
    from ferrule.process.sandbox.sandbox import Sandbox
    from ferrule.process.shell.background import BackgroundCommand
    from ferrule.process.shell.session import Ended, ShellSession
    from ferrule.workspace.files import Files
    from ferrule.workspace.layers.reading import LayerChange
    from ferrule.workspace.paths import Paths
    from ferrule.workspace.snapshots.shell_changes import RecordedChanges

_BETWEEN_WORDS = lazy_pattern(r"""[\s'"`;|&()<>=,:@{}$]+""")
_SETS_UP_GIT = lazy_pattern(
    r"\bgit\s[^|;&\n]*\b(?:remote|branch|config|push|(?:checkout|switch)\s[^|;&\n]*(?<=\s)(?:-q?[bBcCt]|--track|--create))\b"
)
"""A guess, by which a command runs in one of two ways that keep the same from it."""
_MOST_NAMED = 5


def command_text(command: str, folder: str | None) -> str:
    """The very text that bash gets; a folder to run in is gone to first, and the shell stays there."""
    return command if folder is None else f"cd -- {shlex.quote(folder)} || exit\n{command}"


def problems_of(command: str) -> list[Problem]:
    """What keeps a text from being a command at all."""
    if "\0" in command:
        return [Problem(("command",), "value", phrase("it contains a NUL byte, which no command can"))]
    if not command.strip():
        return [Problem(("command",), "value", phrase("it is empty"))]
    return []


def runs_command(command: str, folder: str | None, session: Session, *, stays: bool = False) -> CallInfo:
    """What a call that runs a command would do. Unless it `stays` (on a terminal, in the background) it is tried."""
    text, confined = command_text(command, folder), confinement(session)
    return CallInfo(
        touches=(writes("command", text), writes("shell", "main"), *WRITES_ANYTHING),
        signature=text,
        tentative=not stays and confined.can_try,
        unconfined=confined.unconfined,
        caution=partial(_caution, text),
    )


def _caution(text: str) -> str:
    from ferrule.policy.commands.analyse import analyse
    from ferrule.policy.commands.parts import warning_about

    return warning_about(analyse(text).dangers)


class Told:
    """What is known of a command besides what it wrote: notes for the model, its box, and what it changed."""

    def __init__(self) -> None:
        self.box = "work"
        self.notes: list[str] = []
        self.changed: int | None = None
        self.effects: Effects | None = None
        self.refused: Approval | None = None
        """Why what it changed was not kept, where that is a refusal."""
        self.lost: PathError | None = None
        """Why what it changed could not be kept."""

    @property
    def effect_lines(self) -> list[str]:
        """What it would do, a line for each."""
        return self.effects.lines() if self.effects is not None else []


async def run(
    context: ToolContext,
    command: str,
    *,
    folder: str | None,
    seconds: float,
    terminal: bool = False,
    may_move: bool = False,
) -> tuple[Ended, Told]:
    """Run a command to its end, or to its time limit."""
    text = command_text(command, folder)
    require_folder(context.session, folder)
    sandbox = await try_sandbox(context.session)
    if context.tentative:
        return await _Trial(context, text, seconds, sandbox).run(may_move=may_move)
    profile = work_profile(context.session, hosts=context.opened_hosts)
    return await _work(context, text, seconds, profile, terminal=terminal, may_move=may_move)


# For real


async def _work(
    context: ToolContext, text: str, seconds: float, profile: Profile, *, terminal: bool = False, may_move: bool = False
) -> tuple[Ended, Told]:
    import asyncio

    from ferrule.process.sandbox.hiding import MOST_COVERED
    from ferrule.process.shell.running import boxes

    session = context.session
    shell = shell_of(session)
    may_step_aside = not terminal and not may_move and sandbox_of(session).has_layers
    # A work box has git's settings read-only; from a layer, those that run nothing are kept. And only a layer hides
    # very many files one by one.
    aside = may_step_aside and (_SETS_UP_GIT.search(text) is not None or len(profile.hidden) > MOST_COVERED)
    told = Told()
    if may_step_aside and not aside and can_be_apart(session, profile):
        kept = await asyncio.to_thread(keep_temporary, profile.temporary)
        try:
            if kept and (done := await _work_aside(context, text, seconds, profile, alone=True)) is not None:
                return done
        except NotApartError as why:
            told.notes.append(str(why))
            if kept:
                await asyncio.to_thread(kept.put_back)
        finally:
            if kept:
                await asyncio.to_thread(kept.close)
    if aside or not await _begin(context, alone=may_step_aside):
        if (done := await _work_aside(context, text, seconds, profile)) is not None:
            return done
        await _begin(context)
    try:
        ended = await shell.run(
            text,
            boxes(sandbox_of(session), profile),
            timeout=seconds,
            on_output=_shown(context),
            terminal=terminal,
            may_move=may_move,
        )
    except BaseException:
        await _record(context, told)
        raise
    await _record(context, told, over=not ended.moved_to_background)
    adopt(session, shell, ended, tainted=False)
    told.notes += [f"{one.message} {one.suggestion}" for one in denials_of(session, text, ended, profile)]
    if ended.moved_to_background:
        kept = shell_of(session).background.get(ended.moved_to_background)
        record_when_over(context, kept)
    return ended, told


async def _work_aside(
    context: ToolContext, text: str, seconds: float, profile: Profile, *, alone: bool = False
) -> tuple[Ended, Told] | None:
    """In a layer above the workspace: what the command changed is known to be its own without comparing all files, and
    is put into the workspace once it is over, however it ended. None where no layer can be.

    With `alone` no other command is under way, so it could have written directly. Raises `NotApartError`, with nothing
    changed, where it has to.
    """
    import asyncio

    from ferrule.process.shell.running import boxes
    from ferrule.workspace.layers.reading import read_layers

    session = context.session
    shell, told, files = shell_of(session), Told(), files_of(session)

    def inside(mounts: Sequence[LayerMount]) -> Profile:
        # Without what unapproved commands of the session left aside: an approved one must not run that.
        return replace(profile, look=True, layers=tuple(replace(one, below=()) for one in mounts))

    async with layered_box(session, inside, told.notes) as box:
        if box.aside is None or (alone and not covers_all(box.profile)):
            return None
        running = boxes(sandbox_of(session), box.profile)
        ended = await shell.run(text, running, timeout=seconds, on_output=_shown(context))
        denials = denials_of(session, text, ended, box.profile)
        told.notes += [f"{one.message} {one.suggestion}" for one in denials]
        layers = [replace(one, below=()) for one in box.layers]
        try:
            found = await asyncio.to_thread(partial(read_layers, files.paths, layers, ignore=False))
            if alone:
                require_apart(ended, denials, found)
            judged = [*found.changes, *(one for one in found.touched if not one.of_folders)]
            _refuse_hidden(files, judged, box.profile)
            await asyncio.to_thread(_refuse_guarded, files, judged, profile)
            await _apply(context, told, found.changes, touched=found.touched, like_direct=True)
        except PathError as problem:
            if alone and problem.code != "half":
                raise NotApartError(str(problem)) from problem
            told.lost = problem
        else:
            adopt(session, shell, ended, tainted=False)
        return ended, told


def _refuse_guarded(files: Files, changes: Sequence[LayerChange], profile: Profile) -> None:
    """A layer holds what a work box would have kept the command from changing; that was not approved."""
    from ferrule.policy.sensitive import completes_repository, leads_to_settings
    from ferrule.process.sandbox.bubblewrap import below
    from ferrule.process.sandbox.guarded import GuardedTree
    from ferrule.workspace.layers.effects import runs_nothing_new_by
    from ferrule.workspace.snapshots.changes import Node

    guarded: dict[Path, frozenset[str]] = {}
    made = {str(one.path) for one in changes}
    for one in changes:
        root = one.layer.root
        if root not in guarded:
            tree = GuardedTree(str(root), below(str(root), (*profile.guarded, *profile.hidden)))
            try:
                guarded[root] = tree.named | tree.obeyed() | tree.look().marks.keys()
            finally:
                tree.close()
        parts = one.inner.split("/")
        named = {"/".join(parts[:end]) for end in range(1, len(parts) + 1)}
        is_link = one.after is not None and one.after.node is Node.LINK
        if (
            guarded_by_name(one.inner)
            or not guarded[root].isdisjoint(named)
            or completes_repository(str(one.path), made)
            or (is_link and leads_to_settings(str(one.path), (f"{root}/{place}" for place in guarded[root])))
        ) and not runs_nothing_new_by(one):
            raise PathError(
                "guarded",
                phrase(
                    "The command changed `{place}`, which is guarded: it can make other programs run commands. "
                    "None of its changes were kept.",
                    place=files.paths.show(one.path),
                ),
                kind=ErrorKind.PERMISSION,
                suggestion=advice("Do without it, or ask the user to make this change.", "Make this change yourself."),
            )


def _refuse_hidden(files: Files, changes: Sequence[LayerChange], profile: Profile) -> None:
    """A layer holds a change of what its box hid: that is not what is there, and never takes its place."""
    hidden = {path for path in profile.hidden if os.path.lexists(path)} if changes else set[Path]()
    above = {parent for path in hidden for parent in path.parents}
    for one in changes:
        if not hidden.isdisjoint((one.path, *one.path.parents)) or (one.after is None and one.path in above):
            raise PathError(
                "guarded",
                phrase(
                    "The command changed or removed `{place}`, which is hidden from it or holds what is. None of its "
                    "changes were kept.",
                    place=files.paths.show(one.path),
                ),
                kind=ErrorKind.PERMISSION,
                suggestion=advice(
                    "Do without it, or ask the user to allow reading it.",
                    "Allow reading it with `--allow 'Read(…)'`, or with that rule in your settings.",
                ),
            )


async def _apply(
    context: ToolContext,
    told: Told,
    changes: Sequence[LayerChange],
    *,
    touched: Sequence[LayerChange] = (),
    like_direct: bool = False,
) -> None:
    """Put changes into the workspace. Once that has begun it is seen through, also when the call is cancelled."""
    import asyncio

    from ferrule.process.shell.running import finished
    from ferrule.workspace.layers.effects import apply_layer

    files = files_of(context.session)
    group = await finished(
        asyncio.to_thread(
            partial(apply_layer, files, changes, origin_of(context), touched=touched, like_direct=like_direct)
        )
    )
    told.changed = len(group.changes) if group is not None else 0
    if group is not None and group.uncovered:
        names = ", ".join(f"`{files.paths.show(one.path)}`" for one in group.uncovered[:5])
        why = "too large to keep" + (", or in a folder the history leaves out" if like_direct else "")
        told.notes.append(f"Undo does not cover {names}: {why}.")
    if group is not None and group.git:
        from ferrule.workspace.snapshots.git_record import uncovered_in_git

        told.notes += [f"{one}." for one in uncovered_in_git(group, files.paths.show)]


def adopt(session: Session, shell: ShellSession, ended: Ended, *, tainted: bool) -> None:
    """Go on in the state that a command left; where it left none, in the one from before it."""
    shell.keep(ended, tainted=tainted)
    settle(session, shell)


def _shown(context: ToolContext) -> Any:
    def show(piece: Piece) -> None:
        context.partial(piece.text)

    return show if context.watched else None


# Tried first


class _Trial:
    """One command in a look box, from its layers to what becomes of them."""

    def __init__(self, context: ToolContext, text: str, seconds: float, sandbox: Sandbox) -> None:
        self._context, self._session = context, context.session
        self._text, self._seconds, self._sandbox = text, seconds, sandbox
        self._shell = shell_of(context.session)
        self._told = Told()
        self._told.box = "look"

    async def run(self, *, may_move: bool) -> tuple[Ended, Told]:
        import asyncio

        from ferrule.process.shell.running import boxes
        from ferrule.workspace.layers.effects import effects_of, ignored_effects, require_applicable
        from ferrule.workspace.layers.reading import LayerChanges

        async with layered_box(self._session, partial(look_profile, self._session), self._told.notes) as box:
            ended = await self._shell.run(
                self._text, boxes(self._sandbox, box.profile), timeout=self._seconds, on_output=_shown(self._context)
            )
            found = LayerChanges(())
            if box.aside is not None and ended.box.layered:
                found = await asyncio.to_thread(box.aside.read, box.layers)
            try:
                _refuse_hidden(files_of(self._session), [*found.changes, *found.ignored], box.profile)
            except PathError as problem:
                self._told.lost = problem
                return ended, self._told
            barriers = self._barriers(ended, box.profile)
            keeps_ignored = box.aside is not None and box.aside.ignored == "keep"
            if not found and not barriers:
                if keeps_ignored and found.ignored:
                    await self._keep_ignored(found.ignored)
                box.keep = found
                adopt(self._session, self._shell, ended, tainted=True)
                return ended, self._told
            files, applied = files_of(self._session), [*found.changes, *(found.ignored if keeps_ignored else ())]
            effects = await asyncio.to_thread(effects_of, files.paths, found.changes, barriers)
            if effects.runs_again:
                effects = _with_guarded(effects, files.paths if not box.profile.layers else None)
            else:  # what approval could not make real is refused first
                await asyncio.to_thread(require_applicable, files, applied)
                others = await asyncio.to_thread(ignored_effects, files.paths, applied[len(found.changes) :])
                effects = replace(effects, files=(*effects.files, *others.files))
            self._told.effects = effects
            approval = await self._context.approve(self._told.effects)
            if not approval.approved:
                return self._dropped(ended, approval, changed=bool(found))
            if self._told.effects.runs_again:
                return await self._run_again(barriers, may_move=may_move)
            await _apply(self._context, self._told, applied)
            box.keep = found
            adopt(self._session, self._shell, ended, tainted=False)
            return ended, self._told

    async def _keep_ignored(self, changes: Sequence[LayerChange]) -> None:
        """What git ignores reaches the workspace if the settings say so, and no rule and no mode forbids it."""
        import asyncio

        from ferrule.workspace.layers.effects import ignored_effects

        effects = await asyncio.to_thread(ignored_effects, files_of(self._session).paths, changes)
        approval = await self._context.approve(effects)
        if approval.approved:
            await _apply(self._context, self._told, changes)
        else:
            self._told.notes.append(f"Its changes to files that git ignores were not kept: {approval.reason}.")

    async def _run_again(self, barriers: tuple[Barrier, ...], *, may_move: bool) -> tuple[Ended, Told]:
        """For real, with what it was kept from opened."""
        import asyncio

        opened = [one.subject for one in barriers if one.kind in ("read", "guarded") and one.subject]
        hosts = [one.subject or "*" for one in barriers if one.kind == "network"]
        profile = await asyncio.to_thread(partial(work_profile, self._session, hosts=hosts, opened=opened))
        ended, told = await _work(self._context, self._text, self._seconds, profile, may_move=may_move)
        told.effects = self._told.effects
        return ended, told

    def _dropped(self, ended: Ended, approval: Approval, *, changed: bool) -> tuple[Ended, Told]:
        """What was not approved is gone, and so is the shell's new state: it may be about what is gone."""
        told = self._told
        if not changed:  # it only met a barrier: what it did besides is a result like any other
            adopt(self._session, self._shell, ended, tainted=True)
            told.notes += [one.message for one in (told.effects or Effects()).barriers]
            told.notes.append(
                f"It was not run again with that opened: {approval.reason}. {approval.suggestion}".strip()
            )
        elif approval.refused:
            told.refused = approval
        else:
            kept = "None of its changes were kept"
            told.notes.append(f"{kept}: {approval.reason}. It would: {'; '.join(told.effect_lines)}.")
        return ended, told

    def _barriers(self, ended: Ended, profile: Profile) -> tuple[Barrier, ...]:
        from ferrule.process.sandbox.denials import SAID_ONLY

        denials = denials_of(self._session, self._text, ended, profile)
        said = [one for one in denials if one.kind in SAID_ONLY]
        self._told.notes += [f"{one.message} {one.suggestion}" for one in said]
        if ended.timed_out:
            why = phrase(
                "Its trial run did not finish within {seconds} s. Once approved, it runs for real from the start.",
                seconds=f"{self._seconds:g}",
            )
            return (Barrier("time", "", why),)
        met = [one for one in denials if one.kind == "read" and not refers_to(self._text, one.subject)]
        if met:
            self._told.notes.append(_hidden_on_the_way(met, files_of(self._session).paths))
        kinds = {"network": "network", "read": "read", "write": "write", "guarded": "guarded"}
        return tuple(
            Barrier(kinds.get(one.kind, "limit"), one.subject, one.message)  # type: ignore[arg-type]
            for one in denials
            if one not in met and one not in said
        )


def _with_guarded(effects: Effects, without_layers: Paths | None) -> Effects:
    """Say of the guarded places that a command wants to change that they stay as they are where it runs for real. With
    layers it may run so that they don't; without, it was kept from changing anything.
    """
    if without_layers is not None:
        kept_from = [os.path.normpath(one.subject) for one in effects.barriers if one.kind == "write" and one.subject]
        shown = [without_layers.show(Path(one)) for one in kept_from]
        if not (guarded := [one for one in shown if guarded_by_name(one)]):
            return effects
        why = phrase(
            "On this machine commands cannot change what is guarded, even once approved: {places}. "
            "Only remotes, branches and the user's name in git's configuration can be changed.",
            places=", ".join(f"`{one}`" for one in guarded[:_MOST_NAMED]),
        )
        return replace(effects, barriers=(*effects.barriers, Barrier("guarded", guarded[0], why)))
    places = [one.shown for one in effects.files if one.guarded and not one.internal]
    places += [one.subject for one in effects.barriers if one.kind == "guarded"]
    if not places:
        return effects
    named = ", ".join(f"`{one}`" for one in places[:_MOST_NAMED]) + (" …" if len(places) > _MOST_NAMED else "")
    why = phrase(
        "Approval runs it for real, and that does not change what is guarded: {places}. "
        "A command that does nothing else can be approved for that.",
        places=named,
    )
    others = tuple(one for one in effects.barriers if one.kind != "guarded")
    return replace(effects, barriers=(*others, Barrier("guarded", places[0], why)))


def denials_of(session: Session, text: str, ended: Ended, profile: Profile) -> list[Denial]:
    """What its box kept a command from: what the box itself knows, or else what the command complained of."""
    from ferrule.process.sandbox.denials import SAID_ONLY, hidden_met

    sandbox, code = sandbox_of(session), ended.exit_code or 0
    denials = list(ended.denials)
    if sandbox.confines:
        denials += hidden_met(f"{ended.stderr}\n{ended.stdout}", profile)  # `2>&1`, and a terminal
    if all(one.kind in SAID_ONLY for one in denials) and sandbox.confines:
        # `2>&1`, and a terminal. What a command that ended well writes to its output is no complaint otherwise.
        complains = code != 0 or "2>&1" in text or "|&" in text
        found = (
            sandbox.explain_denial(code, ended.stderr, profile)
            or (sandbox.explain_denial(code, ended.stdout, profile) if complains else None)
            or _without_network(text, ended, profile)
        )
        denials += [found] if found else []
    return denials


def refers_to(command: str, path: str) -> bool:
    """Whether the text of a command names a file, in whatever folder, or by a pattern that says something of it."""
    name = path.rpartition("/")[2]
    words = (word.rpartition("/")[2] for word in _BETWEEN_WORDS.split(command))
    return any(
        word == name or (re.search(r"[*?\[]", word) and re.search(r"\w", word) and fnmatchcase(name, word))
        for word in words
    )


def _hidden_on_the_way(met: Sequence[Denial], paths: Paths) -> str:
    """What is said of hidden files that a command came across, as a search of a whole folder does."""
    names = ", ".join(f"`{paths.show(Path(one.subject))}`" for one in met[:_MOST_NAMED])
    more = f" and {len(met) - _MOST_NAMED:,} more" if len(met) > _MOST_NAMED else ""
    was, it = ("was", "it") if len(met) == 1 else ("were", "them")
    return (
        f"{names}{more} {was} hidden from the command: reading {it} needs approval, or a rule denies it. If the "
        f"command needs {it}, run it again with the name in its text, in a comment for example, and the user is asked."
    )


def _without_network(text: str, ended: Ended, profile: Profile) -> Denial | None:
    """A program that reaches for a host gets nowhere, also where it fails without a word as `curl -s` does."""
    from ferrule.policy.commands.analyse import analyse
    from ferrule.policy.commands.network import HERE
    from ferrule.process.sandbox.denials import no_network, speaks_of_network

    if profile.hosts is not None:
        return None
    analysis = analyse(text)
    complained = bool(ended.exit_code) and speaks_of_network(f"{ended.stderr}\n{ended.stdout}")
    if not analysis.network and not complained:
        return None
    named = [host for host in analysis.hosts if host not in HERE]
    if analysis.hosts and not named:
        return None
    return no_network(named[0] if named else "", profile)


# What can be undone, and what is reported


@asynccontextmanager
async def undoable(context: ToolContext, *, goes_on: bool = False) -> AsyncGenerator[Told]:
    """Look at the workspace before and after, so that what a work box changed can be undone. A command that `goes_on`
    when it has been started is looked at again by `record_when_over`.
    """
    told = Told()
    await _begin(context)
    try:
        yield told
    except BaseException:
        await _record(context, told)
        raise
    if not goes_on:
        await _record(context, told)


async def _begin(context: ToolContext, *, alone: bool = False) -> bool:
    """Look at the workspace as it is before a command. With `alone`, False where another command is under way.

    If cancelled meanwhile, the command never runs, and later changes are not attributed to it.
    """
    import asyncio

    changes, origin = files_of(context.session).shell_changes, origin_of(context)
    looking = asyncio.ensure_future(asyncio.to_thread(partial(changes.begin, origin, alone=alone)))

    async def withdraw() -> None:
        await asyncio.wait({looking})
        if not looking.cancelled():
            looking.exception()  # seen: the one who cancelled does not wait for it
        await asyncio.to_thread(changes.withdraw, origin)

    try:
        return await asyncio.shield(looking)
    except asyncio.CancelledError:
        await asyncio.shield(watch(context.session, withdraw()))
        raise
    except (PathError, OSError) as problem:
        raise ToolError(
            phrase("The command was not run, because its changes could not be undone: {problem}", problem=problem),
            suggestion=advice(
                "The user can free disk space, or repair the history folder.",
                "Free disk space, or repair the history folder.",
            ),
        ) from problem


async def _record(context: ToolContext, told: Told, *, over: bool = True) -> RecordedChanges:
    """Look again, and put what the command changed into the history; unless it is `over`, what it changed so far."""
    import asyncio

    changes = files_of(context.session).shell_changes
    looking = asyncio.to_thread(changes.end if over else changes.so_far, origin_of(context))
    recorded = await asyncio.shield(looking)
    told.changed = recorded.count
    told.notes += [recorded.note] if recorded.note else []
    return recorded


def require_folder(session: Session, folder: str | None) -> None:
    """Refuse to go to a folder of the workspace that is not there; what else is there only the sandbox knows."""
    if folder is None:
        return
    whole = os.path.normpath(session.command_directory / folder)
    inside = any(Path(whole).is_relative_to(os.path.realpath(root)) for root in session.folders)
    if inside and not Path(whole).is_dir():
        there = Path(whole).exists()
        raise ToolError(
            phrase("`{place}` is a file, not a folder.", place=folder)
            if there
            else phrase("There is no folder `{folder}`.", folder=folder),
            kind=ErrorKind.VALIDATION if there else ErrorKind.NOT_FOUND,
            suggestion=phrase(
                "The shell is in `{folder}`; relative paths start there. Nothing was run.",
                folder=session.command_directory,
            ),
        )


def record_when_over(context: ToolContext, kept: BackgroundCommand) -> None:
    """Have what a background command changed put into the history once it has ended."""

    async def record() -> None:
        await kept.over.wait()
        recorded = await _record(context, Told())
        if recorded.waiting:  # the next result says it: this command's own was given long ago
            context.session.note(f"`{kept.id}` has ended. {recorded.note}")

    watch(context.session, record())
