"""Simple commands: assignments, words, redirections, here-documents."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.reader import read
from ferrule.policy.commands.syntax import Simple, Unreadable


def simple(text: str) -> Simple:
    command = read(text)[0].script.chains[0].links[0][1].commands[0]
    assert isinstance(command, Simple)
    return command


def test_assignments_come_before_the_words():
    command = simple("a=1 b+=2 c[0]=3 d=(1 2) ls e=4")
    assert [(one.name, one.whole) for one in command.assignments] == [
        ("a", True),
        ("b", False),
        ("c", False),
        ("d", False),
    ]
    assert [word.text for word in command.words] == ["ls", "e=4"]


def test_redirections_may_stand_anywhere():
    command = simple("2>a ls <b -l >>c 2>&1 &>d {fd}>e")
    assert [(one.operator, one.target.text) for one in command.redirects] == [
        (">", "a"),
        ("<", "b"),
        (">>", "c"),
        (">&", "1"),
        ("&>", "d"),
        (">", "e"),
    ]
    assert [word.text for word in command.words] == ["ls", "-l"]


def test_a_number_is_part_of_a_redirection_only_when_it_touches_it():
    assert [word.text for word in simple("echo 2 >a").words] == ["echo", "2"]
    assert [word.text for word in simple("echo a2>b").words] == ["echo", "a2"]


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("cat <<E\na\nb\nE", "a\nb\n"),
        ("cat <<-E\n\ta\n\tE", "a\n"),
        ("cat <<'E'\n$(x)\nE", "$(x)\n"),
        ("cat <<\\E\n`x`\nE", "`x`\n"),
        ("cat <<E\nfoo\\\nE\nrm x\nE", "fooE\nrm x\n"),
        ("cat <<E\n$x\nE", None),
    ],
)
def test_a_here_document_ends_where_bash_ends_it(text: str, body: str | None):
    assert simple(text).redirects[0].body == body


def test_two_here_documents_follow_each_other():
    assert [one.body for one in simple("cat <<A <<B\n1\nA\n2\nB").redirects] == ["1\n", "2\n"]


def test_what_a_here_document_runs_belongs_to_it():
    assert len(simple("cat <<E\n$(a) `b`\nE").redirects[0].inner) == 2


@pytest.mark.parametrize(
    "text", ["cat <<E\na", 'cat <<"$x"\na', "a=(1", "ls >", "a=(b)c ls", "x[a'b']=1", "$(cat <<E)\nE"]
)
def test_what_does_not_end_is_not_read(text: str):
    with pytest.raises(Unreadable):
        read(text)
