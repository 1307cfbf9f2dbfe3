"""`ferrule call`: exit codes, one JSON document, no confirmation from a pipe."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.needs import needs, slow

if TYPE_CHECKING:
    from .conftest import Command


def test_a_result_goes_to_stdout_and_ends_with_0(ferrule: Command) -> None:
    done = ferrule("call", "echo_text", '{"text": "hello"}')
    assert (done.code, done.out, done.err) == (0, "hello\n", "")


def test_arguments_can_come_from_stdin(ferrule: Command) -> None:
    assert ferrule("call", "echo_text", "-", stdin='{"text": "from a pipe"}').out == "from a pipe\n"


@pytest.mark.parametrize(
    ("arguments", "code", "kind"),
    [
        (["fail_politely"], 1, "execution_error"),
        (["echo_text", '{"txt": 1}'], 1, "validation_error"),
        (["echo_text", "not json"], 1, "validation_error"),
        (["no_such_tool"], 1, "not_found_error"),
        (["save_note", '{"text": "x"}'], 3, "permission_error"),
        (["echo_text", '{"text": "x"}', "--deny", "echo_*"], 3, "permission_error"),
        (["save_note", '{"text": "x"}', "--mode", "plan", "--yes"], 3, "permission_error"),
        (["hang_around"], 4, "timeout_error"),
        (["sleep_long", '{"seconds": 600}', "--timeout", "0.3"], 4, "timeout_error"),
    ],
)
def test_each_failure_has_its_exit_code_and_one_document(
    ferrule: Command, arguments: list[str], code: int, kind: str
) -> None:
    done = ferrule("call", *arguments, "--json")
    assert done.code == code
    assert list(done.json) == ["success", "llm_content", "display_content", "data", "error", "metadata"]
    assert done.json["error"]["type"] == kind
    assert list(done.json["error"]) == ["type", "message", "details", "suggestion"]


def test_without_json_an_error_goes_to_stderr_in_words(ferrule: Command) -> None:
    done = ferrule("call", "fail_politely")
    assert done.out == ""
    assert done.err == "Error (execution_error): It is broken.\n\nSuggestion: Bring a spare one.\n"


def test_a_command_that_fails_fails_the_call(ferrule: Command) -> None:
    """`ferrule call Bash '{"command": "make"}' && deploy` deploys nothing that was not made."""
    done = ferrule("call", "Bash", '{"command": "echo out; echo err >&2; (exit 7)"}')
    assert (done.code, done.out) == (1, "")
    assert done.err == "Error (execution_error): The command ended with exit code 7.\n\nout\n[stderr]\nerr\n"


@pytest.mark.parametrize(
    ("arguments", "suggestion"),
    [
        (["noSuch"], "`ferrule tools` lists the COUNT tools that are there."),
        (["save_note", '{"text": "x"}', "--mode", "plan"], "`ferrule explain` says what would allow it."),
        (["save_note", '{"text": "x"}'], "Allow it with `--allow 'save_note'`, or with that rule in your settings."),
    ],
)
def test_a_user_reads_what_they_can_do_and_nothing_that_is_for_a_model(
    ferrule: Command, arguments: list[str], suggestion: str
) -> None:
    said = ferrule("call", *arguments).err.partition("Suggestion: ")[2]
    assert re.sub(r"\d+", "COUNT", said) == f"{suggestion}\n"


@slow
def test_the_line_for_the_user_is_in_their_language_also_for_programs(ferrule: Command) -> None:
    """Everything else in the document is English."""
    document = ferrule("call", "echo_text", '{"txt": 1}', "--json", "--lang", "zh").json
    assert document["display_content"].startswith("`text`：必填")
    assert document["error"]["message"].startswith("The arguments of `echo_text` have 2 problems:")


def test_a_tool_that_returns_something_else_than_it_declares_fails_here_too(ferrule: Command) -> None:
    """T9."""
    (ferrule.folder / "tools" / "broken.py").write_text(
        "from ferrule import tool\n\n"
        '@tool(kind="readonly")\n'
        "def count_things() -> int:\n"
        '    """Count things. Use this to test."""\n'
        '    return "many"\n'
    )
    done = ferrule("call", "count_things")
    assert done.code == 1
    assert 'does not fit its declared type: expected integer, got string "many".' in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["call"],
        ["call", "echo_text", "{}", "--mode", "yolo"],
        ["call", "echo_text", "{}", "--workspace", "/no/such/folder"],
        ["call", "echo_text", "{}", "--timeout", "0"],
        ["call", "echo_text", "{}", "--timeout", "nan"],
        ["call", "echo_text", "{}", "--timeout", "inf"],
        ["call", "echo_text", "{}", "--timeout", "soon"],
        ["call", "echo_text", "{}", "--allow", "Bash()"],
        ["call", "echo_text", "{}", "--no-such-option"],
    ],
)
def test_wrong_usage_ends_with_2_and_no_traceback(ferrule: Command, arguments: list[str]) -> None:
    done = ferrule(*arguments)
    assert done.code == 2
    assert "Error" in done.err
    assert "Traceback" not in done.err


def test_allow_yes_and_modes_let_it_run(ferrule: Command) -> None:
    """P4: by name, by answer, by mode; a deny wins over all of them."""
    note = ["call", "save_note", '{"text": "x"}']
    assert ferrule(*note, "--allow", "save_*").code == 0
    assert ferrule(*note, "--yes").code == 0
    assert ferrule(*note, "--mode", "accept-edits").code == 0
    bypass = ferrule(*note, "--mode", "bypass")
    assert (bypass.code, "bypass" in bypass.err) == (0, True)
    assert ferrule(*note, "--mode", "bypass", "--yes", "--allow", "save_note", "--deny", "save_note").code == 3


def test_a_yes_in_a_pipe_is_not_taken_for_the_persons(ferrule: Command) -> None:
    assert ferrule("call", "save_note", '{"text": "x"}', stdin="y\ny\n").code == 3


@pytest.mark.parametrize(
    ("answer", "code"), [("y\n", 0), ("n\n", 3), slow("\n", 3), slow("\x04", 3), slow("\x03", 130)]
)
def test_at_a_terminal_the_person_is_asked(ferrule: Command, answer: str, code: int) -> None:
    """P4: the person sees what will run, with a warning, and only a yes runs it; Ctrl-C ends it."""
    shown, status = at_a_terminal(ferrule, ["call", "launch_rocket", '{"name": "Ariane"}'], answer)
    assert '{"name":"Ariane"}' in shown
    assert "marked dangerous" in shown
    assert status == code
    assert ("Ariane is up" in shown) == (code == 0)


def at_a_terminal(ferrule: Command, arguments: list[str], *answers: str) -> tuple[str, int]:
    ours, theirs = pty.openpty()
    program = subprocess.Popen(
        ferrule.arguments(*arguments),
        cwd=ferrule.workspace, env=ferrule.environment, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True, preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    waiting = list(answers)
    while True:
        if not select.select([ours], [], [], 60)[0]:
            program.kill()
            pytest.fail(f"it hangs; so far it has shown {shown!r}")
        try:
            piece = os.read(ours, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
        if waiting and shown.count(b"/N] ") > len(answers) - len(waiting):
            os.write(ours, waiting.pop(0).encode())
    os.close(ours)
    return shown.decode(), program.wait(timeout=30)


@pytest.mark.parametrize("as_json", [False, slow(True)])
def test_ctrl_c_stops_the_tool_and_ends_with_130(ferrule: Command, as_json: bool) -> None:
    """P6: also a sync tool inside a blocking call; the call is on record as cancelled."""
    arguments = ferrule.arguments("call", "sleep_long", '{"seconds": 600}', *(["--json"] if as_json else []))
    program = subprocess.Popen(
        arguments, cwd=ferrule.workspace, env=ferrule.environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stderr is not None
    assert program.stderr.readline() == "ready\n"
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    assert program.returncode == 130
    assert "Traceback" not in err
    assert ('"cancelled_error"' in out) == as_json
    assert ferrule("audit", "list", "--json").json[0]["outcome"] == "cancelled_error"


def test_a_tool_that_blocks_the_event_loop_ends_at_its_time(ferrule: Command) -> None:
    """P6: it went on to its end, however long that took."""
    began = time.monotonic()
    done = ferrule("call", "block_long", '{"seconds": 600}', "--timeout", "1")
    assert done.code == 4
    assert "ran longer than its time limit of 1 s. It blocked its event loop" in done.err
    assert time.monotonic() - began < 50
    rows = ferrule("audit", "list", "--json").json
    assert [(row["tool"], row["outcome"], row["abandoned"]) for row in rows] == [("block_long", "timeout_error", True)]


def test_ctrl_c_ends_it_at_once_even_then(ferrule: Command) -> None:
    program = subprocess.Popen(
        ferrule.arguments("call", "block_long", '{"seconds": 600}'),
        cwd=ferrule.workspace, env=ferrule.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stderr is not None
    assert program.stderr.readline() == "ready\n"
    time.sleep(1)
    program.send_signal(signal.SIGINT)
    _, err = program.communicate(timeout=30)
    assert program.returncode == 130
    assert "`block_long` was interrupted." in err
    assert "Traceback" not in err


def test_every_call_is_on_record_refusals_included(ferrule: Command) -> None:
    """O3."""
    ferrule("call", "echo_text", '{"text": "x"}')
    ferrule("call", "save_note", '{"text": "x"}')
    rows = ferrule("audit", "list", "--json").json
    assert [(row["tool"], row["outcome"]) for row in rows] == [
        ("save_note", "permission_error"),
        ("echo_text", "success"),
    ]


def test_a_workspace_with_an_odd_name_works(ferrule: Command) -> None:
    odd = ferrule.folder / "名字 with 'quotes' and $dollar"
    odd.mkdir()
    done = ferrule("call", "getCurrentDirectory", "--workspace", str(odd), "--json")
    assert done.json["data"]["path"] == str(odd)


def test_output_that_nobody_reads_is_no_traceback(ferrule: Command) -> None:
    line = " ".join(f"'{part}'" for part in ferrule.arguments("call", "echo_text"))
    done = subprocess.run(
        ["bash", "-c", f"{line} '{{\"text\": \"'$(head -c 100000 /dev/zero | tr '\\0' x)'\"}}' | head -c 1"],
        cwd=ferrule.workspace, env=ferrule.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


@pytest.mark.parametrize(
    "environment",
    [
        {"FERRULE_DATA": "/proc/x"},
        {"FERRULE_AUDIT_PATH": "/dev/null"},
        {"FERRULE_AUDIT_PATH": "/etc/passwd"},
        {"FERRULE_AUDIT_PATH": "/"},
    ],
)
def test_a_place_that_cannot_hold_the_records_is_one_line_that_says_what_to_do(
    ferrule: Command, environment: dict[str, str]
) -> None:
    done = ferrule("call", "echo_text", '{"text": "x"}', **environment)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    for remedy in ("FERRULE_DATA", "`audit.path`", "FERRULE_AUDIT_ENABLED=false"):
        assert remedy in done.err
    as_json = ferrule("call", "echo_text", '{"text": "x"}', "--json", **environment)
    assert (as_json.code, as_json.err) == (2, "")
    assert "FERRULE_AUDIT_ENABLED=false" in as_json.json["error"]["suggestion"]
    assert ferrule("call", "echo_text", '{"text": "x"}', FERRULE_AUDIT_ENABLED="false", **environment).code == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), slow(signal.SIGHUP, 129)])
@pytest.mark.parametrize("tool", ["sleep_long", slow("wait_long")])
def test_a_signal_stops_the_tool_records_the_call_and_ends_with_its_code(
    ferrule: Command, tool: str, number: signal.Signals, code: int
) -> None:
    program = subprocess.Popen(
        ferrule.arguments("call", tool, '{"seconds": 60}'), cwd=ferrule.workspace, env=ferrule.environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stderr is not None
    assert program.stderr.readline() == "ready\n"
    program.send_signal(number)
    _out, err = program.communicate(timeout=20)
    assert program.returncode == code
    assert "Traceback" not in err
    assert ferrule("audit", "list", "--json").json[0]["outcome"] == "cancelled_error"


def test_what_was_started_to_outlive_its_terminal_does(ferrule: Command) -> None:
    with subprocess.Popen(
        ["nohup", *ferrule.arguments("call", "wait_long", '{"seconds": 1}')], cwd=ferrule.workspace,
        env=ferrule.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        assert program.stderr is not None
        while program.stderr.readline() != "ready\n":
            assert program.poll() is None
        program.send_signal(signal.SIGHUP)
        assert program.wait(20) == 0


def test_ctrl_c_while_arguments_are_awaited_ends_with_130_and_no_words(ferrule: Command) -> None:
    program = subprocess.Popen(
        ferrule.arguments("call", "echo_text", "-"), cwd=ferrule.workspace, env=ferrule.environment,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _attempt in range(2000):  # until it reads
        waits_in = Path(f"/proc/{program.pid}/wchan").read_text() if Path("/proc/self/wchan").exists() else ""
        if "pipe" in waits_in:
            break
        time.sleep(0.01)
    program.send_signal(signal.SIGINT)
    assert program.communicate(timeout=20) == ("", "")
    assert program.returncode == 130


def test_arguments_from_stdin_that_are_no_text_or_too_much_are_refused_in_words(ferrule: Command) -> None:
    def given(raw: bytes, **environment: str) -> tuple[int, str]:
        done = subprocess.run(
            ferrule.arguments("call", "echo_text", "-"), input=raw, capture_output=True, timeout=60, check=False,
            cwd=ferrule.workspace, env={**ferrule.environment, **environment},
        )  # fmt: skip
        return done.returncode, (done.stdout + done.stderr).decode()

    assert given(b'\xef\xbb\xbf{"text": "after a mark"}') == (0, "after a mark\n")
    code, words = given(b'{"text": "\xff"}')
    assert (code, "not UTF-8: byte 11 is 0xff" in words) == (2, True)
    code, words = given(b'{"text": "much"}', FERRULE_LIMITS_ARGUMENT_BYTES="10")
    assert (code, "more than 10 bytes" in words, "limits.argument_bytes" in words) == (2, True, True)


FULL = '''
import os
from pathlib import Path
from ferrule import tool

@tool(kind="readonly")
def fill_disk(folder: str) -> str:
    """Fill a disk. Use this to see what happens then."""
    with open(f"{folder}/much", "wb", buffering=0) as file:
        for size in (65536, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                pass
    return "full"
'''


def on_a_small_disk(ferrule: Command, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command with its audit log on a disk of a megabyte, in a mount namespace of its own."""
    has_namespaces = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
    needs(has_namespaces, "user and mount namespaces (`unshare -rm`)")
    disk = ferrule.folder / "disk"
    disk.mkdir()
    (ferrule.folder / "tools" / "full.py").write_text(FULL)
    mount = 'mount -t tmpfs -o size=1m none "$DISK" && exec "$@"'
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", mount, "sh", *ferrule.arguments(*arguments)],
        cwd=ferrule.workspace,
        env={**ferrule.environment, "DISK": str(disk), "FERRULE_AUDIT_PATH": f"{disk}/audit.db"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(
    ("acknowledge", "as_json"),
    [
        ("queued", False),
        slow("queued", True),
        slow("committed", False),
        slow("committed", True),
    ],
)
def test_a_disk_that_is_full_for_the_audit_costs_no_result(ferrule: Command, acknowledge: str, as_json: bool) -> None:
    """The call has happened: its result is given, with the note that it is not on record, and a code of its own."""
    with ferrule.settings.open("a") as file:
        file.write(f'[audit]\nacknowledge = "{acknowledge}"\n')
    arguments = json.dumps({"folder": str(ferrule.folder / "disk")})
    done = on_a_small_disk(ferrule, "call", "fill_disk", arguments, *(["--json"] if as_json else []))
    assert done.returncode == 5, done.stderr
    assert "Traceback" not in done.stderr
    assert "Warning: Not on record: The audit log" in done.stderr
    assert "disk is full" in done.stderr
    if as_json:
        document = json.loads(done.stdout)
        assert (document["success"], document["data"]) == (True, "full")
        assert "disk is full" in document["metadata"]["unrecorded"]
    else:
        assert done.stdout == "full\n"


@pytest.mark.slow
def test_on_a_read_only_workspace_bash_says_so_and_blames_no_guard(ferrule: Command) -> None:
    """On a mount that nobody can write it was said that the file is guarded, or outside the workspace."""
    has_namespaces = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0
    needs(has_namespaces, "user and mount namespaces (`unshare -rm`)")
    (ferrule.workspace / ".git").mkdir()
    (ferrule.workspace / "a").touch()
    mount = 'mount --bind . . && mount -o remount,bind,ro . && cd "$PWD" && exec "$@"'
    for command in ("echo hi > new", "echo hi > .git/x", "echo hi > a", "touch new"):
        call = ferrule.arguments("call", "Bash", json.dumps({"command": command}), "--mode", "bypass")
        done = subprocess.run(
            ["unshare", "-rm", "sh", "-c", mount, "sh", *call],
            cwd=ferrule.workspace,
            env=ferrule.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "the workspace is on a read-only file system" in done.stderr, done.stdout
        assert "guarded" not in done.stderr
        assert "outside the workspace" not in done.stderr
