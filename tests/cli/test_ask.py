"""What the person is shown before something runs, and what their answer means (P4)."""

from __future__ import annotations

import asyncio
import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from inline_snapshot import snapshot

from ferrule.cli.ask import DIFF_LINES, TerminalAsker, opened, say_yes, show, understood
from ferrule.core.call import CallInfo, Effects, FileEffect
from ferrule.core.events import Question
from ferrule.core.tool import Invocation
from ferrule.pipeline.confirm import Answer, Choice

if TYPE_CHECKING:
    from .conftest import Command

from .test_call import at_a_terminal


class _Tool:
    name = "Bash"

    def describe(self, params: str, session: object) -> CallInfo:
        return CallInfo(summary=f"Bash {params}")


def question(command: str = "npm test", rule: str = "Bash(npm test *)", **more: Any) -> Question:
    more.setdefault("rules", (rule,) if rule else ())
    invocation = Invocation(cast("Any", _Tool()), command, "call_1")
    return Question(
        invocation, "a tool that executes something asks first", rule,
        covers="npm test --verbose" if rule else "", not_covers="npm install" if rule else "", **more,
    )  # fmt: skip


def test_the_person_sees_the_call_the_rule_and_its_reach(capsys: pytest.CaptureFixture[str]) -> None:
    show(question())
    assert capsys.readouterr().err == snapshot("""\
a tool that executes something asks first:
  Bash npm test
"Always" would mean: Bash(npm test *)
  it covers:         npm test --verbose
  it does not cover: npm install
Run it? Once (y), always in this session (a), always and saved in your settings (s), or no (n, or say what to do \
instead) [y/a/s/N] \
""")


def test_what_would_change_in_a_file_is_shown_before_it_changes(ferrule: Command) -> None:
    """P4: whoever says yes to an edit has seen the edit, and not only the name of the file."""
    (ferrule.workspace / "a.txt").write_text("one\ntwo\n")
    edit = ["call", "Edit", '{"file_path": "a.txt", "old_string": "two", "new_string": "2\\u001b[2J"}']
    said, status = at_a_terminal(ferrule, edit, "n\n")
    assert status == 3
    before, _, after = said.replace("\r", "").partition("    @@ -1,2 +1,2 @@\n     one\n    -two\n    +2\\x1b[2J\n")
    assert before.startswith("a tool that writes asks first:\n  Edit ")
    assert after.startswith('"Always" would mean: ')
    said, status = at_a_terminal(ferrule, ["call", "Write", '{"file_path": "b.txt", "content": "new"}'], "y\n")
    assert "    +new\r\n" in said
    assert (ferrule.workspace / "b.txt").read_text() == "new"


def test_nobody_is_asked_about_an_edit_that_fails_either_way(ferrule: Command) -> None:
    (ferrule.workspace / "a.txt").write_text("one\n")
    edit = ["call", "Edit", '{"file_path": "a.txt", "old_string": "two", "new_string": "2"}']
    said, status = at_a_terminal(ferrule, edit, "")
    assert said.startswith("Error (validation_error): The old text is not in the file")
    assert status == 1


def test_what_a_tried_command_did_is_shown_and_can_be_kept_or_dropped(ferrule: Command) -> None:
    """P4, issue 13."""
    (ferrule.workspace / "a.txt").write_text("one\n")
    command = ["call", "Bash", '{"command": "echo two >> a.txt; touch b.txt"}']
    said, status = at_a_terminal(ferrule, command, "n\n")
    shown = said.replace("\r", "")
    assert status == 3
    assert shown.startswith("it would change 1 file and create 1 file:\n  Bash echo two >> a.txt; touch b.txt\n")
    assert "     one\n    +two\n" in shown
    assert "  - change a.txt (+1 -0)\n  - create b.txt\n" in shown.partition("+two")[2]
    assert "Keep these changes? " in shown
    assert (ferrule.workspace / "a.txt").read_text() == "one\n"
    _, status = at_a_terminal(ferrule, command, "y\n")
    assert (status, (ferrule.workspace / "a.txt").read_text()) == (0, "one\ntwo\n")


def test_of_a_long_change_the_beginning_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    show(replace(question(), preview="+x\n" * (DIFF_LINES + 7)))
    said = capsys.readouterr().err
    assert said.count("    +x\n") == DIFF_LINES
    assert '    … 7 more lines\nType f to see the whole change.\n"Always"' in said


def test_where_no_rule_can_be_kept_none_is_offered(capsys: pytest.CaptureFixture[str]) -> None:
    show(question("rm -rf x", rule=""))
    shown = capsys.readouterr().err
    assert shown.endswith("Run it? Yes (y) or no (n, or say what to do instead) [y/N] ")
    assert "Always" not in shown
    assert understood("a", question(rule="")) == Answer(Choice.NO)
    assert understood("s", question(rule="")) == Answer(Choice.NO)
    assert understood("s", question(rules=())) == Answer(Choice.NO)


def test_a_disguise_is_made_visible_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    show(question("rm \u202exrf\u202c -- a\x1b[2Kb", rule=""))
    shown = capsys.readouterr().err
    assert "rm \\u{202e}xrf\\u{202c} -- a\\x1b[2Kb" in shown
    assert "Warning: it contains invisible characters or ones that reverse the text" in shown


def test_no_line_of_a_call_can_pass_for_the_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    show(question("ls\nRun it? [y/N] y", rule=""))
    assert "\n  Run it? [y/N] y\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("y", Answer(Choice.ONCE)),
        (" YES ", Answer(Choice.ONCE)),
        ("是", Answer(Choice.ONCE)),
        ("a", Answer(Choice.ALWAYS)),
        ("总是", Answer(Choice.ALWAYS)),
        ("n", Answer(Choice.NO)),
        ("", Answer(Choice.NO)),
        ("n use the other branch", Answer(Choice.NO, "use the other branch")),
        ("no: not on a Friday", Answer(Choice.NO, "not on a Friday")),
        ("否，太慢", Answer(Choice.NO, "太慢")),
        ("use git rm instead", Answer(Choice.NO, "use git rm instead")),
        ("not now", Answer(Choice.NO, "not now")),
        ("改用 git rm", Answer(Choice.NO, "改用 git rm")),
        ("yes please", Answer(Choice.NO, "yes please")),
    ],
)
def test_only_a_clear_yes_is_one(said: str, answer: Answer) -> None:
    assert understood(said, question()) == answer


def test_an_always_can_be_saved_in_the_persons_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "person.toml"
    monkeypatch.setenv("FERRULE_CONFIG", str(file))
    both = question(rule="Bash(a *), Bash(b, c)", rules=("Bash(a *)", "Bash(b, c)"))
    assert understood("s", both) == Answer(Choice.ALWAYS)
    assert tomllib.loads(file.read_text()) == {"permissions": {"allow": ["Bash(a *)", "Bash(b, c)"]}}
    assert f"Saved in {file}" in capsys.readouterr().err


def test_a_rule_that_cannot_be_saved_is_said_and_holds_for_the_session(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FERRULE_CONFIG", "/dev/null")
    assert understood("s", question()) == Answer(Choice.ALWAYS)
    assert "the rule was not saved: /dev/null is not a file" in capsys.readouterr().err


def test_files_that_a_line_explains_are_listed_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    index = FileEffect("change", "/w/.git/index", ".git/index", internal=True)
    said = Effects((FileEffect("change", "/w/f", "f", added=1), index), git=("1 commit on master: second; f +1",))
    asked = replace(question("git commit"), effects=said)
    show(asked)
    shown = capsys.readouterr().err
    assert "  - 1 commit on master: second; f +1\n  - change f (+1 -0)\n  - and 1 file inside .git\n" in shown
    assert "Type f to list every file and see the whole change." in shown
    assert opened(" F ", asked, 24) == (
        "",
        ["- 1 commit on master: second; f +1", "- change f (+1 -0)", "- change .git/index"],
    )
    assert opened("no", asked, 24) is None
    assert opened("f", question("ls"), 24) is None


def test_the_only_deletion_among_300_files_is_next_to_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """P4: neither the order nor what is left out hides a change, and every file can be listed."""
    files = [FileEffect("create", f"/w/out/{at:03}", f"out/{at:03}", added=1) for at in range(300)]
    odd = FileEffect("create", "/w/out/p\u0430y", "out/p\u0430y")
    gone = FileEffect("delete", "/w/zzz", "zzz", removed=1)
    diff = "".join(f"--- /dev/null\n+++ b/{one.shown}\n@@ -0,0 +1 @@\n+x\n" for one in files)
    asked = replace(question("make"), effects=Effects((*files, odd, gone), diff), preview=diff)
    show(asked)
    assert capsys.readouterr().err.partition("more lines\n")[2].partition('"Always"')[0] == snapshot("""\
  - delete zzz (+0 -1)
  - create out/p\\u{430}y
  - create 300 files in out/: 000, 001, 002, …
Type f to list every file and see the whole change.
  Warning: it contains misleading characters in file names
""")
    whole = opened("f", asked, 24)
    assert whole is not None
    assert whole[0] == diff
    assert whole[1] == [
        "- delete zzz (+0 -1)",
        "- create out/p\\u{430}y",
        *(f"- create {one.shown} (+1 -0)" for one in files),
    ]


def test_no_answer_is_taken_from_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert asyncio.run(TerminalAsker()(question())).choice is Choice.NO


def test_a_saved_always_lets_the_same_command_run_unasked(ferrule: Command) -> None:
    """P4: the saved rule covers the same command again."""
    call = ["call", "Bash", '{"command": "mkdir made"}']
    shown, status = at_a_terminal(ferrule, call, "s\n")
    assert "Always" in shown
    assert status == 0
    assert ferrule(*call, stdin="").err.count("approval isn't available here") == 0
    assert ferrule("call", "Bash", '{"command": "chmod 600 made"}').code == 3


def test_a_reason_goes_to_the_model(ferrule: Command) -> None:
    shown, status = at_a_terminal(ferrule, ["call", "save_note", '{"text": "x"}'], "n use the wiki\n")
    assert status == 3
    assert "you denied it: use the wiki" in shown


def test_yes_is_for_this_call_only() -> None:
    assert asyncio.run(say_yes(_question_about("Write"))).choice is Choice.ONCE


def test_yes_accepts_no_drafted_tool() -> None:
    """M4: it would run outside of every sandbox, and nobody has looked at it."""
    assert asyncio.run(say_yes(_question_about("draft_tool"))).choice is Choice.NO


def _question_about(name: str) -> Question:
    return cast("Any", SimpleNamespace(invocation=SimpleNamespace(tool=SimpleNamespace(name=name))))
