"""The law of this folder: whatever bash really starts is among the parts, or the command says that it is not known."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.policy.commands.commands_to_try import commands
from tests.policy.commands.real_bash import RealBash

from ferrule.policy.commands.analyse import analyse

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
PIECES = [
    *(
        "rm",
        "ls",
        "cat",
        "foo",
        "rm x",
        "ls -l",
        "id",
        " ",
        " ",
        " ",
        "'",
        '"',
        "\\",
        "$(",
        ")",
        "`",
        "{ ",
        "; }",
        "}",
        "{",
    ),
    *(
        "#",
        " # ",
        "\n",
        ";",
        "&&",
        "&",
        "|",
        "||",
        "|&",
        ">|",
        "&>",
        "<<E\n",
        "\nE\n",
        "<<'E'\n",
        "<<-E\n",
        "(",
        "((",
        "))",
    ),
    *(
        "[[ ",
        " ]]",
        "[ ",
        " ]",
        "${x:-",
        "${x",
        "$((",
        "$'",
        "\\n",
        "\\'",
        "x=",
        "x=ls;",
        "$x",
        "echo ",
        "echo a",
        "; done",
    ),
    *(
        "for x in a; do ",
        "if ls; then ",
        "; fi",
        "else ",
        "case x in x) ",
        ";; esac",
        "f() { ",
        "f",
        "eval ",
        "bash -c ",
    ),
    *(
        "env ",
        "<(",
        ">(",
        "> out",
        "< a.txt",
        "2>&1",
        "<<<",
        "!",
        " ! ",
        "time ",
        "function g { ",
        "a=(",
        "*",
        "?",
        "[a]",
    ),
    *("~", ",", "..", "\t", "\\\n", "==", "=~", "-v", "x", "1", "export ", "$", "@", "P}"),
]


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> RealBash:
    return RealBash(tmp_path_factory.mktemp("bash"))


def holds(bash: RealBash, command: str) -> bool:
    """Whether what bash started was foreseen; False where nothing was claimed."""
    analysis = analyse(command)
    if analysis.unclear or not all(part.program for part in analysis.parts if part.words):
        return False
    if any("again and again" in danger.why or "endlessly" in danger.why for danger in analysis.dangers):
        return False  # a bomb is better not tried
    started = bash.started(command)
    if started is None:
        return False
    foreseen = {part.program for part in analysis.parts} | {name for part in analysis.parts for name in part.wrappers}
    assert started <= foreseen, analysis
    return True


@settings(max_examples=120, deadline=None, suppress_health_check=SLOW)
@given(command=commands)
def test_what_bash_starts_is_among_the_parts(bash: RealBash, command: str):
    holds(bash, command)


@settings(max_examples=400, deadline=None, suppress_health_check=SLOW)
@given(pieces=st.lists(st.sampled_from(PIECES), min_size=2, max_size=12))
def test_nor_does_a_jumble_of_shell_hide_anything(bash: RealBash, pieces: list[str]):
    holds(bash, "".join(pieces))


@pytest.mark.parametrize(
    "command",
    [
        "echo $(rm x)",
        "cat <<E\n`rm x`\nE",
        "$'\\x72m' a",
        "for i in a; do foo; done | bar",
        "if ls; then rm; fi",
        "f() { rm; }; f",
        "eval 'rm x'",
        "bash -c 'rm x; ls'",
        "find . -maxdepth 0 -exec rm {} \\;",
        "echo a | xargs rm",
        "env a=1 nice foo",
        "[[ -n $(id) ]] && bar",
        "echo ${x:-$(rm)}",
        "trap 'rm' EXIT",
        "case a in a) rm;; esac",
        "a=(ls) rm x",
        "cat <(rm) > >(foo)",
        "ls # rm\nfoo",
        "a=$(rm) && ls || foo",
        "time rm",
        "! rm",
        "(rm; ls) 2>&1 | cat",
    ],
)
def test_these_ways_of_starting_a_program_are_all_understood(bash: RealBash, command: str):
    assert holds(bash, command)


def test_the_stand_ins_are_what_runs(bash: RealBash, tmp_path: Path):
    kept = tmp_path / "kept"
    kept.write_text("")
    assert bash.started(f"rm {kept}; ls") == {"rm", "ls"}
    assert kept.exists()
