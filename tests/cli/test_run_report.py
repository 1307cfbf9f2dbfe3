"""What `ferrule run` writes of a turn."""

from __future__ import annotations

import pytest

from ferrule import ErrorInfo, ErrorKind, RawCall, ToolResult
from ferrule.agent.agent_events import AgentEvent, AgentNotice, Answered, CallAsked, Compacted, Ending, TurnEnded
from ferrule.app.build import Tools
from ferrule.cli.chatting.call_view import doing
from ferrule.cli.run import LastCalls, TextReport
from ferrule.cli.status_line import CallStatus
from ferrule.core.events import Done, Pending
from ferrule.core.model import AssistantMessage, Retrying, Usage
from ferrule.registry.registry import Registry

CALL = RawCall("Read", {"file_path": "a.py"}, id="c")
ASKED = CallAsked(CALL, "reading `a.py`", "reading `{file_path}`", {"file_path": "a.py"})
FAILED = ErrorInfo(ErrorKind.PERMISSION, "Refused.")
REFUSED = Done("c", "Read", ToolResult("c", "Read", False, "Refused.", "Refused.", None, FAILED))
READ = Done("c", "Read", ToolResult("c", "Read", True, "text", "read 1 line"))
ENDED = TurnEnded(Ending.DONE, "The answer.\n", Usage(), 1)


def test_only_the_answer_is_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    report = TextReport(CallStatus(Tools(Registry())))
    events: list[AgentEvent] = [
        Answered(AssistantMessage("I look.", (CALL,)), Usage()),
        ASKED,
        Pending("inner", "Glob", parent_id="c"),
        READ,
        Retrying(1, 2.4, "busy"),
        Compacted(2, 1, ""),
        AgentNotice("Mind this."),
        ENDED,
    ]
    for event in events:
        report.show(event)
    out, err = capsys.readouterr()
    assert out == "The answer.\n"
    assert err.splitlines() == [
        "I look.",
        "✓ reading `a.py`: read 1 line",
        "retrying in 2 s: busy",
        "the conversation was shortened",
        "Warning: Mind this.",
    ]


def test_quiet_says_the_answer_and_what_went_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    report = TextReport(CallStatus(Tools(Registry())), quiet=True)
    report.show(ASKED)
    report.show(REFUSED)
    report.show(TurnEnded(Ending.FAILED, "", Usage(), 1, "It broke.", "Mend it."))
    assert capsys.readouterr() == ("", "Error: It broke. Mend it.\n")


def test_a_refusal_counts_only_right_before_the_last_words() -> None:
    asks = Answered(AssistantMessage("", (CALL,)), Usage())
    last = LastCalls()
    for event in (asks, REFUSED):
        last.show(event)
    assert last.refused
    for event in (asks, READ, Answered(AssistantMessage("ok"), Usage())):
        last.show(event)
    assert not last.refused


def test_what_a_call_does_is_said_from_its_pattern() -> None:
    assert doing(ASKED) == "reading `a.py`"
    assert doing(CallAsked(CALL, "as it is")) == "as it is"


def test_wrong_arguments_are_marked_and_their_first_problem_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    message = "The arguments of `Read` have 2 problems:\n- `file_path`: required, but missing\n- `path`: unknown field"
    wrong = ErrorInfo(ErrorKind.VALIDATION, message)
    report = TextReport(CallStatus(Tools(Registry())))
    for event in (ASKED, Done("c", "Read", ToolResult("c", "Read", False, message, "2 problems", None, wrong))):
        report.show(event)
    assert capsys.readouterr().err == (
        "✗ reading `a.py`: The arguments of `Read` have 2 problems: `file_path`: required, but missing\n"
    )
