"""The calls that may be meant, the best first."""

from __future__ import annotations

import pytest

from ferrule.builtin.all_tools import builtin_tools
from ferrule.models.guided.slots import ANSWER_SCORE, Candidates

ALL = Candidates(builtin_tools())


@pytest.mark.parametrize(
    ("request_", "wanted"),
    [
        ("Show me what is in README.md.", {"Read", "readFile"}),
        ("src 目录里有哪些文件？", {"LS", "listFiles"}),
        ("What time is it now?", {"getCurrentDateTime"}),
        ("Run the command ls -la", {"Bash", "executeCommand"}),
        ("函数 parse_args 是在哪里定义的？", {"Grep", "FileSearch"}),
        ("Stop the background shell bash_1.", {"KillShell"}),
    ],
)
def test_the_best_call_is_the_one_meant(request_: str, wanted: set[str]) -> None:
    ranked = ALL.rank(request_, most=3)
    assert ranked[0].tool.name in wanted
    assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)


@pytest.mark.parametrize("request_", ["Hello, who are you?", "Explain what recursion is.", "你好", ""])
def test_words_are_the_answer_where_nothing_is_to_be_done(request_: str) -> None:
    assert ALL.rank(request_, most=3) == []


def test_a_call_can_be_asked_for_all_the_same() -> None:
    ranked = ALL.rank("hello", most=2, least=-100)
    assert len(ranked) == 2
    assert ranked[0].score < ANSWER_SCORE


def test_of_two_that_fit_alike_the_harmless_one_is_better() -> None:
    best = ALL.rank('search for "x"', most=1)[0]
    assert best.tool.read_only
