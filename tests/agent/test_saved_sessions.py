"""Sessions outlive the program, a crash included, and only the person can read them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from ferrule import RawCall
from ferrule.agent.conversation import Conversation, well_formed
from ferrule.agent.saved_sessions import (
    SavedConversation,
    SavedConversationError,
    find,
    forget_old,
    latest,
    listed,
    load,
)
from ferrule.agent.turn_log import to_form
from ferrule.core.model import AssistantMessage, Usage, UserMessage
from ferrule.testing import call

from .room import agent_with, shown, turn
from .test_compaction import exchange


def saved(folder: Path, session_id: str = "a" * 32, workspace: str = "/w") -> SavedConversation:
    return SavedConversation(folder, session_id, Path(workspace), "scripted/test")


def written(folder: Path, session_id: str = "a" * 32, workspace: str = "/w") -> Path:
    session = saved(folder, session_id, workspace)
    session.write(to_form(UserMessage(f"Hello from {workspace}.")))
    session.write(to_form(AssistantMessage("Hi.")))
    usage = asdict(Usage(10, 2, cost=0.5))
    session.write({"type": "turn", "turn": 1, "ending": "done", "usage": usage, "model": "scripted/other"})
    session.close()
    return session.path


async def test_a_session_goes_on_where_it_was(tmp_path: Path) -> None:
    session = saved(tmp_path)
    agent, _ = agent_with([call("add", {"a": 1, "b": 2}), "It is 3."], save=session)
    await turn(agent, "1 + 2?")
    session.close()
    again, conversation = load(session.path)
    assert conversation.messages == agent.conversation.messages
    assert (conversation.turn, conversation.usage, again.model) == (1, agent.conversation.usage, "scripted/test")
    agent, model = agent_with(["Still 3."], conversation=conversation, save=again)
    await turn(agent, "Sure?")
    again.close()
    assert shown(model.requests[0].messages)[-2:] == ["model: It is 3.", "person: Sure?"]
    assert load(session.path)[1].turn == 2


def test_the_file_is_the_person_s_alone(tmp_path: Path) -> None:
    path = written(tmp_path / "sessions")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_session_without_a_word_leaves_no_file(tmp_path: Path) -> None:
    saved(tmp_path).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("torn", [b'{"type": "us', b'{"type"', b"\xe4"])
def test_a_torn_last_line_is_as_if_it_had_not_been_said(tmp_path: Path, torn: bytes) -> None:
    path = written(tmp_path)
    with path.open("ab") as file:
        file.write(torn)
    session, conversation = load(path)
    assert shown(conversation.messages) == ["person: Hello from /w.", "model: Hi."]
    session.write(to_form(UserMessage("More.")))
    session.close()
    assert shown(load(path)[1].messages)[-1] == "person: More."


def test_calls_that_a_crash_cut_off_are_settled_when_the_session_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path)
    session, _ = load(path)
    session.write(to_form(AssistantMessage("", (RawCall("Bash", {"command": "make"}, id="c"),))))
    session.close()
    _, conversation = load(path)
    conversation.begin_turn(UserMessage("And now?"))
    assert well_formed(conversation.messages[:-1]) is None
    assert "whether it ran is unknown" in shown(conversation.messages)[-2]


def test_a_process_that_is_killed_loses_nothing_that_was_said(tmp_path: Path) -> None:
    program = (
        "import os, sys; from pathlib import Path\n"
        "from ferrule.agent.saved_sessions import SavedConversation; from ferrule.core.model import UserMessage\n"
        "from ferrule.agent.turn_log import to_form\n"
        "s = SavedConversation(Path(sys.argv[1]), 'b' * 32, Path('/w'), 'm')\n"
        "[s.write(to_form(UserMessage(f'word {n}'))) for n in range(50)]; os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, env={**os.environ})
    _, conversation = load(tmp_path / ("b" * 32 + ".jsonl"))
    assert len(conversation.messages) == 50


def test_a_line_damaged_in_the_middle_is_refused_with_its_number(tmp_path: Path) -> None:
    path = written(tmp_path)
    lines = path.read_text().splitlines()
    lines[1] = lines[1][:10]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(SavedConversationError, match=r"damaged in line 2.*Start a new session"):
        load(path)


def test_a_file_that_is_no_session_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "x.jsonl"
    for text in ("", "{}", "nonsense", json.dumps({"ferrule_session": 99, "id": "x"})):
        other.write_text(text)
        with pytest.raises(SavedConversationError, match="not a saved session"):
            load(other)


def test_a_session_that_is_open_elsewhere_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path)
    session, _ = load(path)
    with pytest.raises(SavedConversationError, match="open in another process"):
        load(path)
    session.close()
    load(path)[0].close()


def test_after_compaction_the_short_conversation_comes_back(tmp_path: Path) -> None:
    session = saved(tmp_path)
    conversation = Conversation(journal=session)
    for message in (UserMessage("a"), *exchange(1), *exchange(2)):
        conversation.add(message)
    conversation.replace([UserMessage("a"), UserMessage("[short]")])
    conversation.add(AssistantMessage("b"))
    session.close()
    assert shown(load(session.path)[1].messages) == ["person: a", "person: [short]", "model: b"]


def test_a_disk_that_cannot_be_written_does_not_end_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    session = saved(tmp_path / "file")
    session.write(to_form(UserMessage("a")))
    session.write(to_form(UserMessage("b")))
    assert session.problem


def test_sessions_are_found_by_folder_and_by_the_beginning_of_their_ids(tmp_path: Path) -> None:
    for number, (session_id, workspace) in enumerate([("aa1", "/w"), ("ab2", "/other"), ("ac3", "/w")]):
        os.utime(written(tmp_path, session_id, workspace), (number, 1000 + number))
    (tmp_path / "junk.jsonl").write_text("junk")
    assert latest(tmp_path, Path("/w")) == tmp_path / "ac3.jsonl"
    assert latest(tmp_path, Path("/none")) is None
    assert [one.id for one in listed(tmp_path)] == ["ac3", "ab2", "aa1"]
    (line,) = listed(tmp_path, Path("/other"))
    assert (line.request, line.model, line.changed) == ("Hello from /other.", "scripted/test", 1001)
    assert find(tmp_path, "ab") == tmp_path / "ab2.jsonl"
    with pytest.raises(SavedConversationError, match="3 saved sessions begin with `a`"):
        find(tmp_path, "a")
    for nothing in ("zz", "", "../ab2", "a*"):
        with pytest.raises(SavedConversationError, match="No saved session begins"):
            find(tmp_path, nothing)


def test_old_sessions_are_forgotten(tmp_path: Path) -> None:
    os.utime(written(tmp_path, "old"), (0, 1000))
    written(tmp_path, "new")
    assert forget_old(tmp_path, 30) == 1
    assert [path.stem for path in tmp_path.iterdir()] == ["new"]
    assert forget_old(tmp_path / "nowhere", 30) == 0


def test_a_session_is_continued_or_begun(tmp_path: Path) -> None:
    saved, conversation = SavedConversation.resume(tmp_path, "abc", tmp_path, "x/y")
    assert conversation.messages == []
    assert not saved.path.exists()
    conversation.add(UserMessage("hello"))
    with pytest.raises(SavedConversationError, match="open in another process"):
        SavedConversation.resume(tmp_path, "abc", tmp_path, "x/y")
    saved.close()
    again, conversation = SavedConversation.resume(tmp_path, "abc", tmp_path, "x/y")
    assert [one.text for one in conversation.messages if isinstance(one, UserMessage)] == ["hello"]
    again.close()


@pytest.mark.parametrize("name", ["../abc", "a/b", "/etc/abc"])
def test_a_name_that_leads_elsewhere_is_no_session(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a session"):
        SavedConversation.resume(tmp_path, name, tmp_path, "x/y")
