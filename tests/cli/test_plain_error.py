"""An error of a command that was typed rightly: no word about how it is typed."""

from __future__ import annotations

import io

import pytest

from ferrule.cli.options import PlainError

from .conftest import Command
from .mcp_peer import write_json


def test_it_is_one_line_and_ends_with_2() -> None:
    said = io.StringIO()
    error = PlainError("there is no bread")
    error.show(said)
    assert (said.getvalue(), error.exit_code) == ("Error: there is no bread\n", 2)


def test_without_a_place_it_is_said_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    PlainError("there is no bread").show()
    assert capsys.readouterr() == ("", "Error: there is no bread\n")


def test_no_command_of_mcp_tells_how_it_is_typed_where_that_is_not_wrong(ferrule: Command) -> None:
    write_json(ferrule)
    for words in (("test", "theirs"), ("test", "their"), ("trust", "their"), ("untrust", "their"), ("remove", "their")):
        done = ferrule("mcp", *words)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("Error: ")
        assert "Usage" not in done.err
        assert "--help" not in done.err


def test_it_is_told_in_chinese_too(ferrule: Command) -> None:
    done = ferrule("--lang", "zh", "mcp", "test", "nobody")
    assert done.err.startswith("错误: ") or done.err.startswith("错误：")
