"""`ferrule lint` (T11)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .conftest import Command

BAD = '''
from ferrule import tool

@tool(kind="readonly")
def x(q: str) -> str:
    """X."""
    return q
'''


def test_a_bad_definition_is_told_where_and_why(ferrule: Command) -> None:
    bad = ferrule.folder / "bad.py"
    bad.write_text(BAD)
    done = ferrule("lint", str(bad), "--json")
    assert done.code == 1
    assert {finding["tool"] for finding in done.json} == {"x"}
    assert all(finding["rule"] and finding["message"] for finding in done.json)
    ignored = [option for finding in done.json for option in ("--ignore", finding["rule"])]
    assert ferrule("lint", str(bad), *ignored).code == 0


def test_a_file_that_does_not_load_fails(ferrule: Command) -> None:
    bad = ferrule.folder / "bad.py"
    bad.write_text("import no_such_module_anywhere\n")
    done = ferrule("lint", str(bad))
    assert done.code == 1
    assert "line 1: no module named `no_such_module_anywhere`" in done.out


def test_the_built_ins_have_no_findings_at_all(ferrule: Command) -> None:
    ferrule.settings.write_text("[tools]\nplugins = false\n")
    assert ferrule("lint", "--json").json == []


def test_what_does_not_load_is_counted(ferrule: Command) -> None:
    bad = ferrule.folder / "tools" / "bad.py"
    bad.write_text("import no_such_module_anywhere\n")
    assert "Tools checked: 0. Findings: 1." in ferrule("lint", str(bad)).err
    every = ferrule("lint", "--json")
    assert every.code == 1
    assert str(bad) in [finding["where"] for finding in every.json if finding["rule"] == "load"]


def test_a_rule_that_is_none_is_a_wrong_option(ferrule: Command) -> None:
    done = ferrule("lint", "--ignore", "spelling")
    assert done.code == 2
    assert "Error: Invalid value for '--ignore': there is no rule 'spelling'. Rules are F001 to F" in done.err
    assert ferrule("lint", "--ignore", "spelling", "--json").json["error"]["type"] == "usage_error"
