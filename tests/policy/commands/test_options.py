"""Options and operands."""

from __future__ import annotations

from ferrule.policy.commands.expansion import Loose
from ferrule.policy.commands.options import grammar, parse

SORT = grammar("nro:k:i?", "reverse output= key= color?")


def test_options_may_be_written_in_many_ways():
    for words in (["-o", "x"], ["-ox"], ["-no", "x"], ["--output", "x"], ["--output=x"], ["--out=x"], ["a", "-o", "x"]):
        assert parse(SORT, words).value("-o", "--output") == "x", words


def test_a_value_that_must_be_glued_is_not_taken_from_the_next_word():
    assert parse(SORT, ["-i", "x"]).operands == ["x"]
    assert parse(SORT, ["-i.bak", "x"]).value("-i") == ".bak"
    assert parse(SORT, ["--color", "x"]).operands == ["x"]


def test_two_dashes_end_the_options():
    parsed = parse(SORT, ["-n", "--", "-o", "x"])
    assert (parsed.operands, parsed.has("-o"), parsed.first) == (["-o", "x"], False, 2)


def test_an_unknown_or_ambiguous_option_is_named():
    assert parse(SORT, ["-nz", "--wild", "--re"]).unknown == ["-nz", "--wild"]
    assert parse(grammar("", "reverse regexp"), ["--re"]).unknown == ["--re"]


def test_a_word_that_may_be_an_option_is_named():
    assert parse(SORT, [Loose("$x")]).loose == "$x"
    assert parse(SORT, ["--", Loose("$x")]).loose == ""
    assert parse(SORT, [Loose('"a$x"', option=False)]).loose == ""
    assert parse(SORT, ["-k", Loose("$x", many=True)]).loose == "$x"


def test_a_known_option_with_an_unknown_value_is_known():
    parsed = parse(SORT, [Loose('--output="$x"', start="--output=")])
    assert (parsed.loose, parsed.has("--output")) == ("", True)
    assert parse(SORT, [Loose('-k"$x"', start="-k")]).has("-k")


def test_a_wrapper_stops_at_its_first_operand():
    parsed = parse(grammar("n:", permute=False), ["-n", "5", "rm", "-rf"])
    assert (parsed.operands, parsed.first) == (["rm", "-rf"], 2)


def test_a_number_with_a_dash_may_be_one_option():
    assert parse(grammar("n:", digits=True), ["-20"]).options == [("-digit", "20")]
