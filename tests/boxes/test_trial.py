"""A command is tried first and judged by what it did: answered, asked about with exactly that, kept or dropped."""

# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from ferrule import Answer, Choice, Question, RulePolicy, Runtime, Session, ToolResult
from ferrule.records.statistics import was_refused
from ferrule.tools import builtin_tools
from ferrule.workspace.files import files_of
from tests.boxes.hostile import tree


class Desk:
    """A session with somebody who answers, and what they were asked."""

    def __init__(self, root: Path, answers: str = "", **policy: Any) -> None:
        self.root = root
        self.session = Session(workspace=root)
        self.asked: list[Question] = []
        self._answers = list(answers)
        self.runtime = Runtime(
            builtin_tools(), session=self.session, policy=RulePolicy(**policy), ask=self._ask if answers else None
        )

    async def _ask(self, question: Question) -> Answer:
        self.asked.append(question)
        await self.while_asked()
        return Answer(Choice.ONCE) if self._answers.pop(0) == "y" else Answer(Choice.NO, "not now")

    async def while_asked(self) -> None:
        """What happens while the question is open."""

    async def bash(self, command: str, **arguments: Any) -> ToolResult:
        return await self.runtime.run("Bash", {"command": command, **arguments})


@asynccontextmanager
async def desk(root: Path, answers: str = "", **policy: Any) -> AsyncGenerator[Desk]:
    made = Desk(root, answers, **policy)
    try:
        yield made
    finally:
        await made.session.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    (made / "a.txt").write_text("one\ntwo\n")
    (made / "b.txt").write_text("b\n")
    (made / ".gitignore").write_text("build/\n*.log\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for words in (("init", "-q"), ("add", "."), ("-c", "user.name=x", "-c", "user.email=x@y.z", "commit", "-qm", "x")):
        subprocess.run(("git", *words), cwd=made, check=True, env=environment)
    return made


async def test_what_only_read_is_answered_at_once(root: Path) -> None:
    async with desk(root) as at:
        result = await at.bash("cat a.txt | sort -r; git status --short; python3 -c 'print(1)'")
    assert (result.success, result.data["stdout"]) == (True, "two\none\n1\n")
    assert result.metadata["box"] == "look"


async def test_a_commit_is_asked_about_as_git_would_say_it(root: Path) -> None:
    """P4: what it means, and the working file; the files inside `.git` are there on demand."""
    async with desk(root, "y") as at:
        who = "-c user.name=x -c user.email=x@y.z"
        result = await at.bash(f"echo three >> a.txt; git add -A; git {who} commit -q -m second")
    branch = subprocess.run(("git", "branch", "--show-current"), cwd=root, capture_output=True, text=True, check=True)
    effects = at.asked[0].effects
    assert effects is not None
    assert effects.lines() == [
        f"1 commit on {branch.stdout.strip()}: second; a.txt +1",
        "change a.txt (+1 -0)",
        f"and {len(effects.internals)} files inside .git",
    ]
    assert result.metadata["effects"]["git"] == list(effects.git)
    assert subprocess.run(("git", "fsck", "--strict"), cwd=root, check=True, capture_output=True).returncode == 0
    assert subprocess.run(("git", "status", "-s"), cwd=root, check=True, capture_output=True).stdout == b""


async def test_what_changed_something_asks_with_exactly_that(root: Path) -> None:
    """P4: the user sees what it did, as a list and as a diff, and yes makes it real."""
    async with desk(root, "y") as at:
        result = await at.bash("sed -i s/two/2/ a.txt; rm b.txt; echo new > c.txt; chmod +x c.txt")
    (question,) = at.asked
    assert question.effects is not None
    assert question.effects.lines() == [
        "delete b.txt (+0 -1)",
        "change a.txt (+1 -1)",
        "create c.txt (+1 -0) (0755)",
    ]
    assert "-two\n+2\n" in question.effects.diff
    assert (result.success, result.metadata["changed"]) == (True, 3)
    assert (root / "a.txt").read_text() == "one\n2\n"
    assert not (root / "b.txt").exists()
    assert os.access(root / "c.txt", os.X_OK)


async def test_a_no_drops_all_of_it(root: Path) -> None:
    before = tree(root)
    async with desk(root, "n") as at:
        result = await at.bash("cd /; echo x > $OLDPWD/a.txt; export LEFT=1")
        after = await at.bash("echo ${LEFT:-nothing}; basename $PWD")
    assert tree(root) == before
    assert result.error is not None
    assert result.error.kind == "permission_error"
    assert "not now" in result.llm_content
    assert "change a.txt" in result.llm_content
    assert after.data["stdout"] == "nothing\nproject\n"


async def test_where_nobody_can_be_asked_the_refusal_lists_what_it_would_have_changed(root: Path) -> None:
    async with desk(root) as at:
        result = await at.bash("echo said; rm a.txt")
    assert result.error is not None
    assert "- delete a.txt" in result.error.message
    assert "said" in result.llm_content
    assert result.metadata["effects"]["counts"] == {"delete": 1}
    assert (root / "a.txt").exists()


async def test_what_was_kept_can_be_undone_and_redone(root: Path) -> None:
    """P11."""
    before = tree(root)
    async with desk(root, "y") as at:
        await at.bash("mkdir -p d/e; mv a.txt d/e/; ln -s d/e/a.txt link; rm b.txt; chmod 600 .gitignore")
        after = tree(root)
        history = files_of(at.session).history
        assert after != before
        history.undo()
        assert tree(root) == before
        history.redo()
        assert tree(root) == after


async def test_caches_and_build_output_stay_aside_for_later_commands(root: Path) -> None:
    """Nothing of it is asked about, and nothing of it is in the workspace."""
    before = tree(root)
    async with desk(root) as at:
        first = await at.bash("mkdir -p build; echo object > build/a.o; echo x > run.log")
        second = await at.bash("cat build/a.o run.log")
    assert (first.success, second.data["stdout"]) == (True, "object\nx\n")
    assert tree(root) == before


async def test_plan_mode_gives_the_result_and_drops_the_changes(root: Path) -> None:
    before = tree(root)
    async with desk(root, mode="plan") as at:
        result = await at.bash("echo x > a.txt; cat a.txt")
    assert (result.success, result.data["stdout"]) == (True, "x\n")
    assert "change a.txt" in result.llm_content
    assert tree(root) == before


async def test_accepted_edits_are_kept_without_a_question_but_never_lose_what_git_does_not_hold(root: Path) -> None:
    (root / "untracked.txt").write_text("nobody else has this\n")
    async with desk(root, mode="accept-edits") as at:
        kept = await at.bash("echo x >> a.txt; rm b.txt; mkdir made; echo y > made/y")
        refused = await at.bash("rm untracked.txt")
        guarded = await at.bash("echo x > .envrc")
    assert (kept.success, kept.metadata["changed"]) == (True, 4)
    assert (refused.success, guarded.success) == (False, False)
    assert (root / "untracked.txt").exists()
    assert not (root / ".envrc").exists()


async def test_what_it_was_kept_from_is_named_and_opened_by_a_yes(root: Path) -> None:
    (root / ".env").write_text("TOKEN=secret\n")
    async with desk(root, "yn") as at:
        yes = await at.bash("cat .env")
        no = await at.bash("cat .env")
    assert [".env" in question.effects.lines()[0] for question in at.asked if question.effects] == [True, True]
    assert (yes.data["stdout"], yes.metadata["box"]) == ("TOKEN=secret\n", "work")
    assert (no.data["stdout"], no.metadata["box"]) == ("", "look")


@pytest.mark.parametrize(
    "command",
    [
        "grep -rn one .",
        "find . -type f | xargs wc -l",
        "grep -rn one . | head",
        "cd .. && grep -r one project",
        "cat *",
    ],
)
async def test_a_hidden_file_that_a_command_only_meets_is_said_and_not_asked_about(root: Path, command: str) -> None:
    """P4: a search of everything is about everything else."""
    (root / "sub").mkdir()
    for name in (".env", "sub/.env", "key.pem"):
        (root / name).write_text("one\n-----BEGIN PRIVATE KEY-----\n")
    async with desk(root, "yy") as at:
        result = await at.bash(command)
    assert at.asked == []
    assert "one" in result.data["stdout"] or "a.txt" in result.data["stdout"]
    assert "PRIVATE" not in result.llm_content
    assert "`key.pem`" in result.llm_content
    assert result.llm_content.count("hidden from the command: reading") == 1


@pytest.mark.parametrize("command", ["cat link", "cat deep/to/.env", "cp -r sub /tmp/copy", "cp -r . /tmp/copy"])
async def test_a_hidden_file_that_a_command_meets_through_a_link_or_copies_is_said(root: Path, command: str) -> None:
    (root / "sub").mkdir()
    (root / "deep").mkdir()
    (root / "sub/.env").write_text("A=1\n")
    (root / "link").symlink_to("sub/.env")
    (root / "deep/to").symlink_to("../sub")
    async with desk(root) as at:
        result = await at.bash(command)
    assert "`sub/.env` was hidden from the command" in result.llm_content or "hides `sub/.env`" in result.llm_content


@pytest.mark.parametrize("command", ["mkdir /made", "echo x > /made", "cp a.txt /made", "cd / && echo x > made"])
async def test_p4_a_place_that_no_box_lets_be_written_is_said_and_not_asked_about(root: Path, command: str) -> None:
    """Approval would run it again in vain."""
    async with desk(root, "y") as at:
        result = await at.bash(command)
    assert at.asked == []
    assert "only the workspace and `/tmp` are writable" in result.llm_content


async def test_the_words_about_hidden_files(root: Path) -> None:
    (root / ".env").write_text("A=1\n")
    async with desk(root) as at:
        result = await at.bash("grep -rc one . | sort")
    assert result.data["notes"] == snapshot(
        [
            "`.env` was hidden from the command: reading it needs approval, or a rule denies it. If the command needs it, run it again with the name in its text, in a comment for example, and the user is asked."
        ]
    )


async def test_a_deny_rule_with_a_star_holds_for_what_an_approved_command_makes(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3: what is there is locked, under every name that it has, and what is new does not stay."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # for what is taken away
    (root / "a.lock").write_text("mine")
    os.link(root / "a.lock", root / "other")
    (root / "script").write_text(  # so that no word of the command itself is about the rule
        "echo evil > a.lock; echo evil > other; rm -f a.lock; mkdir -p new/er; echo evil > new/er/c.lock; "
        "echo x > b.lock; ln -s a.txt d.lock; mv b.txt e.lock; echo fine > fine.txt; git add -A"
    )
    async with desk(root, allow=["Bash"], deny=["Edit(*.lock)"]) as at:
        result = await at.bash("sh ./script")
    assert result.metadata["box"] == "work"
    assert ((root / "a.lock").read_text(), (root / "other").read_text()) == ("mine", "mine")
    assert sorted(path.name for path in root.rglob("*.lock")) == ["a.lock"]
    assert (root / "fine.txt").exists()
    for name in ("b.lock", "d.lock", "e.lock", "new/er/c.lock"):
        assert f"The command made or changed `{name}`, which a rule says may not be written." in result.llm_content


async def test_more_denied_files_than_can_be_locked_are_put_back(root: Path) -> None:
    for number in range(260):
        (root / f"{number}.lock").write_text("mine")
    (root / "script").write_text("for file in *.lock; do echo evil > $file; done; rm -f *.lock")
    async with desk(root, allow=["Bash"], deny=["Edit(*.lock)"]) as at:
        result = await at.bash("sh ./script")
    assert result.metadata["box"] == "work"
    assert {path.read_text() for path in root.glob("*.lock")} == {"mine"}
    assert len(list(root.glob("*.lock"))) == 260


@pytest.mark.parametrize(
    ("policy", "stays"), [({}, True), ({"mode": "plan"}, False), ({"deny": ["Edit(*.log)"]}, False)], ids=str
)
async def test_what_git_ignores_is_kept_where_settings_say_so_and_never_against_the_mode_or_a_rule(
    root: Path, policy: dict[str, Any], stays: bool
) -> None:
    async with desk(root, **policy) as at:
        sandbox = replace(at.session.environment.sandbox, ignored="keep")
        at.session.environment = replace(at.session.environment, sandbox=sandbox)
        result = await at.bash("""python3 -c 'open("x.lo" + "g", "w")'""")
    assert result.success
    assert (root / "x.log").exists() == stays
    assert ("were not kept" in result.llm_content) != stays


async def test_a_question_warns_of_names_that_an_unapproved_command_changed(root: Path) -> None:
    """P4: what runs for real after a yes would obey them; what was only tried is applied as it was shown."""
    async with desk(root, "nnn") as at:
        await at.bash("ls() { evil; }; export GIT_PAGER=evil; umask 007")
        await at.bash("mkfifo queue")
        await at.bash("curl https://example.org")
        await at.bash("echo x > c.txt")
    said = "An unapproved command changed `GIT_PAGER`, `ls`, `umask` in this shell, so the command may not do what it says."
    assert [question.warning for question in at.asked] == [said, said, None]


async def test_a_deny_rule_looks_behind_the_names_of_the_shell(root: Path) -> None:
    """S3: an alias or function that came from a file is known by what it runs."""
    (root / "names").write_text("alias p='git push'\nq() { git \"$1\"; }\n")
    async with desk(root, "yy", deny=["Bash(git push *)"]) as at:
        assert (await at.bash("shopt -s expand_aliases; . ./names")).success
        results = [await at.bash(command) for command in ("p origin", "q push", "ls names")]
    assert [result.success for result in results] == [False, False, True]
    assert all("Bash(git push *)" in result.llm_content for result in results[:2])
    assert at.asked == []


@pytest.mark.parametrize(
    "command", ["cat .env | head", "cat .e*", "cat < ./.env", "python3 -c 'open(\".env\")'", "grep -r x . # .env"]
)
async def test_a_hidden_file_that_a_command_names_is_asked_about(root: Path, command: str) -> None:
    (root / ".env").write_text("A=1\n")
    async with desk(root, "n") as at:
        await at.bash(command)
    assert [question.effects.barriers[0].subject for question in at.asked if question.effects] == [str(root / ".env")]


async def test_a_pipe_cannot_be_applied_so_a_yes_runs_the_command_for_real(root: Path) -> None:
    async with desk(root, "y") as at:
        result = await at.bash("mkfifo queue; echo x > c.txt")
    assert (result.success, result.metadata["box"]) == (True, "work")
    assert (root / "queue").is_fifo()
    assert (root / "c.txt").read_text() == "x\n"


async def test_a_workspace_that_changed_meanwhile_is_never_overwritten(root: Path) -> None:
    async def somebody_edits() -> None:
        (root / "a.txt").write_text("the user's own edit\n")

    async with desk(root, "y") as at:
        at.while_asked = somebody_edits
        result = await at.bash("echo theirs > a.txt")
    assert result.error is not None
    assert "a.txt" in result.llm_content
    assert (root / "a.txt").read_text() == "the user's own edit\n"


async def test_its_time_is_up_asks_whether_to_run_it_for_real(root: Path) -> None:
    async with desk(root, "n") as at:
        result = await at.bash("sleep 30", timeout=300)
    (question,) = at.asked
    assert question.effects is not None
    assert "did not finish within 0.3 s" in question.effects.lines()[0]
    assert result.metadata["timed_out"]


async def test_an_allowed_command_runs_for_real_at_once(root: Path) -> None:
    async with desk(root, allow=["Bash(touch *)"]) as at:
        result = await at.bash("touch made")
    assert (result.success, result.metadata["box"], (root / "made").exists()) == (True, "work", True)


async def test_a_function_of_an_unapproved_command_never_stands_behind_an_allowed_one(root: Path) -> None:
    async with desk(root, allow=["Bash(touch *)"]) as at:
        await at.bash("touch() { rm -f a.txt; }")
        result = await at.bash("touch made")
    assert result.metadata["box"] == "look"
    assert (root / "a.txt").exists()


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("set -k", "ls PATH=/tmp"),
        ("shopt -s expand_aliases; alias ls='touch pwned;'", "ls"),
        ("export LD_PRELOAD=/tmp/e.so", "ls"),
        ("unset -v OLDPWD; declare -n OLDPWD='a[$(touch pwned)]'", "cd sub && ls"),
        ("declare -n OTHER=PATH", "ls"),
        ("printf '#!/bin/sh\\ntouch '$PWD/pwned > /tmp/run; chmod +x /tmp/run; cd /tmp", "./run"),
        ("printf 'all: ; touch '$PWD/pwned > /tmp/Makefile; cd /tmp", "make"),
    ],
)
async def test_nothing_an_unapproved_command_left_turns_an_allowed_one(root: Path, first: str, then: str) -> None:
    """Neither names and options of the shell nor files in its `/tmp`."""
    (root / "sub").mkdir()
    async with desk(root, allow=["Bash(ls *)", "Bash(ls)", "Bash(./run)", "Bash(make)"]) as at:
        await at.bash(first)
        await at.bash(then)
    assert not list(root.rglob("pwned"))


async def test_options_that_change_no_words_leave_allow_rules_alone(root: Path) -> None:
    async with desk(root, allow=["Bash(touch *)"]) as at:
        await at.bash("set -o pipefail; set -u; shopt -s globstar; x=1; cd .")
        result = await at.bash("touch made")
    assert result.metadata["box"] == "work"


async def test_rules_about_paths_reach_commands_in_every_box(root: Path) -> None:
    (root / "plan").write_text("never shown\n")
    policies: list[dict[str, Any]] = [{}, {"allow": ["Bash"]}, {"mode": "bypass"}]
    for policy in policies:
        async with desk(root, deny=["Read(plan)", "Edit(a.txt)"], **policy) as at:
            shown = await at.bash("python3 -c 'print(open(chr(112) + \"lan\").read())'")
            await at.bash('python3 -c \'open(chr(97) + ".txt", "w")\'')
        assert "never shown" not in shown.llm_content
        assert (root / "a.txt").read_text() == "one\ntwo\n"


async def test_accepted_edits_make_no_repository_that_git_would_obey(root: Path) -> None:
    bare = "mkdir -p bare/objects bare/refs; echo ref: refs/heads/x > bare/HEAD; echo '[core]' > bare/config"
    async with desk(root, mode="accept-edits") as at:
        results = [await at.bash(command) for command in (bare, "mkdir s; echo 'gitdir: ../bare' > s/.git")]
    assert [result.success for result in results] == [False, False]
    assert not (root / "bare").exists()
    assert not (root / "s").exists()


async def test_what_the_user_changes_meanwhile_is_never_taken_for_the_commands(root: Path) -> None:
    """A hidden file that exists is covered in the box: whoever changes it is outside."""
    (root / ".env").write_text("one\n")
    async with desk(root, allow=["Bash"]) as at:
        running = asyncio.create_task(at.bash("while [ ! -e go ]; do sleep 0.05; done"))
        await asyncio.sleep(0.5)
        (root / ".env").write_text("two, by the user\n")
        (root / "go").touch()
        await running
    assert (root / ".env").read_text() == "two, by the user\n"


async def test_dangerous_commands_ask_before_anything_runs(root: Path) -> None:
    """S2."""
    async with desk(root, "n") as at:
        result = await at.bash("echo started; rm -rf /")
    (question,) = at.asked
    assert question.effects is None
    assert "started" not in result.llm_content


async def test_nothing_runs_on_after_its_call(root: Path) -> None:
    async with desk(root) as at:
        result = await at.bash("(sleep 0.3; echo x > late) & setsid sleep 60 & echo done")
        await asyncio.sleep(0.6)
    assert result.data["stdout"] == "done\n"
    assert "run_in_background" in result.llm_content
    assert not (root / "late").exists()


async def test_a_record_says_which_box_and_what_it_would_have_changed(root: Path) -> None:
    """O3."""
    seen: list[Any] = []

    class Keeps:
        def record(self, record: Any) -> None:
            seen.append(record)

    session = Session(workspace=root)
    runtime = Runtime(builtin_tools(), session=session, policy=RulePolicy(), recorders=[Keeps()])
    await runtime.run("Bash", {"command": "ls"})
    await runtime.run("Bash", {"command": "rm a.txt"})
    await session.close()
    assert [(one.box, one.effects and one.effects["counts"], one.verdict, one.outcome) for one in seen] == [
        ("look", None, "allow", "success"),
        ("look", {"delete": 1}, "ask", "permission_error"),
    ]
    assert [was_refused(one) for one in seen] == [False, True], "it is counted as refused, not as failed"


# A workspace that is a part of something larger


async def test_git_knows_its_repository_in_a_part_of_it(root: Path) -> None:
    """S1: its git directory can be read, and nothing else of it."""
    part = root / "part"
    part.mkdir()
    (root / ".env").write_text("TOKEN=secret\n")
    async with desk(part, "n", allow=["Bash(touch *)"]) as at:
        seen = await at.bash("git log --format=%s; git show HEAD:a.txt; ls -A ..; cat ../a.txt ../.e[n]v")
        await at.bash("touch made ../made .git/made ../.git/made")
    assert seen.data["stdout"] == "x\none\ntwo\n.git\npart\n"
    assert not (root / ".git/made").exists()
    assert ((part / "made").exists(), (root / "made").exists()) == (True, False)
    async with desk(part, allow=["Bash(git *)"]) as at:
        assert (await at.bash("git log --format=%s")).data["stdout"] == "x\n"  # in a work box too


async def test_git_knows_the_repository_of_a_worktree(root: Path, tmp_path: Path) -> None:
    tree_of = tmp_path / "tree"
    subprocess.run(("git", "worktree", "add", "-q", tree_of), cwd=root, check=True)
    async with desk(tree_of) as at:
        seen = await at.bash("git log --format=%s; git status --short; ls ../project/a.txt 2>&1 | tail -c 26")
    assert seen.data["stdout"] == "x\nNo such file or directory\n"


async def test_git_knows_the_repository_of_a_submodule(root: Path, tmp_path: Path) -> None:
    """S1: its own git directory, and nothing else of the repository that it is a part of."""
    above = tmp_path / "above"
    for words in (
        ("init", "-q", above),
        ("-c", "protocol.file.allow=always", "-C", above, "submodule", "add", root, "m"),
    ):
        subprocess.run(("git", *words), check=True, capture_output=True)
    (above / ".git/key").write_text("secret\n")
    async with desk(above / "m", allow=["Bash(git *)"]) as at:
        seen = await at.bash("git log --format=%s; git status --short; ls -A .. ../.git; cat ../.git/key")
        worked = await at.bash("git log --format=%s")
    assert (seen.data["stdout"], worked.data["stdout"]) == ("x\n..:\n.git\nm\n\n../.git:\nmodules\n", "x\n")


async def test_a_file_called_git_shows_no_folder_that_does_not_know_it(root: Path, tmp_path: Path) -> None:
    other, keys = tmp_path / "other", tmp_path / "keys"
    for folder in (other, keys / "objects", keys / "refs", keys / "worktrees/x"):
        folder.mkdir(parents=True)
    (keys / "HEAD").write_text("ref: refs/heads/x\n")
    (keys / "key").write_text("secret\n")
    (keys / "worktrees/x/commondir").write_text("../..\n")
    (other / ".git").write_text(f"gitdir: {keys}/worktrees/x\n")
    async with desk(other) as at:
        assert "secret" not in (await at.bash(f"cat {keys}/key; git status")).llm_content
        (keys / "worktrees/x/gitdir").write_text(f"{root}/.git\n")
        assert "secret" not in (await at.bash(f"cat {keys}/key; git status")).llm_content
        (other / ".git").write_text(f"gitdir: {keys}\n")
        (keys / "config").write_text(f"[core]\n\tworktree = {root}\n")
        assert "secret" not in (await at.bash(f"cat {keys}/key; git status")).llm_content


@pytest.mark.parametrize("command", ["sudo ls", "rm -rf a.txt", "dd if=a.txt of=c", "mkfs.ext4 c", "chmod 777 a.txt"])
async def test_s2_a_question_about_a_dangerous_command_warns(root: Path, command: str) -> None:
    async with desk(root, "n") as at:
        await at.bash(command)
    assert [one.warning for one in at.asked] == ["This command is dangerous."]


async def test_s2_it_warns_whatever_else_it_asks_about(root: Path) -> None:
    """S2: also where a rule asks, where dangers need not, and where the program chose no policy."""
    why = "Dangerous: it removes folders and everything in them, without asking."
    async with desk(root, "n", dangerous="allow", ask=["Bash(rm *)"]) as at:
        await at.bash("rm -rf a.txt")
    assert [(one.warning, one.effects) for one in at.asked] == [(why, None)]
    async with desk(root, "nn", dangerous="allow") as at:
        await at.bash("rm -rf a.txt")
        await at.bash("rm a.txt")
    assert [one.warning for one in at.asked] == [why, None]
    at = Desk(root, "nn")
    runtime = Runtime(builtin_tools(), session=at.session, ask=at._ask)  # pyright: ignore[reportPrivateUsage]
    await runtime.run("Bash", {"command": "rm -rf a.txt"})
    await runtime.run("Bash", {"command": "rm a.txt"})
    await at.session.close()
    assert [one.warning for one in at.asked] == [why, None]


GUARDED = {
    ".envrc": "echo new > .envrc",
    "sub/.envrc": "mkdir -p sub; cd sub; echo new > .envrc",
    ".git/hooks/x": "mkdir -p .git/hooks; printf 'new\\n' | tee .git/hooks/x",
    ".vscode/settings.json": "mkdir -p .vscode && echo new > .vscode/settings.json",
    ".mcp.json": "sed -i s/one/new/ a.txt; cp a.txt .mcp.json",
    ".husky/pre-commit": "mkdir .husky; sh -c 'echo new > .husky/pre-commit'",
    "alias": "git config alias.x new",
}


@pytest.mark.parametrize("mode", ["default", "accept-edits", "bypass"])
@pytest.mark.parametrize("place", GUARDED)
@pytest.mark.slow
async def test_p4_what_is_guarded_is_changed_once_that_is_approved(root: Path, place: str, mode: str) -> None:
    """P4, S2: the question is about the very change, and a yes makes it; a no leaves it."""
    file = root / (".git/config" if place == "alias" else place)
    before = tree(root)
    async with desk(root, "nn", mode=mode) as at:
        await at.bash(GUARDED[place])
    assert tree(root) == before
    async with desk(root, "yy", mode=mode) as at:
        result = await at.bash(GUARDED[place])
    assert result.success
    assert "new" in file.read_text()
    asked = at.asked[-1]
    assert asked.effects is not None
    assert str(file) in [one.path for one in asked.effects.files]


async def test_p4_a_question_says_beforehand_what_a_yes_cannot_change(root: Path) -> None:
    """P4: a pipe cannot be kept, so a yes runs the command for real, where guarded places stay as they are."""
    (root / ".envrc").write_text("old")
    async with desk(root, "yy") as at:
        await at.bash("mkfifo p; echo x > .envrc")
        assert at.asked[-1].effects is not None
        assert any("does not change what is guarded: `.envrc`" in line for line in at.asked[-1].effects.lines())
    assert (root / ".envrc").read_text() == "old"
    async with desk(root, "n") as at:
        await at.bash("echo x > .envrc", run_in_background=True)
    assert "What is guarded stays as it is, even once this is approved" in (at.asked[0].warning or "")


async def test_p4_what_no_approval_can_keep_asks_nobody(root: Path) -> None:
    os.link(root / "a.txt", root / "other")
    async with desk(root, "y") as at:
        result = await at.bash("echo more >> a.txt")
    assert (at.asked, result.success) == ([], False)
    assert "hard links" in result.llm_content


async def test_p4_what_git_ignores_is_named_where_it_is_kept_too(root: Path) -> None:
    async with desk(root, "y") as at:
        at.session.environment = replace(
            at.session.environment, sandbox=replace(at.session.environment.sandbox, ignored="keep")
        )
        await at.bash("echo > new; mkdir build; echo > build/out")
    assert at.asked[0].effects is not None
    assert {one.shown for one in at.asked[0].effects.files} >= {"new", "build/out"}
    assert (root / "build/out").exists()
