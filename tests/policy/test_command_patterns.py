"""Commands in rules: Claude Code's meaning of `*` and `:*`, and a deny that is not slipped past (S3)."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.policy.commands.analyse import analyse
from ferrule.policy.commands.parts import Part
from ferrule.policy.patterns import CommandPattern, RuleError, escape_command, join_words


def part(command: str) -> Part:
    return analyse(command).parts[-1]


@pytest.mark.parametrize(
    ("pattern", "command", "fits"),
    [
        ("npm run test:*", "npm run test", True),
        ("npm run test:*", "npm run test -- --watch", True),
        ("npm run test:*", "npm run test:unit", False),
        ("npm run test:*", "npm run build", False),
        ("ls *", "ls", True),
        ("ls *", "ls -la", True),
        ("ls *", "lsof", False),
        ("ls*", "lsof", True),
        ("npm run build", "npm run build", True),
        ("npm run build", "npm run build --force", False),
        ("git * main", "git push origin main", True),
        ("* --version", "node --version", True),
        ("git:* push", "git x push", False),
        ("*", "anything at all", True),
        (r"echo \*", "echo '*'", True),
        (r"echo \*", "echo a", False),
        ('git commit -m "fix it" *', "git commit -m 'fix it' --amend", True),
        ("ls *", "./ls", False),
        ("ls *", "/tmp/ls -l", False),
        ("npm run test *", '"npm run test" x', False),
        ("git diff *", "git 'diff x'", False),
        ("ls *", "ssh host ls -l", False),
        ("ls *", "sudo ls", False),
        ("ls *", "nice ls -l", False),
        ("nice *", "nice ls -l", True),
        ("timeout * npm test", "timeout 60 npm test", True),
        ("uv run *", "uv run pytest -q", True),
        ("X=1 ls *", "X=1 ls -l", True),
        ("ls *", "X=1 ls -l", False),
        ("env *", "env 'LD_PRELOAD=./e.so' ls", True),
        ("ls *", "env 'LD_PRELOAD=./e.so' ls", False),
        ("* --version", "LD_PRELOAD=./e.so node --version", False),
        ("* --version", "env node --version", False),
        ("find *", "find . -exec rm {} +", False),
        ("xargs *", "xargs rm", False),
        ("ls *", "ls > out", False),
        ("ls *", "ls $x", False),
        ("ls *", "ls *.txt", False),
        ("ls *", "ls src/*.txt", True),
        ("ls *", "ls 2>&1", True),
        ("cat *", "cat <<E\nE", False),
    ],
)
def test_what_an_allow_rule_covers(pattern: str, command: str, fits: bool):
    assert CommandPattern(pattern).covers(part(command)) is fits


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("rm *", "rm x"),
        ("rm *", "/bin/rm x"),
        ("rm *", "nohup nice rm x"),
        ("sudo *", "sudo ls"),
        ("ssh *", "ssh host ls"),
        ("env *", "env nice ls"),
        ("rm -rf *", "rm -fr x"),
        ("rm -rf *", "rm -r -f x"),
        ("rm -rf *", "rm x --recursive --force"),
        ("rm -rf *", "rm -rfv x"),
        ("rm -rf *", "/usr/bin/rm -R -f x"),
        ("git push *", "git push"),
        ("git push *", "git -C . push"),
        ("git push *", "git --git-dir=x -c a=b push origin"),
        ("git push *", "git --git-dir x push"),
        ("git push *", "/usr/bin/git push"),
        ("git push *", "\\git push"),
        ("git push *", '"git" push'),
        ("git push *", "command git push"),
        ("git push *", "env X=1 git push"),
        ("git push *", "timeout 5 git push"),
        ("git push *", "sh -c 'git push'"),
        ("git push *", "xargs git push"),
        ("git push *", "X=1 git push"),
        ("docker rm *", "docker --context x rm y"),
        ("docker compose down *", "docker compose -f x down"),
        ("kubectl delete *", "kubectl -n prod delete pod x"),
        ("npm run build", "npm --prefix web run build"),
        ("npm run build", "npm run -s build"),
        ("git push *", "git $x"),
        ("git push *", "git p$x"),
        ("git push *", "$x push"),
        ("git push *", "$(x) y"),
        ("rm -rf *", "rm $x y"),
        ("rm secret*", "rm *"),
        ("rm *", "xargs $x"),
    ],
)
def test_a_deny_rule_looks_further(pattern: str, command: str):
    assert CommandPattern(pattern).concerns(part(command), command)


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        ("rm -rf *", "rm -r x"),
        ("rm -rf *", "ls -rf"),
        ("git push *", "git pull"),
        ("rm *", "ls rm"),
        ("git push *", 'git commit -m "$message"'),
        ("git push *", "git commit -m push"),
        ("git push", "git push origin"),
        ("npm run build", "npm run build --force"),
        ("rm secret*", "rm public*"),
        ("rm *", "echo $x"),
        ("git push *", "gitk push"),
    ],
)
def test_a_deny_rule_does_not_look_too_far(pattern: str, command: str):
    assert not CommandPattern(pattern).concerns(part(command), command)


def test_s3_no_spelling_slips_past_a_deny_rule_and_no_mention_is_refused():
    corpus = tomllib.loads(Path(__file__).with_name("commands").joinpath("corpus/git_push.toml").read_text())
    denied = CommandPattern("git push *")

    def refused(command: str) -> bool:
        found = analyse(command)
        return bool(found.unclear) or any(denied.concerns(one, command) for one in found.parts)

    assert len(corpus["pushes"]) > 80
    assert [command for command in corpus["pushes"] if not refused(command)] == []
    assert [command for command in corpus["speaks_of_it"] if refused(command)] == []


def test_a_deny_rule_may_be_about_a_whole_pipeline():
    command = "curl x | bash"
    pieces = analyse(command).parts
    assert any(CommandPattern("curl * | bash").concerns(piece, command) for piece in pieces)


@pytest.mark.parametrize(
    ("text", "spans"), [("a && b *", True), ("a > *", True), ("a '|' *", False), ("a && b", False)]
)
def test_a_pattern_that_no_single_part_can_fit_knows_it(text: str, spans: bool):
    assert CommandPattern(text).spans_parts is spans


@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_pattern_is_an_error(text: str):
    with pytest.raises(RuleError):
        CommandPattern(text)


@given(st.text(min_size=1).filter(str.strip))
def test_an_escaped_command_means_just_itself(command: str):
    pattern = CommandPattern(escape_command(command))
    assert pattern.is_whole(command)
    assert not pattern.is_whole(command.strip() + " more")


@given(st.lists(st.text(min_size=1, alphabet="ab *'\"\\$;"), min_size=1, max_size=4))
def test_two_lists_of_words_never_join_to_the_same_text(words: list[str]):
    import shlex

    assert shlex.split(join_words(words)) == words or "\\" in "".join(words)


@given(st.lists(st.sampled_from(["git", "diff", "a b", "-x", "'", "$X", "*"]), min_size=1, max_size=5))
def test_a_prefix_rule_covers_whatever_follows(words: list[str]):
    piece = Part("", ("git", "diff", *words), ("git", "diff", *words))
    assert CommandPattern("git diff *").covers(piece)
    assert CommandPattern("git diff:*").covers(piece)
    assert not CommandPattern("git difftool *").covers(piece)


@given(
    st.lists(
        st.sampled_from(["git", "push", "-C", ".", "--force", "a", "x=1", "'b c'", "$X", "*"]), min_size=1, max_size=6
    ),
    st.integers(0, 5),
)
def test_what_a_rule_is_about_it_is_about_still_when_a_word_is_not_known(words: list[str], hidden: int):
    """The law of deny rules: not knowing a word never lets a command slip past."""
    known = [*words]
    unknown = [*words]
    unknown[hidden % len(words)] = "$Y"
    pattern = CommandPattern("git push *")
    # A program that nobody knows, and that is given `git push`, may start it; one that is given `$Y push` need not.
    program = next((word for word in words if word != "x=1"), "x=1")
    behind_another = program not in ("git", "x=1", "$X", "*")
    if pattern.concerns(part(" ".join(known)), "") and not behind_another:
        assert pattern.concerns(part(" ".join(unknown)), "")
