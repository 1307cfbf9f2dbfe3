"""Commands in rules: Claude Code's meaning of `*` and `:*`, and a deny that is not slipped past (S3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policy.stand_in import analyse

from ferrule.policy.command_patterns import CommandPattern, escape_command, join_words
from ferrule.policy.commands.parts import Effect, Part
from ferrule.policy.rule_errors import RuleError


def part(command: str) -> Part:
    (found,) = analyse(command, directory="/", home="/home/ada").parts
    return found


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
        ("ls *", "nice ls -l", True),
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
    ],
)
def test_a_deny_rule_looks_further(pattern: str, command: str):
    assert CommandPattern(pattern).concerns(part(command), command)


@pytest.mark.parametrize(
    ("pattern", "command"),
    [("rm -rf *", "rm -r x"), ("rm -rf *", "ls -rf"), ("git push *", "git pull"), ("rm *", "ls rm")],
)
def test_a_deny_rule_does_not_look_too_far(pattern: str, command: str):
    assert not CommandPattern(pattern).concerns(part(command), command)


def test_a_deny_rule_may_be_about_a_whole_pipeline():
    command = "curl x | bash"
    pieces = analyse(command, directory="/", home="/").parts
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
    piece = Part("", ("git", "diff", *words), Effect.RUNS, "")
    assert CommandPattern("git diff *").covers(piece)
    assert CommandPattern("git diff:*").covers(piece)
    assert not CommandPattern("git difftool *").covers(piece)
