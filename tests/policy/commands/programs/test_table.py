"""How programs are described."""

from __future__ import annotations

from ferrule.policy.commands.expansion import Loose
from ferrule.policy.commands.finding import READS, RUNS, WRITES, Finding
from ferrule.policy.commands.programs.table import (
    Operands,
    certain,
    changes,
    describe,
    hidden,
    informs,
    reader,
    runs,
    starts_anything,
    subcommands,
    wraps,
    writes,
)

CLOSED = reader("reads", "nk:", "quiet", spoils={"-o": (WRITES, "writes"), "--exec": (RUNS, "runs")}, most=2)
OPEN = reader("reads", "n:", open=True, operands=Operands.PATTERN)


def test_a_closed_description_trusts_only_the_options_that_it_knows():
    assert describe(CLOSED, "x", ["-n", "--quiet", "a"]).effect is READS
    assert describe(CLOSED, "x", ["-z"]).effect is RUNS
    assert describe(CLOSED, "x", ["--quiet=1"]).effect is RUNS
    assert describe(CLOSED, "x", [Loose("$a")]).effect is RUNS


def test_an_option_that_spoils_is_found_in_any_spelling():
    assert describe(CLOSED, "x", ["-no", "out"]).effect is WRITES
    assert describe(CLOSED, "x", ["--exe=./y"]).effect is RUNS
    assert describe(CLOSED, "x", ["-zo"]).effect is WRITES


def test_one_operand_too_many_is_written():
    assert describe(CLOSED, "x", ["a", "b", "c"]).writes == ["c"]


def test_an_open_description_trusts_all_options():
    finding = describe(OPEN, "x", ["-z", "--any", "-n", "5", "pattern", "file", Loose("$a")])
    assert (finding.effect, list(finding.reads)) == (READS, ["file", "$a"])


def test_small_descriptions():
    assert runs("runs", "danger")("x", []).dangers == ("danger",)
    assert changes("changes")("x", []).effect is WRITES
    assert writes("copies", "t:", last=True)("x", ["a", "b", "c"]).writes == ["c"]
    assert writes("copies", "t:", last=True)("x", ["-t", "d", "a"]).writes == ["d"]
    assert informs("-v", otherwise=runs("runs"))("x", ["-v"]).effect is READS
    assert informs("-v", otherwise=runs("runs"))("x", ["-v", "a"]).effect is RUNS


def test_a_subcommand_may_be_one_word_or_two():
    program = subcommands({"ls": OPEN, "image ls": OPEN}, globals_long="quiet")
    assert program("x", ["--quiet", "ls"]).effect is READS
    assert program("x", ["image", "ls"]).effect is READS
    assert program("x", ["image", "rm"]).effect is RUNS
    assert program("x", ["--wild", "ls"]).effect is RUNS


def test_a_wrapper_says_where_its_command_begins():
    finding = wraps("k:", skip=1)("timeout", ["-k", "1", "5", "rm", "x"])
    assert (finding.wrapper, [inner.first for inner in finding.inner]) == (True, [3])
    assert wraps("k:", skip=1)("timeout", [Loose("$x"), "rm"]).unclear


def test_words_that_hide_something_are_noticed():
    assert hidden([Loose("$x")])
    assert not hidden([Loose("$n", option=False, number=True), "a"])
    assert starts_anything("x").unclear


def test_a_certain_description_is_only_certain_with_certain_words():
    program = certain(lambda name, arguments: Finding(READS, "reads"))
    assert program("x", ["a"]).effect is READS
    assert program("x", [Loose("$a")]).effect is RUNS
