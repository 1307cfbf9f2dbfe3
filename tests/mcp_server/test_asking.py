"""What the person is shown before a call runs, and what counts as their leave (P4)."""
# ruff: noqa: E501 - a text that is pinned stands on one line

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot
from mcp.types import ElicitResult

from ferrule import Runtime, Session, tool
from ferrule.builtin.bash import bash
from ferrule.builtin.edit import edit, write
from ferrule.core.elicitation import Elicited
from ferrule.core.errors import StoppedError
from ferrule.core.events import Question
from ferrule.mcp_server.asking import (
    MOST_SHOWN,
    ShownQuestion,
    ask_through_client,
    declined,
    form_of,
    message_of,
    refusal,
    understood,
)
from ferrule.mcp_server.server import McpServer
from ferrule.pipeline.confirm import Answer, Choice
from ferrule.policy.decide import RulePolicy
from tests.mcp_server.serving import answering, both_eras, client_of


@tool(kind="write")
def save_note(text: str) -> str:
    """Save a note."""
    return text


def question(**more: Any) -> Question:
    return Question(save_note.build({"text": "a\u202eb\n\x1b[31mc"}), "a tool that writes asks first", **more)


def test_the_person_sees_what_hides_and_what_always_means() -> None:
    asked = question(rule="save_note(x *)", warning="Careful.", covers="save_note x 1", not_covers="save_note y")
    assert message_of(ShownQuestion.of(asked)) == snapshot("""\
a tool that writes asks first:
  save_note {"text":"a\\u{202e}b\\n\\u001b[31mc"}
Warning: it contains invisible characters or ones that reverse the text
Warning: Careful.
"Always" would mean, in this session: save_note(x *)
  it covers: save_note x 1
  it does not cover: save_note y\
""")


@both_eras
async def test_the_person_sees_what_a_tried_command_did_and_keeps_or_drops_it(tmp_path: Path, era: str) -> None:
    """P4, issue 13: the form lists exactly what changed, with the diff."""
    (tmp_path / "a.txt").write_text("one\n")
    server = McpServer(Runtime([bash], session=Session(workspace=tmp_path), policy=RulePolicy()))
    person = answering(answer="once")
    async with client_of(server, era, elicitation_callback=person) as client:
        await client.call_tool("Bash", {"command": "cat a.txt"})
        await client.call_tool("Bash", {"command": "echo two >> a.txt; touch b.txt"})
    (asked,) = person.seen
    assert asked.message == snapshot("""\
it would change 1 file and create 1 file:
  Bash echo two >> a.txt; touch b.txt
  - change a.txt (+1 -0)
  - create b.txt
    --- a/a.txt
    +++ b/a.txt
    @@ -1 +1,2 @@
     one
    +two
    --- /dev/null
    +++ b/b.txt
"Always" would mean, in this session: Bash(echo two >> a.txt; touch b.txt)
  it covers: echo two >> a.txt; touch b.txt
  it does not cover: echo two >> a.txt; touch b.txt more\
""")
    assert asked.requested_schema["properties"]["answer"]["title"] == "Keep these changes?"
    assert (tmp_path / "a.txt").read_text() == "one\ntwo\n"


@both_eras
async def test_the_person_can_see_every_file_before_they_decide(tmp_path: Path, era: str) -> None:
    """P4: the only deletion comes first, what is new is counted, and every name is there on demand."""
    (tmp_path / "zzz").write_text("precious\n")
    server = McpServer(Runtime([bash], session=Session(workspace=tmp_path), policy=RulePolicy()))
    answers = iter(["files", "files", "no"])
    seen: list[Any] = []

    async def person(_context: Any, asked: Any) -> ElicitResult:
        seen.append(asked)
        return ElicitResult(action="accept", content={"answer": next(answers)})

    many = "mkdir out; for i in $(seq -w 1 300); do echo > out/a-file-with-quite-a-long-name-$i; done; rm zzz; : > p\u0430y"
    async with client_of(server, era, elicitation_callback=person) as client:
        await client.call_tool("Bash", {"command": many})
    first, *pages = [one.message for one in seen]
    assert first.split("\n")[2:5] == [
        "  - delete zzz (+0 -1)",
        "  - create p\\u{430}y",
        "  - create 300 files in out/: " + "a-file-with-quite-a-long-name…, " * 3 + "…",
    ]
    assert "Warning: it contains letters that look like others, misleading characters in file names" in first
    listed = [line for page in pages for line in page.split("\n")]
    assert pages[0].split("\n")[1] == "  - delete zzz (+0 -1)"
    assert sum(line.startswith("  - create out/a-file") for line in listed) == 300
    assert listed[-1].endswith(" to 302 of 302")
    assert all(len(page) <= MOST_SHOWN for page in pages)
    assert (tmp_path / "zzz").exists()


def editing(folder: Path) -> McpServer:
    return McpServer(Runtime([write, edit], session=Session(workspace=folder)))


@both_eras
async def test_the_person_sees_what_an_edit_would_change(tmp_path: Path, era: str) -> None:
    """P4: the form shows the change, and what would hide or steer in it is visible."""
    person = answering(answer="once")
    async with client_of(editing(tmp_path), era, elicitation_callback=person) as client:
        await client.call_tool("Write", {"file_path": "a.txt", "content": "one\n\x1b[2Jtwo\n"})
        await client.call_tool("Edit", {"file_path": "a.txt", "old_string": "one", "new_string": "1"})
        failed = await client.call_tool("Edit", {"file_path": "a.txt", "old_string": "seven", "new_string": "7"})
    first, second = [one.message.replace(str(tmp_path), "…") for one in person.seen]
    assert first.split("\n")[1:7] == snapshot(
        [
            "  Write …/a.txt",
            "    --- /dev/null",
            "    +++ b/a.txt",
            "    @@ -0,0 +1,2 @@",
            "    +one",
            "    +\\x1b[2Jtwo",
        ]
    )
    assert "    -one\n    +1\n" in second
    assert failed.is_error, "nobody is asked about what cannot be done"
    assert (tmp_path / "a.txt").read_bytes() == b"1\n\x1b[2Jtwo\n"


async def test_a_change_of_any_length_can_still_be_asked_about(tmp_path: Path) -> None:
    person = answering(answer="once")
    texts = ["x\n" * 5000, "y" * 1_000_000, ("\u202e" * 400 + "\n") * 300]
    async with client_of(editing(tmp_path), "handshake", elicitation_callback=person) as client:
        for number, text in enumerate(texts):
            done = await client.call_tool("Write", {"file_path": f"{number}.txt", "content": text})
            assert not done.is_error
    many, wide, hidden = [one.message for one in person.seen]
    assert "    … 4,601 more lines of the diff are not shown\n" in many
    assert " more characters)" in wide
    assert "    … the rest of the change is not shown here\n" in hidden


def test_a_forms_choices_are_titled_where_the_revision_knows_that() -> None:
    assert form_of(ShownQuestion.of(question(rule="save_note")), "2025-11-25") == snapshot(
        {
            "type": "object",
            "properties": {
                "answer": {
                    "type": "string",
                    "title": "Run it?",
                    "oneOf": [
                        {"const": "once", "title": "Run it once"},
                        {"const": "always", "title": "Always: save_note"},
                        {"const": "no", "title": "Do not run it"},
                    ],
                },
                "reason": {"type": "string", "title": "If not: why?", "description": "Sent to the model."},
            },
            "required": ["answer"],
        }
    )
    assert form_of(ShownQuestion.of(question(rule="")), "2025-06-18") == snapshot(
        {
            "type": "object",
            "properties": {
                "answer": {
                    "type": "string",
                    "title": "Run it?",
                    "enum": ["once", "no"],
                    "enumNames": ["Run it once", "Do not run it"],
                },
                "reason": {"type": "string", "title": "If not: why?", "description": "Sent to the model."},
            },
            "required": ["answer"],
        }
    )


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (Elicited("accept", {"answer": "once"}), Answer(Choice.ONCE)),
        (Elicited("accept", {"answer": "always"}), Answer(Choice.ALWAYS)),
        (Elicited("accept", {"answer": "no", "reason": " later "}), Answer(Choice.NO, "later")),
        (Elicited("accept", {}), None),
        (Elicited("accept", {"decision": "once"}), None),
        (Elicited("accept", {"answer": True}), None),
        (Elicited("accept", {"answer": "ONCE", "reason": 5}), None),
        (Elicited("decline", {"answer": "once"}), Answer(Choice.NO)),
        (Elicited("cancel", {"answer": "always"}), Answer(Choice.NO)),
    ],
)
def test_only_what_was_offered_is_an_answer(said: Elicited, answer: Answer | None) -> None:
    assert understood(said, "save_note") == answer


def test_always_is_no_answer_where_it_was_not_offered() -> None:
    assert understood(Elicited("accept", {"answer": "always"}), "") is None


def test_a_refusal_names_the_rule_that_would_allow_the_command(tmp_path: Path) -> None:
    session = Session(workspace=tmp_path)
    invocation = bash.build({"command": "git push origin main"})
    invocation.session = session
    offer = RulePolicy().offer(invocation, session)
    assert offer is not None
    asked = Question(invocation, "a command asks first", offer.rule, rules=offer.rules)
    stopped = refusal(asked, "this client cannot ask the user (it has no form elicitation)")
    assert (stopped.message, stopped.suggestion) == snapshot(
        (
            "`Bash` was not run: a command asks first, and this client cannot ask the user (it has no form elicitation).",
            "The user can allow it where Ferrule is started: `ferrule mcp --allow 'Bash(git push origin main)'`, or with the same in settings.",
        )
    )


def test_a_refusal_without_a_rule_says_so() -> None:
    stopped = refusal(question(rule=""), "nobody answers")
    assert (stopped.message, stopped.suggestion) == snapshot(
        (
            "`save_note` was not run: a tool that writes asks first, and nobody answers.",
            "No rule can pre-approve this. Try another approach, or ask the user to run it themselves.",
        )
    )


def test_a_declined_form_may_be_nobodys_no() -> None:
    stopped = declined(question(rule="save_note"))
    assert (stopped.message, stopped.suggestion) == snapshot(
        (
            "`save_note` was not run: a tool that writes asks first, and the answer was no, from the user or from a client that runs without one.",
            "Do not try the same call again; try another approach. If the user was not asked: The user can allow it where Ferrule is started: `ferrule mcp --allow save_note`, or with the same in settings. `--mode accept-edits` lets every edit inside the workspace run.",
        )
    )


async def test_outside_of_a_clients_call_nobody_can_be_asked() -> None:
    with pytest.raises(StoppedError, match="this client cannot ask"):
        await ask_through_client(question(rule="save_note"))
