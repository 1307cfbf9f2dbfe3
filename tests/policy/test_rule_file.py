"""Rules are added to and taken from a file, and nothing else in it changes."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ferrule.pipeline.stages import Verdict
from ferrule.policy.patterns import RuleError
from ferrule.policy.rule_file import RuleFile

WRITTEN = """\
# my settings
lang = "en" # and why

[permissions]
# what I trust
allow = [
  "Read", # always
  "Bash(git diff *)",
]
deny = ["Bash(rm *)"]

[limits]
timeout = 30
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ferrule.toml"
    path.write_text(WRITTEN)
    return path


def test_a_rule_is_added_at_the_end_of_its_list_and_all_else_stays(file: Path):
    assert RuleFile(file).add("Bash(git log *)", Verdict.ALLOW)
    assert file.read_text() == WRITTEN.replace('"Bash(git diff *)",\n', '"Bash(git diff *)",\n  "Bash(git log *)",\n')
    assert not RuleFile(file).add("Bash(git log *)", Verdict.ALLOW)


def test_a_rule_that_is_removed_takes_nothing_else_along(file: Path):
    assert RuleFile(file).remove("Bash(git diff *)") == [Verdict.ALLOW]
    assert RuleFile(file).remove("Bash(git diff *)") == []
    assert file.read_text() == WRITTEN.replace('  "Bash(git diff *)",\n', "")


def test_a_rule_keeps_its_examples(file: Path):
    RuleFile(file).add("Read(.env)", Verdict.DENY, match=[".env"], no_match=["a"])
    listed = tomllib.loads(file.read_text())["permissions"]["deny"]
    assert listed == ["Bash(rm *)", {"rule": "Read(.env)", "match": [".env"], "no_match": ["a"]}]
    assert RuleFile(file).remove("Read(.env)", Verdict.ALLOW) == []
    assert RuleFile(file).remove("Read(.env)") == [Verdict.DENY]


def test_a_file_that_is_not_there_is_made_with_its_folder(tmp_path: Path):
    path = tmp_path / "new" / "ferrule.toml"
    RuleFile(path).add("Read", Verdict.ASK)
    assert path.read_text() == '[permissions]\nask = ["Read"]\n'


@pytest.mark.parametrize("text", ["not toml", "permissions = 5", "[permissions]\nallow = 5", "x = '\xff"])
def test_a_file_that_cannot_be_read_is_not_touched(file: Path, text: str):
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(RuleError, match=r"ferrule\.toml"):
        RuleFile(file).add("Read", Verdict.ALLOW)
    assert file.read_bytes() == text.encode("latin-1")


def test_a_rule_that_cannot_be_read_can_still_be_removed(file: Path):
    file.write_text('[permissions]\ndeny = ["Bash()", {rule = "x("}]\n')
    assert RuleFile(file).remove("Bash()") == RuleFile(file).remove("x(") == [Verdict.DENY]
    assert list(RuleFile(file).rules()) == []


def test_a_link_stays_a_link_and_the_mode_stays(tmp_path: Path, file: Path):
    file.chmod(0o600)
    link = tmp_path / "link.toml"
    link.symlink_to(file)
    RuleFile(link).add("Glob", Verdict.ALLOW)
    assert link.is_symlink()
    assert '"Glob"' in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(one.name for one in tmp_path.iterdir()) == ["ferrule.toml", "link.toml"]


def test_rules_that_are_sections_stay_sections(file: Path):
    file.write_text('[[permissions.allow]]\nrule = "Read"\n')
    RuleFile(file).add("Glob", Verdict.ALLOW)
    assert tomllib.loads(file.read_text())["permissions"]["allow"] == [{"rule": "Read"}, {"rule": "Glob"}]


@pytest.mark.parametrize(
    "written",
    [
        '[permissions]\nallow = [\n  "a", # why\n  # alone\n]\n',
        '[permissions]\nallow = [ # first\n]\n',
        'permissions = {allow=["a"]}\n',
        'permissions.allow = ["a"]\n',
    ],
)  # fmt: skip
def test_whatever_the_form_the_rule_is_there_and_comments_stay(file: Path, written: str):
    file.write_text(written)
    RuleFile(file).add("Glob", Verdict.ALLOW)
    assert tomllib.loads(file.read_text())["permissions"]["allow"][-1] == "Glob"
    assert all(comment in file.read_text() for comment in ("# why", "# alone", "# first") if comment in written)


@given(st.text(min_size=1).filter(str.strip), st.sampled_from(list(Verdict)))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
def test_adding_then_removing_changes_nothing(file: Path, rule: str, verdict: Verdict):
    try:
        rule.encode()
    except UnicodeEncodeError:
        return
    file.write_text(WRITTEN.replace("deny", "ask") if verdict is Verdict.DENY else WRITTEN)
    before = tomllib.loads(file.read_text())
    if RuleFile(file).add(rule, verdict):
        assert (verdict, rule) in list(RuleFile(file).rules())
        assert RuleFile(file).remove(rule, verdict) == [verdict]
    after = tomllib.loads(file.read_text())
    after["permissions"] = {key: value for key, value in after["permissions"].items() if value}
    assert after == before


def test_what_is_no_file_is_never_replaced_by_one() -> None:
    """`FERRULE_CONFIG=/dev/null` means no settings, not «put them there»."""
    with pytest.raises(RuleError, match="is not a file that can be written to"):
        RuleFile(Path("/dev/null")).add("Read", Verdict.ALLOW)
    assert Path("/dev/null").is_char_device()
