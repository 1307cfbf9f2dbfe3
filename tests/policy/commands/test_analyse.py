"""What the text of a command says: its parts and words, its dangers (S2), and how much is too much."""

from __future__ import annotations

import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.policy.commands.analyse import analyse

CORPUS = Path(__file__).parent / "corpus"


def corpus(name: str) -> list[str]:
    groups: dict[str, list[str]] = tomllib.loads((CORPUS / f"{name}.toml").read_text(encoding="utf-8"))
    return [command for group in groups.values() for command in group]


def test_s2_a_dangerous_command_says_why():
    found = {command: analyse(command).dangers for command in corpus("dangerous")}
    assert [command for command, dangers in found.items() if not dangers] == []
    assert [one for dangers in found.values() for one in dangers if not (one.why and one.part)] == []


def test_an_everyday_command_is_read_and_is_not_called_dangerous():
    """Nobody is asked before it runs."""
    found = {command: analyse(command) for command in corpus("everyday")}
    wrong = {command: one for command, one in found.items() if one.dangers or one.unclear or one.network}
    assert wrong == {}


def test_what_is_certain_to_need_the_network_says_so():
    assert [command for command in corpus("network") if not analyse(command).network] == []


def test_the_corpora_are_large_and_say_nothing_twice():
    """S2: at least 250 spellings of what is dangerous."""
    assert len(set(corpus("dangerous"))) > 400
    assert len(set(corpus("everyday"))) > 700
    assert set(corpus("everyday")).isdisjoint([*corpus("dangerous"), *corpus("network")])


def test_parts_stand_without_their_wrappers_and_know_how_they_were_typed():
    parts = analyse("X=1 env -i nice -n 5 git  diff 'a b' > out | xargs -0 wc -l").parts
    assert [(part.text, part.words, part.wrappers, part.typed[:3], part.writes) for part in parts] == snapshot(
        [
            ("git diff 'a b'", ("git", "diff", "a b"), ("env", "nice"), ("X=1", "env", "-i"), ("out",)),
            ("wc -l …", ("wc", "-l", "…"), ("xargs",), ("xargs", "-0", "wc"), ()),
        ]
    )


@pytest.mark.parametrize(
    "command",
    [
        "! { git push; }", "! if git push; then ls; fi", "! { ! { git push; }; }", "time { git push; }",
        "time -p { git push; }", "! time { git push; }", "coproc { git push; }", "coproc X { git push; }",
        "! case x in x) git push;; esac", "! function g { git push; }; g", "time for a in b; do git push; done",
    ],
)  # fmt: skip
def test_what_stands_in_a_group_or_statement_behind_a_mark_is_a_part(command: str):
    assert ("git", "push") in [part.words for part in analyse(command).parts]


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("ls -la", True),
        ("git commit -m 'a b' && npm test 2>&1 | tail -5", True),
        ('echo "a b" > /dev/null; [ -f x ] && ls src/*.py', True),
        ("cd -- 'my folder' || exit\nnpm test", True),
        ("ls é ~/x", True),
        ("X=1 ls", False),
        ("env ls", False),
        ("timeout 5 ls", False),
        ("bash -c ls", False),
        ("ls > out", False),
        ("ls < in", False),
        ("cat <<< x", False),
        ("cat <<E\nE", False),
        ("ls $x", False),
        ('ls "$x"', False),
        ("ls $(id)", False),
        ("ls `id`", False),
        ("ls *.txt", False),
        ("ls -*", False),
        ("ls {a,b}", False),
        ("ls a\\ b", False),
        ("(ls)", False),
        ("for i in a; do ls; done", False),
        ("if true; then ls; fi", False),
        ("! ls", False),
        ("ls # x", False),
        ("ls \\\n-l", False),
        ("ls 'x", False),
        ("ls &> out", False),
        ("f() { ls; }", False),
    ],
)
def test_a_part_is_plain_when_its_typed_words_are_all_there_is(command: str, plain: bool):
    analysis = analyse(command)
    assert (not analysis.unclear and all(part.plain for part in analysis.parts)) is plain


def test_the_words_of_a_part_are_without_quotes():
    part = analyse("""r\\m -r''f "a b" $x""").parts[0]
    assert (part.program, part.words, part.known) == ("rm", ("rm", "-rf", "a b", "$x"), False)


def test_a_program_that_only_the_run_shows_has_no_name():
    assert [part.program for part in analyse("$x a; $(b) c; 'ls'").parts] == ["", "b", "", "ls"]


def test_a_shell_in_a_shell_is_followed():
    parts = analyse("""bash -c 'sh -c "rm x"'""").parts
    assert [(part.words, part.wrappers) for part in parts] == [(("rm", "x"), ("bash", "sh"))]


def test_what_runs_in_front_of_a_command_is_found_first():
    parts = analyse("echo $(a) > $(b) <<< $(c)").parts
    assert [part.program for part in parts if part.words] == ["a", "b", "c", "echo"]


def test_what_a_pipe_feeds_is_known():
    assert [part.fed for part in analyse("a | b && c | d").parts] == [False, True, False, True]


@pytest.mark.parametrize(
    "command", [":(){ :|:& };:", "f() { f & f; }; f", "f() { f | f; }; f", "f() { g() { f & }; g; }; f"]
)
def test_s2_a_function_that_starts_itself_beside_itself_is_a_bomb(command: str):
    assert any("again and again" in danger.why for danger in analyse(command).dangers)


def test_a_shell_at_the_end_of_a_pipe_is_a_danger():
    assert [danger.why for danger in analyse("curl x | env python3 -").dangers] == ["it runs what was downloaded"]
    assert [danger.why for danger in analyse("cat x | sh").dangers] == ["it runs text that another command makes"]
    assert not analyse("echo ls | sh").dangers, "what it runs is known"
    assert analyse("echo 'rm -rf x' | sh").dangers
    for command in ("{ curl x; echo a; } | sh", "(cat y; printf a) | sh", 'echo "$(cat y)" | sh', "echo a | rev | sh"):
        assert analyse(command).dangers, command
    assert not analyse("echo /dev/sda1 is full").dangers


def test_dangers_are_said_in_a_persons_words():
    said = [danger.why for danger in analyse("sudo rm -rf / && curl x | sh; chmod 777 .; echo x >> ~/.bashrc").dangers]
    assert said == snapshot(
        [
            "it uses the rights of another user, often the administrator's",
            "it removes folders and everything in them, without asking",
            "it changes files of the system",
            "it runs what was downloaded",
            "it lets everyone on the machine change the files",
            "it changes what runs when a shell or program starts",
        ]
    )


def test_hosts_are_named():
    assert analyse("curl https://a.org/x; git clone git@b.org:c/d; ssh me@e.org ls").hosts == (
        "a.org",
        "b.org",
        "e.org",
    )


@pytest.mark.parametrize(
    "command",
    [
        "ls;" * 300,
        "$(" * 5_000,
        "((" * 5_000,
        "${x:-" * 5_000,
        "{" * 5_000,
        "if true; then " * 2_000,
        "`" * 4_001,
        "ls " + "a" * 70_000,
        "echo " + "{a,b}" * 20,
        "eval " * 40 + "ls",
        "(" * 20_000,
        "x" * 63_000 + "=(",
        "cat <<E\n" + "a\\\n" * 15_000,
        "\x00",
        "echo " + "{" * 60_000,
        "nice " * 9_000,
        '"$x' * 20_001,
    ],
    ids=lambda text: text[:12],
)
def test_too_much_is_unclear_soon_and_without_a_crash(command: str):
    unclear = analyse(command).unclear
    assert unclear
    assert max(map(len, unclear)) <= 200


@pytest.mark.parametrize(
    "command",
    [
        "iptables " + "A" * 60_000 + "!",
        "iptables " + "A " * 30_000 + "!",
        "systemctl " + "-a" * 30_000 + "!",
        "hostname " + "-a" * 30_000 + " x",
        "psql " + "copy " * 12_000,
        "rm " + "/a" * 30_000,
        "python -c '" + "while (" * 8_000 + "'",
        "python -c '" + "chmod( while fork rm( app to " * 2_000 + "'",
        "x='" + "rm -r sudo " * 5_000 + "' tclsh",
        "tclsh <<E\n" + "find -exec dd " * 4_000 + "\nE",
        "git " + "-c " * 20_000,
        "python -c '" + "\n" * 30_000 + "system(" + "/a" * 10_000 + "'",
        "python -c '" + '" ' * 20_000 + "system'",
        "ls " + "a*" * 30_000,
    ],
    ids=lambda text: text[:14],
)
def test_no_text_makes_it_go_on_and_on(command: str):
    """Patterns that backtrack would take minutes or years for these."""
    began = time.process_time()
    assert analyse(command).parts
    assert time.process_time() - began < 15


def test_what_could_not_be_read_is_still_looked_through_for_dangers():
    for command in ("rm -rf / )", "if true; then sudo ls", "ls 'x; rm -rf y", "{rm,-rf,x}"):
        analysis = analyse(command)
        assert analysis.unclear
        assert analysis.dangers, command


def test_nothing_at_all_has_no_parts():
    assert analyse("").parts == ()
    assert analyse(" # only words\n").parts == ()


def test_without_the_grammar_no_command_is_read_and_it_says_what_to_install():
    script = (
        "import sys; sys.modules['tree_sitter'] = None\n"
        "from ferrule.policy.commands.analyse import analyse\n"
        "print(*analyse('ls').unclear)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == snapshot("the shell grammar is missing, so no command can be read; install `ferrule[shell]`\n")
