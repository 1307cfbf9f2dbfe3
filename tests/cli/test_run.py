"""`ferrule run`: the assistant for scripts. Its answer, its exit codes, and nothing left running."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.mcp_client.peers import alive

from .mcp_peer import PATIENT, add, told

if TYPE_CHECKING:
    from .conftest import Command


def script(ferrule: Command, *replies: Any) -> str:
    path = ferrule.folder / "script.json"
    path.write_text(json.dumps(replies))
    return f"--model=scripted:{path}"


def calls(*named: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    return {"text": text, "calls": [{"name": name, "arguments": arguments} for name, arguments in named]}


ECHO = calls(("echo_text", {"text": "hello"}), text="I look.")
NOTE = calls(("save_note", {"text": "x"}))


def test_the_answer_is_on_stdout_and_calls_are_on_stderr(ferrule: Command) -> None:
    done = ferrule("run", "say hello", script(ferrule, ECHO, "It says hello."))
    assert (done.code, done.out) == (0, "It says hello.\n")
    assert done.err.splitlines() == ["I look.", "✓ calling `echo_text`: hello"]
    assert ferrule("run", "-q", "say hello", script(ferrule, ECHO, "It says hello.")).err == ""


def test_calls_are_shown_in_chinese_too(ferrule: Command) -> None:
    (ferrule.workspace / "a.py").write_text("x = 1\n")
    read = calls(("Read", {"file_path": "a.py"}))
    assert "正在读取 `a.py`" in ferrule("--lang", "zh", "run", "read", script(ferrule, read, "好")).err


def test_json_is_one_document(ferrule: Command) -> None:
    done = ferrule("run", "say hello", script(ferrule, ECHO, "It says hello."), "--json")
    assert list(done.json) == [
        "ending", "text", "problem", "suggestion", "limit", "session_id", "model", "turn", "steps", "usage", "calls",
        "notes",
    ]  # fmt: skip
    assert (done.json["ending"], done.json["text"], done.json["turn"]) == ("done", "It says hello.", 1)
    (call,) = done.json["calls"]
    assert (call["tool"], call["arguments"], call["parent_id"]) == ("echo_text", {"text": "hello"}, None)
    assert (call["result"]["success"], call["result"]["llm_content"]) == (True, "hello")


def test_stream_json_is_an_event_a_line_and_the_first_names_the_form(ferrule: Command) -> None:
    done = ferrule("run", "say hello", script(ferrule, ECHO, "It says hello."), "--stream-json")
    first, *events = [json.loads(line) for line in done.out.splitlines()]
    assert (first["type"], first["version"], first["model"]) == ("start", 1, "scripted/script")
    kinds = [event["type"] for event in events]
    assert (kinds[0], kinds[-1]) == ("turn_started", "turn_ended")
    assert kinds.index("call_asked") < kinds.index("call_pending") < kinds.index("call_done")
    assert events[-1]["ending"] == "done"


def test_what_is_piped_in_is_context_and_never_an_answer(ferrule: Command) -> None:
    done = ferrule("run", "keep this", script(ferrule, NOTE, "It was refused."), "--stream-json", stdin="yes\n")
    events = [json.loads(line) for line in done.out.splitlines()]
    assert events[1]["text"] == "keep this\n\n<stdin>\nyes\n\n</stdin>"
    (result,) = [event["result"] for event in events if event["type"] == "call_done"]
    assert "approval isn't available here" in result["llm_content"]
    assert done.code == 3


def test_the_request_itself_may_come_from_stdin(ferrule: Command) -> None:
    done = ferrule("run", "-", script(ferrule, "Hi."), "--stream-json", stdin="from a pipe")
    assert json.loads(done.out.splitlines()[1])["text"] == "from a pipe"


@pytest.mark.parametrize(
    ("replies", "options", "code", "ending"),
    [
        ([NOTE, "Kept."], ["--yes"], 0, "done"),
        ([NOTE, "Kept."], ["--allow", "save_note"], 0, "done"),
        ([NOTE, "Not kept."], [], 3, "done"),
        ([NOTE, ECHO, "Another way."], [], 0, "done"),
        ([NOTE, "Not kept."], ["--yes", "--deny", "save_note"], 3, "done"),
        ([{"error": {"fault": "busy", "message": "Busy."}}], [], 1, "failed"),
        ([ECHO] * 6, [], 1, "loop"),
        ([ECHO, "more"], ["--max-steps", "1"], 4, "limit"),
        ([ECHO, "more"], ["--max-tokens", "5"], 4, "limit"),
        ([{**ECHO, "usage": {"cost": 2.0}}, "more"], ["--max-cost", "0.5"], 4, "limit"),
        ([{"text": "slow", "wait": 60}], ["--timeout", "0.2"], 4, "limit"),
        ([calls(("wait_long", {"seconds": 60}))], ["--timeout", "0.5"], 4, "limit"),
    ],
)
def test_each_ending_has_its_exit_code(
    ferrule: Command, replies: list[Any], options: list[str], code: int, ending: str
) -> None:
    done = ferrule("run", "go", script(ferrule, *replies), "--json", *options)
    assert (done.code, done.json["ending"]) == (code, ending), done.err
    assert done.json["limit"] == (WHICH[options[0]] if ending == "limit" else None)


WHICH = {"--max-steps": "steps", "--max-tokens": "tokens", "--max-cost": "cost", "--timeout": "seconds"}


def test_a_limit_says_which_option_raises_it(ferrule: Command) -> None:
    """The library names no option; the command line adds it."""
    done = ferrule("run", "go", script(ferrule, ECHO, "more"), "--max-steps", "1")
    assert done.err.splitlines()[-1] == (
        "Error: The turn had 1 step, which is its limit. Nothing is lost: say how to continue, or raise the limit. "
        "The option is --max-steps."
    )


def test_a_failure_is_told_in_words(ferrule: Command) -> None:
    error = {"fault": "key", "message": "No key.", "suggestion": "Set one."}
    done = ferrule("run", "go", script(ferrule, {"error": error}))
    assert (done.code, done.out, done.err) == (1, "", "Error: No key. Set one.\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run"], "REQUEST"),
        (["run", "  "], "The request is empty"),
        (["run", "x", "--model=scripted:nowhere.json"], "could not be read"),
        (["run", "x", "--continue"], "no session in this folder"),
        (["run", "x", "--resume", "abc"], "No saved session begins with `abc`"),
        (["run", "x", "--resume", "abc", "--continue"], "Use either --continue or --resume"),
        (["run", "x", "--max-cost", "0"], "--max-cost"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(ferrule: Command, arguments: list[str], says: str) -> None:
    done = ferrule(*arguments)
    assert (done.code, done.out) == (2, "")
    assert says in done.err


def test_a_session_goes_on_with_continue_and_resume(ferrule: Command) -> None:
    first = ferrule("run", "say hello", script(ferrule, ECHO, "It says hello."), "--json").json
    again = ferrule("run", "and now?", script(ferrule, "Still."), "--continue", "--json").json
    third = ferrule("run", "sure?", script(ferrule, "Yes."), "--resume", first["session_id"][:8], "--json").json
    assert first["session_id"] == again["session_id"] == third["session_id"]
    assert [one["turn"] for one in (first, again, third)] == [1, 2, 3]
    file = ferrule.folder / "data" / "sessions" / f"{first['session_id']}.jsonl"
    said = [json.loads(line) for line in file.read_text().splitlines()]
    assert [one["text"] for one in said if one.get("type") == "user"] == ["say hello", "and now?", "sure?"]


def started(ferrule: Command, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        ferrule.arguments("run", "go", *arguments),
        cwd=ferrule.workspace,
        env=ferrule.environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_it_cleanly_and_the_calls_with_it(ferrule: Command, number: int, code: int) -> None:
    marker = ferrule.workspace / "pid"
    command = f"echo $$ > {marker.name}; exec sleep 300"
    bash = calls(("Bash", {"command": command, "description": "wait"}))
    with started(ferrule, script(ferrule, bash, "never"), "--stream-json", "--allow", "Bash") as running:
        assert running.stdout is not None
        lines: list[dict[str, Any]] = []
        for line in running.stdout:
            lines.append(json.loads(line))
            if lines[-1]["type"] == "call_pending":
                break
        while not marker.exists() or not marker.read_text().strip():
            assert running.poll() is None
        running.send_signal(number)
        lines += [json.loads(line) for line in running.stdout]
        assert running.wait(30) == code
    assert lines[-1]["type"] == "turn_ended"
    assert lines[-1]["ending"] == "interrupted"
    (done,) = [line for line in lines if line["type"] == "call_done"]
    assert done["result"]["error"]["type"] == "cancelled_error"
    (row,) = json.loads(ferrule("audit", "list", "--json").out)
    assert row["outcome"] == "cancelled_error"
    assert not _runs(str(ferrule.workspace)), "nothing is left running"


def _runs(folder: str) -> list[str]:
    """Processes whose working folder is this one."""
    found: list[str] = []
    for one in Path("/proc").glob("[0-9]*"):
        try:
            if str((one / "cwd").readlink()) == folder:
                found.append((one / "cmdline").read_text())
        except OSError:
            continue
    return found


def test_output_that_nobody_reads_stops_the_turn(ferrule: Command) -> None:
    slow = calls(("wait_long", {"seconds": 60}))
    with started(ferrule, script(ferrule, "x" * 200_000, slow), "--stream-json") as running:
        assert running.stdout is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(30) == 141


def test_at_a_terminal_the_person_is_asked(ferrule: Command) -> None:
    leader, follower = pty.openpty()
    running = subprocess.Popen(
        ferrule.arguments("run", "go", script(ferrule, NOTE, "Kept.")),
        cwd=ferrule.workspace,
        env=ferrule.environment,
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=follower,
        text=True,
        start_new_session=True,
    )
    os.close(follower)
    shown = b""
    while b"save_note" not in shown or b"?" not in shown:
        shown += os.read(leader, 1000)
    os.write(leader, b"y\n")
    out, _ = running.communicate(timeout=30)
    os.close(leader)
    assert (running.returncode, out) == (0, "Kept.\n")


def test_ctrl_c_while_servers_start_ends_it_before_any_model_is_asked(ferrule: Command) -> None:
    """P6: nothing has begun, so there is nothing to wait for."""
    notes = ferrule.folder / "notes"
    os.mkfifo(notes)  # the server says when it has been started
    add(ferrule, "peer", "silent")
    program = subprocess.Popen(
        [sys.executable, PATIENT, "run", "hello", script(ferrule, "It answered.")],
        cwd=ferrule.workspace, env=ferrule.environment, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    server = int(told(notes, program).split()[1])
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    assert (program.returncode, out, err) == (130, "", "")
    assert not alive(server)


def test_servers_that_cannot_be_used_are_said_before_the_answer(ferrule: Command) -> None:
    add(ferrule, "peer", "exit")
    done = ferrule("run", "hello", script(ferrule, "It answered."))
    assert (done.code, done.out) == (0, "It answered.\n")
    assert "The MCP server peer cannot be used: it ended with exit code 3." in done.err


def test_a_wrong_model_is_told_before_any_server_is_waited_for(ferrule: Command) -> None:
    add(ferrule, "mute", "silent")
    done = ferrule("run", "hello", "--model", "nobody/x")
    assert done.code == 2
    assert "There is no provider `nobody`." in done.err
    assert not (ferrule.folder / "notes").exists(), "it was not even started"
