"""What changed in a repository between two moments, as git would say it: "1 commit on master: second; f.txt +1".

It is derived from refs, index and trees, never from a command's text, so it covers every git operation. git is asked
about commits in an empty repository made for that, which borrows the objects of the real one: no setting, hook, filter
or alias of a repository is ever read.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.core.errors import ToolError
from ferrule.core.phrases import joined, phrase
from ferrule.core.shown_text import shown_row
from ferrule.workspace.git import ConfinedGit, GitIndex, UnreadableIndex, parse_index
from ferrule.workspace.git_folders import common_folder
from ferrule.workspace.git_state import INVALID, OBJECT_ID, GitState, content_of, read_git_state

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

SECONDS = 10.0
"""For all questions that git is asked about one change."""
_MOST_DETAILED, _MOST_LINES, _MOST_SUBJECTS, _MOST_FILES, _MOST_STAGED, _LONGEST = 8, 1000, 3, 3, 8, 72
_SHA256_WIDTH = 64
_EMPTY_TREES = {
    40: "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
    _SHA256_WIDTH: "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
}
_SETTINGS = {
    "core.bigFileThreshold": "8m",
    "core.commitGraph": "false",  # caches that may lie
    "core.multiPackIndex": "false",
}


@dataclass(slots=True)
class GitChanges:
    """What changed, a line each. `explained` is False where git could not say all of it."""

    lines: list[str]
    explained: bool


def git_changes(
    folder: str | Path,
    before: GitState,
    after: GitState,
    *,
    objects: Sequence[str] = (),
    index_before: str | None = None,
    index_after: str | None = None,
    outside: Sequence[Path] = (),
    packs: Sequence[str] = (),
    ask: bool = True,
    calls: str = "",
    staged: Sequence[str] = (),
) -> GitChanges:
    """What changed between two states of the repository whose git directory is `folder`; whether that is all, and new
    `packs` hold what they say.

    `objects` are further folders with objects, such as a layer's. The indexes are files, "" for none; what is staged is
    not compared without them. git is never taken from a folder in `outside`. Without `ask` it is not asked at all.
    `calls` is how git is called in commands that drop it, `staged` what the command staged and is still staged.
    """
    from ferrule.process.sandbox.places import find_program

    if before.head == after.head == "":
        return GitChanges([], explained=False)
    folder = str(folder)
    stores = [one for one in (f"{common_folder(folder)}/objects", *objects) if os.path.isdir(one)]  # noqa: PTH112
    program = find_program("git", [Path(folder).parent, *outside]) if ask and stores else None
    with _borrowing(common_folder(folder), stores, before, after) as (place, variables):
        git = ConfinedGit(program, place, variables, _SETTINGS) if program is not None else None
        indexes = (index_before, index_after)
        teller = _Describer(
            _Asked(git), before, after, indexes, packs, calls=calls, staged=staged, index=f"{folder}/index"
        )
        # Callers may be in a thread with a loop of its own or without one.
        with ThreadPoolExecutor(1, "ferrule-git") as pool:
            return pool.submit(asyncio.run, teller.tell()).result()


def remains(
    folder: str | Path, before: GitState, after: GitState, *, shown: str, staged: Sequence[str] = ()
) -> list[str]:
    """What a command did in a repository and is still so, a line each, with the git command that drops it.

    `before` and `after` are the parts of the states that the command changed. What has changed since is someone's own
    work, so no command that would drop that is given. `shown` is the git directory as the user knows it, and `staged`
    what the command staged and is still staged.
    """
    now = read_git_state(folder)
    if not now.head:
        return []
    if not before.head:
        if (now.head, dict(now.refs)) != (after.head, {name: one for name, one in after.refs.items() if one}):
            return [phrase("a new repository `{folder}`; changed since then", folder=shown)]
        return [phrase("a new repository; rm -rf {folder} drops it", folder=_quoted(shown) or shown)]
    known = [name for name in before.refs if now.refs.get(name, "") != before.refs[name]]
    moved = [name for name in known if now.refs.get(name, "") != after.refs.get(name, "")]
    own = replace(
        before,
        head=before.head if now.head == after.head else now.head,
        refs={name: one for name, one in before.refs.items() if name not in moved},
        operations=before.operations | (now.operations - after.operations),
        stashes=(
            *(one for one in before.stashes if one in now.stashes or one not in after.stashes),
            *(one for one in now.stashes if one not in after.stashes),
        ),
        whole=False,
    )
    # How git is called for a repository from the workspace.
    top, calls = shown.removesuffix("/.git"), "git"
    if shown != ".git":
        calls = f"git -C {shlex.quote(top)}" if top != shown else f"git --git-dir={shlex.quote(shown)}"
    lines = git_changes(folder, own, now, calls=calls, staged=staged).lines
    if moved:
        old = replace(after, refs={name: before.refs[name] for name in moved}, whole=False)
        since = git_changes(folder, old, after).lines
        lines += [phrase("{what}; changed since then", what=line) for line in since]
    return lines


@contextmanager
def _borrowing(
    common: str, stores: Sequence[str], before: GitState, after: GitState
) -> Generator[tuple[Path, dict[str, str]]]:
    """An empty repository that has the objects of another one, and what that had before as its refs."""
    with tempfile.TemporaryDirectory(prefix="ferrule-git-") as made:
        place = Path(made)
        known = sorted(
            {one for one in (before.head, *before.refs.values(), *before.stashes) if OBJECT_ID.fullmatch(one)}
        )
        width = max(
            (len(one) for one in (*known, after.head, *after.refs.values()) if OBJECT_ID.fullmatch(one)), default=40
        )
        extension = "[extensions]\n\tobjectformat = sha256\n" if width == _SHA256_WIDTH else ""
        version = 1 if extension else 0
        (place / "config").write_text(f"[core]\n\trepositoryformatversion = {version}\n\tbare = true\n{extension}")
        (place / "HEAD").write_text("ref: refs/heads/none\n")
        (place / "refs").mkdir()
        (place / "packed-refs").write_text("".join(f"{one} refs/known/{one}\n" for one in known))
        if shallow := content_of(f"{common}/shallow"):
            (place / "shallow").write_bytes(shallow)
        variables = {"GIT_DIR": made, "GIT_NO_REPLACE_OBJECTS": "1"}
        if stores:
            variables["GIT_OBJECT_DIRECTORY"] = stores[0]
            variables["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = ":".join(
                json.dumps(one, ensure_ascii=False) if re.search(r'[:"\\]', one) else one for one in stores[1:]
            )
        yield place, variables


class _Asked:
    """What git answers; None where it could not, and `failed` is set from then on."""

    def __init__(self, git: ConfinedGit | None) -> None:
        self._git = git
        self.failed = git is None
        self._until = 0.0

    async def __call__(self, *arguments: str, index: str = "") -> str | None:
        if self._git is None:
            return None
        loop = asyncio.get_running_loop()
        self._until = self._until or loop.time() + SECONDS
        try:
            async with asyncio.timeout_at(self._until):
                return await self._git(*arguments, place={"GIT_INDEX_FILE": index} if index else None)
        except TimeoutError:
            self._git = None
        except (ToolError, OSError):
            pass
        self.failed = True
        return None


@dataclass(slots=True)
class _Range:
    """How a branch got from one commit to another."""

    dropped: int
    added: int
    subjects: str


class _Describer:
    """Says what differs between two states; with `calls`, how git is called, also how to drop it."""

    def __init__(
        self,
        git: _Asked,
        before: GitState,
        after: GitState,
        indexes: tuple[str | None, str | None],
        packs: Sequence[str],
        *,
        calls: str,
        staged: Sequence[str],
        index: str,
    ) -> None:
        self._git, self._before, self._after, self._packs = git, before, after, packs
        self._indexes = None if None in indexes else [one if one and Path(one).is_file() else "" for one in indexes]
        self._reports, self._calls, self._own_staged, self._index_now = bool(calls), calls, staged, index
        self._detailed = 0
        width = max((len(one) for one in (before.commit, after.commit, *after.refs.values())), default=0)
        self._empty_tree = _EMPTY_TREES[_SHA256_WIDTH if width == _SHA256_WIDTH else 40]

    async def tell(self) -> GitChanges:
        before, after = self._before, self._after
        if not after.head:
            return GitChanges([phrase("the repository is removed")], explained=False)
        lines: list[str] = [] if before.head else [phrase("a new repository")]
        # The refs that differ: the checked-out branch, other branches, tags, remote branches, all others.
        old, new = before.refs, after.refs
        kinds = ("refs/heads/", "refs/tags/", "refs/remotes/", "")
        names = [
            name
            for name in ({*old, *new} if before.whole else old)
            if old.get(name, "") != new.get(name, "") and name != "refs/stash"
        ]
        order = {name: next(at for at, kind in enumerate(kinds) if name.startswith(kind)) for name in names}
        # In a question what is gone comes first, and what is new last: a list may be cut.
        age = {name: 0 if self._reports or not new.get(name) else 1 + (not old.get(name)) for name in names}
        refs = sorted(names, key=lambda name: (name != self._after.head, age[name], order[name], name))
        heads = await self._heads()
        staged, conflicts = await self._staged()
        operations = self._operations(conflicts)
        for pack in self._packs:
            await self._git("index-pack", "--verify", pack)
        told = [(name, await self._ref(name)) for name in refs[:_MOST_LINES]]
        if self._reports:  # in the order in which the commands work
            moved = [line for name, line in told if before.refs.get(name)]
            made = [line for name, line in reversed(told) if not before.refs.get(name)]
            # What the command staged and is still not committed.
            now = self._after.commit or self._empty_tree
            differing = await self._differing(now, self._index_now) if self._own_staged else {}
            if own := [name for name in self._own_staged if differing.get(name, "U") != "U"]:
                line = phrase("staged: {files}", files=_few(own))
                staged = [line]
                if len(own) <= _MOST_STAGED and all(map(_quoted, own)):
                    unstage = "restore --staged" if self._after.commit else "rm --cached"
                    called = f"{self._calls} {unstage} -- {' '.join(map(_quoted, own))}"
                    staged = [phrase("{what}; {command} unstages it", what=line, command=called)]
            lines += [*operations, *moved, *heads, *made, *reversed(await self._stashes()), *staged]
        else:
            lines += [*(line for _, line in told), *await self._stashes(), *heads, *operations, *staged]
        if (more := len(refs) - len(told)) > 0:
            lines.append(phrase("… and {more} more", more=f"{more:,}"))
        return GitChanges(lines, explained=not self._git.failed and more <= 0)

    # Refs

    async def _ref(self, name: str) -> str:
        old, new = self._before.refs.get(name, ""), self._after.refs.get(name, "")
        short = name.split("/", 2)[-1]
        shown = _shown(short)
        is_commits = all(OBJECT_ID.fullmatch(one) for one in (old, new) if one)
        if name.startswith("refs/heads/") and is_commits:
            return await self._branch(name, shown, old, new)
        if name.startswith("refs/remotes/") and is_commits and old and new:
            line = await self._moved(shown, old, new)
            return self._undone(line, "update-ref", name, old)
        if name.startswith("refs/tags/"):
            if not old:
                line = phrase("new tag {name} at {id}", name=shown, id=_short(new))
                return self._with_command(line, self._command(name, "tag", "-d", short), drops=True)
            restore = self._command(name, "tag", *(["-f"] if new else []), short, old)
            if not new:
                line = phrase("tag {name} deleted (was {id})", name=shown, id=_short(old))
            else:
                line = phrase("tag {name} moved from {old} to {new}", name=shown, old=_short(old), new=_short(new))
            return self._with_command(line, restore)
        if name.startswith("worktrees/"):
            return self._worktree(name, old, new)
        shown = _shown(name.removeprefix("refs/remotes/"))
        if not old:
            line = phrase("{name} created at {id}", name=shown, id=_short(new))
        elif not new:
            line = phrase("{name} deleted (was {id})", name=shown, id=_short(old))
        else:
            line = _went(shown, old, new)
        return self._undone(line, "update-ref", name, old) if is_commits else line

    def _worktree(self, name: str, old: str, new: str) -> str:
        _, worktree, rest = name.split("/", 2)
        if rest != "HEAD":
            return _went(_shown(name), old, new)
        if not old:
            line = phrase("new worktree {name} at {id}", name=_shown(worktree), id=_short(new))
            return self._with_command(line, self._command(worktree, "worktree", "remove", "-f", worktree), drops=True)
        if not new:
            return phrase("worktree {name} removed (was at {id})", name=_shown(worktree), id=_short(old))
        return phrase(
            "worktree {name} switched from {old} to {new}", name=_shown(worktree), old=_short(old), new=_short(new)
        )

    async def _branch(self, name: str, shown: str, old: str, new: str) -> str:
        short = name.removeprefix("refs/heads/")
        if not new:
            line = phrase("branch {name} deleted (was {id})", name=shown, id=_short(old))
            return self._with_command(line, self._command(name, "branch", short, old))
        is_out = name == self._after.head
        if not old:
            line, count = await self._created(name, shown, new)
            if is_out and name == self._before.head:  # the first commit of all
                return self._with_command(line, "git update-ref -d HEAD", drops=True, count=count)
            return self._with_command(line, self._command(name, "branch", "-D", short), drops=True)
        went = await self._range(old, new) if self._has_room() else None
        line = await self._moved(shown, old, new, went)
        if not self._reports or went is None:
            return line
        drops = not went.dropped
        if is_out:
            steps = f"{new}~{went.added}"
            found = await self._git("rev-parse", "--verify", "--quiet", "--end-of-options", steps) if drops else None
            stays = self._before.head == self._after.head
            target = f"HEAD~{went.added}" if stays and (found or "").strip() == old else old
            command = f"git reset --soft {target}"
        elif any(one == f"ref: {name}" for at, one in self._after.refs.items() if at.endswith("/HEAD")):
            return line  # another worktree has it
        else:
            command = self._command(name, "branch", "-f", short, old)
        return self._with_command(line, command, drops=drops, count=went.added)

    async def _created(self, name: str, shown: str, new: str) -> tuple[str, int]:
        """A new branch, and how many commits are only on it."""
        plain = phrase("new branch {name} at {id}", name=shown, id=_short(new))
        if not self._has_room():
            return plain, 0
        base = self._before.commit
        only = (new, "--not", "--all") if self._before.whole or not base else (new, f"^{base}")
        count = _number(await self._git("rev-list", "--count", *only))
        if not count:
            return plain, 0
        subjects = await self._subjects(*only)
        started = ""
        if not base and self._before.whole:
            started = self._empty_tree
        elif base:
            fork = (await self._git("merge-base", base, new) or "").strip()
            started = fork if fork and await self._counts(fork, new) == (0, count) else ""
        files = await self._files(started, new) if started and not self._reports else ""
        what = joined("; ", [subjects, files])
        if name == self._before.head:
            return phrase("{commits} on {name}: {what}", commits=_commits(count), name=shown, what=what), count
        return phrase("new branch {name} with {commits}: {what}", name=shown, commits=_commits(count), what=what), count

    async def _moved(self, shown: str, old: str, new: str, went: _Range | None = None) -> str:
        """How a branch got from one commit to another."""
        if went is None and self._has_room():
            went = await self._range(old, new)
        if went is None:
            return _went(shown, old, new)
        files = await self._files(old, new) if went.added and not self._reports else ""
        what = joined("; ", [went.subjects, files])
        if not went.dropped:
            return phrase("{commits} on {name}: {what}", commits=_commits(went.added), name=shown, what=what)
        if not went.added:
            dropped = _commits(went.dropped)
            return phrase(
                "{name} reset to {id}: drops {commits}: {what}", name=shown, id=_short(new), commits=dropped, what=what
            )
        return phrase(
            "{name}: {commits} replaced by {count}: {what}",
            name=shown,
            commits=_commits(went.dropped),
            count=f"{went.added:,}",
            what=what,
        )

    async def _range(self, old: str, new: str) -> _Range | None:
        counts = await self._counts(old, new)
        if counts is None or counts == (0, 0):
            return None
        dropped, added = counts
        return _Range(dropped, added, await self._subjects(*((new, f"^{old}") if added else (old, f"^{new}"))))

    async def _counts(self, old: str, new: str) -> tuple[int, int] | None:
        """How many commits only the one has, and how many only the other."""
        said = await self._git("rev-list", "--count", "--left-right", f"{old}...{new}")
        left, _, right = (said or "").strip().partition("\t")
        return (int(left), int(right)) if left.isdecimal() and right.isdecimal() else None

    async def _subjects(self, *commits: str) -> str:
        form = "--format=%H %s"
        said = await self._git("log", "-z", "--encoding=UTF-8", f"--max-count={_MOST_SUBJECTS + 1}", form, *commits)
        subjects: list[str] = []
        for one in (said or "").rstrip("\0").split("\0"):
            commit, _, subject = one.partition(" ")
            text = shown_row(subject, _LONGEST) or phrase("no message")
            if ";" in text:  # it must not pass for several, nor for files
                text = json.dumps(text, ensure_ascii=False)
            subjects.append(f"{_short(commit)} {text}" if self._reports else text)
        more = ["…"] if len(subjects) > _MOST_SUBJECTS else []
        return joined("; ", [*subjects[:_MOST_SUBJECTS], *more])

    async def _files(self, old: str, new: str) -> str:
        """What differs between two trees: a few files by name, many as a sum."""
        said = await self._git(
            "diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv",
            "--ignore-submodules=none", old, new,
        )  # fmt: skip
        rows = [row.split("\t", 2) for row in (said or "").split("\0") if row.count("\t") >= 2]
        lines = [(int(added), int(removed)) if added.isdecimal() else (0, 0) for added, removed, _ in rows]
        if len(rows) > _MOST_FILES:
            sums = _plus_minus(sum(one for one, _ in lines), sum(one for _, one in lines))
            return phrase("{count} files{lines}", count=f"{len(rows):,}", lines=sums)
        return ", ".join(_shown(name) + _plus_minus(*sums) for (_, _, name), sums in zip(rows, lines, strict=True))

    def _has_room(self) -> bool:
        """Whether git is asked about one more ref; details of hundreds would not be read."""
        self._detailed += 1
        return self._detailed <= _MOST_DETAILED

    # HEAD, operations, stashes

    async def _heads(self) -> list[str]:
        old, new = self._before.head, self._after.head
        if old == new or not old:
            return []
        if not old.startswith("refs/") and not new.startswith("refs/"):
            return [self._with_command(await self._moved("HEAD", old, new), f"git reset --soft {old}")]
        if new.startswith("refs/"):
            line = phrase("switched from {old} to {new}", old=_short(old), new=_short(new))
        else:
            line = phrase("HEAD detached at {new} (was {old})", old=_short(old), new=_short(new))
            if count := _number(await self._git("rev-list", "--count", new, "--not", "--all")):
                what = await self._subjects(new, "--not", "--all")
                line = phrase("{line}, with {commits}: {what}", line=line, commits=_commits(count), what=what)
        if not old.startswith("refs/"):
            return [self._with_command(line, f"git update-ref --no-deref HEAD {old}")]
        if not self._after.refs.get(old):
            return [line]
        # `git switch` refuses: the working files are those of the old branch again.
        return [self._with_command(line, self._command(old, "symbolic-ref", "HEAD", old))]

    def _operations(self, conflicts: list[str]) -> list[str]:
        old, new = self._before.operations, self._after.operations
        lines: list[str] = []
        for name in sorted(new - old):
            if conflicts and "/" not in name:
                line = phrase("{operation} in progress, conflicts in {files}", operation=name, files=_few(conflicts))
                conflicts = []
            else:
                line = phrase("{operation} in progress", operation=_shown(name))
            # Not `--abort`, which takes files along that were staged meanwhile.
            end = "git bisect reset HEAD" if name == "bisect" else f"git {name} --quit"
            lines.append(self._with_command(line, "" if "/" in name else end, drops=True))
        if not self._reports:
            lines += [phrase("{operation} no longer in progress", operation=_shown(name)) for name in sorted(old - new)]
        return [*lines, phrase("conflicts in {files}", files=_few(conflicts))] if conflicts else lines

    async def _stashes(self) -> list[str]:
        old, new = self._before.stashes, self._after.stashes
        lines: list[str] = []
        for at, one in enumerate(new):
            if one not in old:
                line = phrase("stashed: {what}", what=await self._subject(one))
                which = f" 'stash@{{{at}}}'" if at else ""
                lines.append(self._with_command(line, f"git stash drop{which}", drops=True))
        for one in old:
            if one not in new:
                line = phrase("stash dropped: {what}", what=await self._subject(one))
                lines.append(self._with_command(line, f"git stash store {one}"))
        refs = [state.refs.get("refs/stash", "") for state in (self._before, self._after)]
        known = self._before.whole or "refs/stash" in self._before.refs
        if not lines and known and refs[0] != refs[1]:
            lines.append(_went("refs/stash", *refs))
        return lines

    async def _subject(self, commit: str) -> str:
        return await self._subjects("--no-walk", commit) if self._has_room() else _short(commit)

    # The index

    async def _staged(self) -> tuple[list[str], list[str]]:
        """What was staged and unstaged, and new conflicts."""
        if self._indexes is None:
            return [], []
        indexes = [_index(one) for one in self._indexes]
        states = (self._before, self._after)
        if indexes[0] is not None and indexes[0] == indexes[1] and self._before.commit == self._after.commit:
            return [], []
        old, new = [
            await self._differing(state.commit or self._empty_tree, path)
            for state, path in zip(states, self._indexes, strict=True)
        ]
        conflicts = [name for name, found in new.items() if found == "U" and old.get(name) != "U"]
        staged = [name for name, found in new.items() if found not in ("U", old.get(name))]
        unstaged: list[str] = []
        flagged: list[str] = []
        before, after = indexes
        if before is None or after is None:
            if self._before.commit == self._after.commit:
                unstaged = [name for name in old if name not in new]
        else:
            entries = [{os.fsdecode(name): one for name, one in index.entries.items()} for index in (before, after)]
            unstaged = [name for name in old if name not in new and entries[0].get(name) != entries[1].get(name)]
            for name, one in entries[0].items():
                other = entries[1].get(name)
                if other and [(a.mode, a.digest) for a in one] == [(a.mode, a.digest) for a in other] and one != other:
                    flagged.append(name)
        lines: list[str] = []
        if staged:
            lines.append(phrase("staged: {files}", files=_few(staged)))
        if unstaged:
            lines.append(phrase("unstaged: {files}", files=_few(unstaged)))
        if flagged:
            lines.append(phrase("flags changed in the index: {files}", files=_few(flagged)))
        return lines, conflicts

    async def _differing(self, tree: str, index: str) -> dict[str, str]:
        """The files whose staged content is not that of a tree, each with what is staged; `U` for a conflict."""
        if not index:
            return {}
        said = await self._git(
            "diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=none", tree,
            index=index,
        )  # fmt: skip
        fields = (said or "").split("\0")
        found: dict[str, str] = {}
        for about, name in zip(fields[::2], fields[1::2], strict=False):
            _, mode, _, content, status = about.split(" ")
            found[name] = "U" if status == "U" or found.get(name) == "U" else f"{mode} {content}"
        return found

    # Commands that drop it

    def _with_command(self, line: str, command: str, *, drops: bool = False, count: int = 1) -> str:
        if not self._reports or not command:
            return line
        command = self._calls + command.removeprefix("git")
        if not drops:
            return phrase("{what}; {command} undoes it", what=line, command=command)
        if count > 1:
            return phrase("{what}; {command} drops them", what=line, command=command)
        return phrase("{what}; {command} drops it", what=line, command=command)

    def _undone(self, line: str, verb: str, name: str, old: str) -> str:
        words = (verb, name, old) if old else (verb, "-d", name)
        return self._with_command(line, self._command(name, *words), drops=not old)

    def _command(self, ref: str, *words: str) -> str:
        """A git command about a ref; one whose name could be an option, or misread, gets none."""
        short = ref.split("/", 2)[-1]
        if short.startswith("-") or not _quoted(ref):
            return ""
        return " ".join(("git", *(shlex.quote(word) for word in words)))


def _index(path: str) -> GitIndex | None:
    """What an index file says; None where it is in a form that only git reads."""
    content = content_of(path) if path else None
    try:
        return parse_index(content) if content else GitIndex()
    except UnreadableIndex:
        return None


def _short(value: str) -> str:
    """An object id or a ref as git shows it."""
    if OBJECT_ID.fullmatch(value):
        return value[:7]
    if value in ("", INVALID):
        return phrase("nothing") if not value else phrase("an invalid value")
    return _shown(value.removeprefix("ref: ").removeprefix("refs/heads/").removeprefix("refs/"))


def _went(shown: str, old: str, new: str) -> str:
    return phrase("{name} moved from {old} to {new}", name=shown, old=_short(old), new=_short(new))


def _commits(count: int) -> str:
    return phrase("1 commit") if count == 1 else phrase("{count} commits", count=f"{count:,}")


def _plus_minus(added: int, removed: int) -> str:
    return (f" +{added:,}" if added else "") + (f" -{removed:,}" if removed else "")


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    shown = ", ".join(_shown(name) for name in listed[:_MOST_STAGED])
    if (more := len(listed) - _MOST_STAGED) > 0:
        return phrase("{names} and {more} more", names=shown, more=f"{more:,}")
    return shown


def _shown(name: str) -> str:
    return shown_row(os.fsencode(name).decode(errors="replace"))


def _quoted(word: str) -> str:
    """A word as a shell takes it; empty where it would not be shown as it is."""
    return shlex.quote(word) if shown_row(word) == word else ""


def _number(said: str | None) -> int:
    text = (said or "").strip()
    return int(text) if text.isdecimal() else 0
