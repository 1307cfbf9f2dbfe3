"""Commands of git by an agent and by a user, kills, undo and redo in any order: no repository loses anything."""

from __future__ import annotations

from random import Random

import pytest

from tests.faults.bench import Bench, rounds
from tests.faults.git_story import Story
from tests.faults.repositories import KINDS, Kind, Target
from tests.faults.tracing import Fate
from tests.needs import slow

BOXES = {"look": (), "work": ("Bash",)}

WORK = (
    "echo {n} >> {w}f.txt; {git} add -A; {git} commit -qm {n}",
    "echo {n} > {w}new-{n}.txt; {git} add {a}new-{n}.txt",
    "echo {n} > {w}a.txt; echo {n} > {w}untracked-{n}.txt",
    "echo {n} >> {w}f.txt; {git} commit -qa --amend -m {n}",
    "{git} checkout -qb b{n}; echo {n} > {w}f.txt; {git} commit -qam {n}",
    "{git} checkout -qf old",
    "{git} checkout -qf main",
    "{git} checkout -qf --detach HEAD~1; echo {n} >> {w}f.txt; {git} commit -qam {n}",
    "{git} branch t{n}; {git} tag t{n}; {git} update-ref refs/custom/{n} HEAD",
    "{git} merge -q --no-edit topic/one",
    "{git} rebase -q old",
    "{git} reset -q --soft HEAD~1",
    "{git} reset -q --hard HEAD~1",
    "echo {n} >> {w}a.txt; {git} stash -q",
    "{git} stash pop -q",
    "{git} rm -q a.txt; {git} commit -qm {n}",
    "{git} mv f.txt g{n}.txt; {git} commit -qm {n}",
    "{git} clean -qfdx -e /meta -e /origin.git",
    "{git} checkout -qf .",
    "{git} cherry-pick old",
    "{git} revert --no-edit HEAD",
    "{git} notes add -f -m {n}; {git} config branch.main.description {n}",
    "{git} repack -adq",
    "{git} gc -q",
    "{git} pack-refs --all",
    "{git} fetch -q . main:copy{n}",
    "git init -q made-{n}; echo {n} > made-{n}/f.txt; git -C made-{n} add -A",
    "git clone -q {d} clone-{n}",
)  # fmt: skip
"""What an agent does all day. `{git}` calls git, `{w}` is where the working files are, `{d}` the git directory."""

DELETIONS = (
    "rm -rf {d}",
    "git branch -D old topic/one",
    "git tag -d v1 light",
    "git update-ref -d refs/heads/old",
    "git gc -q --prune=now",
    "git reflog expire --expire=now --all; git gc -q --prune=now",
    "git clean -qffdx",
    "git stash drop -q",
    "git stash clear; git reflog expire --expire=now --all; git gc -q --prune=now",
    "git branch -D old; git reflog expire --expire=now --all; git gc -q --prune=now",
    "git branch -M old older",
    "git branch -D topic/one; git branch topic",
    "find {d} -delete",
    "rm -rf {d}/refs/heads/topic {d}/logs",
    "rm {d}/HEAD {d}/index",
    "find {d}/objects -type f -delete",
    "rm -rf {d}; git init -q -b other",
    "mv {d} moved.git",
)  # fmt: skip
"""What deletes something in a git directory."""


def is_sound(command: str) -> bool:
    """Whether git alone decides what becomes of its directories."""
    return not any(part.startswith(("rm ", "find ", "mv ", "git clean ")) for part in command.split("; "))


USER = (
    "echo user {n} >> f.txt",
    "echo user {n} > user-{n}.txt; {git} add user-{n}.txt",
    "echo user {n} > dir/b.txt; {git} commit -qam 'user {n}'",
    "{git} commit -q --allow-empty -m 'user {n}'",
    "{git} branch user-{n}",
    "{git} tag -am {n} user-tag-{n}",
    "{git} branch old/{n} || {git} branch old HEAD",
    "{git} checkout -qb user/{n}",
    "{git} stash -q -u",
    "{git} commit -qa --amend -m 'user {n}'",
    "{git} reset -q --hard",
    "{git} branch -D old",
    "{git} gc -q",
    "{git} reflog expire --expire=now --all; {git} gc -q --prune=now",
    "{git} init -q",
)  # fmt: skip
AFTER_KILLS = ("", "{git} branch after-{n}", "{git} tag after-{n}; {git} commit -q --allow-empty -m 'after {n}'")
"""What a user does after a kill, before Ferrule is started again: nothing to working files."""


class Player:
    """Chooses steps by chance."""

    def __init__(self, bench: Bench, chance: Random, kind: Kind) -> None:
        self._chance, self._kind, self._number = chance, kind, 0
        self.story = Story(bench, kind, chance.choice([(), ("Bash",)]))

    def play(self, length: int) -> None:
        steps = [self._command] * 5 + [self._deletion] * 2 + [self._user] * 4 + [self._undo] * 4 + [self._redo] * 2
        self._command()
        for _ in range(length - 1):
            self._chance.choice([*steps, self._killed, self._box])()
        while any(one["state"] == "done" for one in self.story.groups()) and self.story.undo():
            pass
        self.story.finish()

    def _box(self) -> None:
        self.story.close()
        self.story.allow = () if self.story.allow else ("Bash",)

    def _command(self) -> None:
        self.story.command(self._filled(self._chance.choice([*WORK, *self._kind.commands * 3])))

    def _deletion(self) -> None:
        text = self._chance.choice([*DELETIONS, *self._kind.deletions * 4])
        self.story.command(self._filled(_anywhere(text)), sound=is_sound(text))

    def _user(self) -> None:
        self.story.user(self._filled(self._chance.choice(USER)))

    def _undo(self) -> None:
        self.story.undo(*self._which("done"), fate=self._fate())

    def _redo(self) -> None:
        self.story.redo(*self._which("undone"), fate=self._fate())

    def _killed(self) -> None:
        text = self._chance.choice([*WORK, *DELETIONS, *self._kind.commands, *self._kind.deletions])
        then = self._filled(self._chance.choice(AFTER_KILLS))
        fate = command_fate(self._chance)
        self.story.kill_command(self._filled(_anywhere(text)), fate, then, sound=is_sound(text))

    def _which(self, state: str) -> tuple[str, ...]:
        """Mostly the newest, sometimes one by its call, or many."""
        groups = [one for one in self.story.groups() if one["state"] == state]
        choice = self._chance.random()
        if not groups or choice < 0.7:
            return ()
        one = self._chance.choice(groups)
        return ("--call", one["call_id"]) if choice < 0.85 else ("--to", str(one["number"]))

    def _fate(self) -> Fate | None:
        return move_fate(self._chance) if self._chance.random() < 0.25 else None

    def _filled(self, text: str) -> str:
        self._number += 1
        targets: list[Target] = [self._kind.target, self._kind.target, *self._kind.others]
        target = self._chance.choice(targets)
        return _fill(text, target, self._number)


def _anywhere(text: str) -> str:
    """A deletion for whatever git directory is chosen, and not only for the first."""
    return text.replace("git ", "{git} ") if text in DELETIONS else text


def _fill(text: str, target: Target, number: int = 0) -> str:
    below = target.git.partition("-C ")[2]
    return text.format(git=target.git, w=target.files, a="" if below else target.files, d=target.folder, n=number)


def command_fate(chance: Random) -> Fate:
    """By calls, applying a layer is met as often as what takes long; by the clock, what git does is."""
    return Fate(after=chance.uniform(0.1, 1.5)) if chance.random() < 0.4 else Fate(at_call=chance.randint(1, 800))


def move_fate(chance: Random) -> Fate:
    return Fate(at_call=chance.randint(1, chance.choice([70, 150, 400])))


@pytest.mark.parametrize("box", ["look", slow("work")])
def test_a_branch_on_a_commit_that_is_undone_still_resolves(bench: Bench, chance: Random, box: str) -> None:
    """P11: the commit, the branch and the index stay, and the working file is as before."""
    story = Story(bench, allow=BOXES[box])
    before = story.now.files["f.txt"]
    story.command("echo three >> f.txt; git add -A; git commit -m second")
    story.user("git branch mine")
    assert story.undo(), story.steps
    assert story.now.files["f.txt"] == before
    repository = story.now.repositories[".git"]
    assert repository.refs["refs/heads/mine"] == repository.refs["HEAD"]
    assert not repository.faults
    assert story.redo(), story.steps
    assert story.now.files["f.txt"] != before
    story.close()


@pytest.mark.parametrize(
    ("command", "box"),
    [(one, "work") for one in DELETIONS[:1]]
    + [slow(one, "work") for one in DELETIONS[1:]]
    + [slow(one, "look") for one in DELETIONS],
)
def test_undo_puts_back_what_a_command_deleted(bench: Bench, chance: Random, command: str, box: str) -> None:
    """P11: refs, objects, reflogs and files; redo deletes none of them again."""
    _delete_and_undo(Story(bench, KINDS["packed refs"], BOXES[box]), command, Target())


@pytest.mark.slow
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize(("kind", "command"), [(name, one) for name, kind in KINDS.items() for one in kind.deletions])
def test_undo_puts_back_what_a_command_deleted_in_other_repositories(
    bench: Bench, chance: Random, kind: str, command: str, box: str
) -> None:
    """P11: worktrees, submodules, bare repositories, hooks, large files and alternates too."""
    _delete_and_undo(Story(bench, KINDS[kind], BOXES[box]), command, KINDS[kind].target)


def _delete_and_undo(story: Story, command: str, target: Target) -> None:
    # A commit that only a reflog names, and an object that nothing names.
    story.user(_fill("{git} commit -q --amend -m amended; echo loose | {git} hash-object -w --stdin", target))
    call = story.command(_fill(command, target), sound=False)
    story.require_undone(call)
    story.redo("--call", call)
    story.require_undone(call)
    story.close()


@pytest.mark.slow
@rounds(3)
@pytest.mark.parametrize("kind", KINDS)
def test_any_sequence_loses_nothing_that_git_keeps(bench: Bench, chance: Random, kind: str) -> None:
    """P11: commands, edits, kills, undo and redo in any order."""
    Player(bench, chance, KINDS[kind]).play(10)


@pytest.mark.slow
@rounds(4)
@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("killed", ["command", "undo", "redo"])
def test_a_kill_loses_nothing_that_git_keeps(bench: Bench, chance: Random, killed: str, box: str) -> None:
    """P11: killed while git runs, while a layer is applied, while it is undone or redone, by chance more than once."""
    story = Story(bench, KINDS[chance.choice(["plain", "packed refs"])], BOXES[box])
    command = chance.choice([
        "echo three >> f.txt; git add -A; git commit -qm third; git checkout -qb next; git pack-refs --all",
        "git checkout -qf old; git branch -D main topic/one; git gc -q",
        "rm -rf .git; echo gone > f.txt",
        "find .git -delete; echo gone > f.txt",
    ])  # fmt: skip
    if killed == "command":
        then = chance.choice(AFTER_KILLS).format(git="git", n=1)
        story.kill_command(command, command_fate(chance), then, sound=is_sound(command))
    else:
        story.command(command, sound=False)
    story.close()
    for verb in ("undo", "redo", "undo"):
        if killed == verb:
            for _ in range(chance.randint(1, 3)):
                getattr(story, verb)(fate=move_fate(chance))
                story.user("git branch between 2> /dev/null")
        else:
            getattr(story, verb)()
    story.finish()
