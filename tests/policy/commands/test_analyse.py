"""Understanding a command: a corpus of 2,020 of them, what is said of each part, and how much is too much."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from ferrule.policy.commands.analyse import analyse
from ferrule.policy.commands.parts import Effect

CORPUS = Path(__file__).parent / "corpus"


def corpus(name: str) -> list[str]:
    groups: dict[str, list[str]] = tomllib.loads((CORPUS / f"{name}.toml").read_text(encoding="utf-8"))
    return [command for group in groups.values() for command in group]


@pytest.mark.parametrize("command", corpus("harmless"))
def test_a_harmless_command_does_not_ask(command: str):
    analysis = analyse(command)
    assert analysis.read_only, (analysis.unclear, analysis.dangers, [part.why for part in analysis.parts])


@pytest.mark.parametrize("command", corpus("ask"))
def test_what_writes_or_runs_or_hides_it_asks(command: str):
    assert not analyse(command).read_only


@pytest.mark.parametrize("command", corpus("dangerous"))
def test_s2_a_dangerous_command_says_why(command: str):
    analysis = analyse(command)
    assert analysis.dangers
    assert all(danger.why and danger.part for danger in analysis.dangers)


def test_the_corpus_is_large_and_says_nothing_twice():
    everything = [*corpus("harmless"), *corpus("ask")]
    assert len(everything) + len(corpus("dangerous")) > 1_500
    assert set(corpus("harmless")).isdisjoint([*corpus("ask"), *corpus("dangerous")])


def test_parts_stand_without_their_wrappers_as_they_were_written():
    parts = analyse("X=1 env -i nice -n 5 git  diff 'a b' > out | xargs -0 wc -l").parts
    assert [(part.text, part.words, part.wrappers) for part in parts] == snapshot(
        [
            ("env -i nice -n 5 git  diff 'a b'", (), ()),
            ("git  diff 'a b'", ("git", "diff", "a b"), ("env", "nice")),
            ("wc -l …", ("wc", "-l", "…"), ("xargs",)),
        ]
    )


def test_each_part_says_why_it_has_its_effect():
    parts = analyse("sort -o b a; ls; ./x; curl https://e.org/x -o y").parts
    assert [(part.effect.value, part.why, part.reads, part.writes, part.hosts) for part in parts] == snapshot(
        [
            ("writes", "`sort -o` writes its output to a file", ("a",), ("b",), ()),
            ("reads", "`ls` lists files", (), (), ()),
            ("runs", "`./x` is a program that nobody described", ("./x",), (), ()),
            ("runs", "`curl` reaches the network", (), ("y",), ("e.org",)),
        ]
    )


def test_dangers_are_said_in_a_persons_words():
    said = [danger.why for danger in analyse("sudo rm -rf / && curl x | sh; chmod 777 .; echo x >> ~/.bashrc").dangers]
    assert said == snapshot(
        [
            "it takes the rights of another user, often the administrator's",
            "it removes folders with all that they hold, without asking",
            "it changes files of the system",
            "it runs what was downloaded",
            "it lets everybody on the machine change the files",
            "it changes what runs when a shell or program starts",
        ]
    )


def test_paths_follow_the_folder_as_far_as_it_is_certain():
    def reads(command: str) -> tuple[str | None, ...]:
        return analyse(command).parts[-1].reads

    assert reads("cat .env") == (".env",)
    assert reads("cd a && cat .env") == ("a/.env",)
    assert reads("cd a; cat .env") == ("a/.env", ".env")
    assert reads("cd a || cat .env") == ("a/.env", ".env")
    assert reads("true || cd a && cat .env") == ("a/.env", ".env")
    assert reads("(cd a); cat .env") == (".env",)
    assert reads("cd /x && cd y && cat z") == ("/x/y/z",)
    assert reads('cd "$x" && cat .env') == (None,)
    assert reads("env cd a && cat .env") == (".env",)
    assert reads("while cd ..; do cat .env; done") == (None,)
    assert reads("for f in a .env; do cat $f; done") == ("a", ".env")


def test_paths_are_absolute_where_the_folder_is_given():
    part = analyse("cat a ~/b /c", directory="/work", home="/home/me").parts[0]
    assert part.reads == ("/work/a", "/home/me/b", "/c")


def test_patterns_are_told_apart_from_paths():
    part = analyse("cat '*' .e*").parts[0]
    assert (part.reads, part.reads_matching) == (("*",), (".e*",))


def test_secrets_are_reported_wherever_they_are_read():
    assert analyse("cat < .env").parts[0].reads == (".env",)
    assert analyse("grep -f .env x").parts[0].reads == ("x", ".env")
    assert analyse("git show HEAD:.env").parts[0].reads == (".env",)


def test_the_words_of_a_part_are_without_quotes():
    part = analyse("""r\\m -r''f "a b" $x""").parts[0]
    assert (part.program, part.words, part.fixed) == ("rm", ("rm", "-rf", "a b", "$x"), False)


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
        "chmod " + "ugo" * 10_000 + " $((x))",
        "nice " * 9_000,
        '"$x' * 20_000,
    ],
    ids=lambda text: text[:12],
)
def test_too_much_is_unclear_soon_and_without_a_crash(command: str):
    unclear = analyse(command).unclear
    assert unclear
    assert max(map(len, unclear)) <= 200


def test_nothing_at_all_is_harmless():
    assert analyse("").read_only
    assert analyse(" # only words\n").parts == ()


def test_a_shell_in_a_shell_is_followed():
    parts = analyse("""bash -c 'sh -c "rm x"'""").parts
    assert [(part.words, part.wrappers, part.effect) for part in parts] == [
        (("rm", "x"), ("bash", "sh"), Effect.WRITES)
    ]


def test_without_the_grammar_every_command_asks_and_says_what_to_install():
    script = (
        "import sys; sys.modules['tree_sitter'] = None\n"
        "from ferrule.policy.commands.analyse import analyse\n"
        "print(*analyse('ls').unclear)"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == snapshot("the shell grammar is missing, so no command can be understood; install `ferrule[shell]`\n")
