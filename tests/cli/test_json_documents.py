"""With `--json` standard output is one document, whatever happens: what others print and how it fails included."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
import pytest

from ferrule.cli import output
from ferrule.cli.main import COMMANDS
from ferrule.cli.mcp import COMMANDS as MCP_COMMANDS

from .terminal import Terminal
from .test_main import in_a_shell

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Command

NOISY = '''
import ctypes, os, subprocess, sys, warnings
from ferrule import tool

print("a plugin is imported")
os.write(1, b"a plugin writes to the descriptor\\n")

@tool(kind="readonly")
def make_noise(text: str = "") -> str:
    """Make noise. Use this to test."""
    print("a tool prints")
    sys.__stdout__.write("a tool writes to Python's own stream\\n")
    os.write(1, b"a tool writes to the descriptor\\n")
    subprocess.run(["sh", "-c", "echo a child prints; echo a child complains >&2"])
    libc = ctypes.CDLL(None)
    libc.puts(b"a library prints")
    libc.fflush(None)
    warnings.warn("a warning")
    return f"the result {text}".rstrip()
'''
PRINTED = (
    "a plugin is imported",
    "a plugin writes to the descriptor",
    "a tool prints",
    "a tool writes to Python's own stream",
    "a tool writes to the descriptor",
    "a child prints",
    "a child complains",
    "a library prints",
    "a warning",
)


@pytest.fixture
def noisy(ferrule: Command) -> Command:
    (ferrule.folder / "tools" / "noisy.py").write_text(NOISY)
    return ferrule


def with_json() -> Iterator[tuple[str, ...]]:
    """Every command that has `--json`, as it is typed."""
    groups = {(): COMMANDS, ("mcp",): MCP_COMMANDS}
    for above, names in groups.items():
        for name, (module, _summary) in names.items():
            command = getattr(import_module(f"ferrule.cli.{module}"), f"{name}_command")
            yield from _with_json(command, (*above, name))


def _with_json(command: click.Command, typed: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if any("--json" in parameter.opts for parameter in command.params):
        yield typed
    for name, inner in (command.commands if isinstance(command, click.Group) else {}).items():
        yield from _with_json(inner, (*typed, name))


EVERY = sorted(set(with_json()))


def error_of(out: str) -> dict[str, Any]:
    document = json.loads(out)
    assert set(document["error"]) == {"type", "message", "details", "suggestion"}
    return document["error"]


def test_the_commands_are_found() -> None:
    assert {("call",), ("explain",), ("audit", "verify"), ("mcp", "test"), ("rules", "test")} < set(EVERY)
    assert len(EVERY) >= 20


@pytest.mark.parametrize("command", EVERY, ids=" ".join)
def test_an_option_that_does_not_exist_is_a_document(ferrule: Command, command: tuple[str, ...]) -> None:
    done = ferrule("--lang", "zh", *command, "--nonsense", "--json")
    assert (done.code, done.err) == (2, "")
    error = error_of(done.out)
    assert error["type"] == "usage_error"
    assert "--nonsense" in error["message"]
    assert error["suggestion"] == f"See `ferrule {' '.join(command)} --help`."


NEED: dict[tuple[str, ...], list[str]] = {
    ("call",): ["save_note"],
    ("explain",): ["save_note"],
    ("approvals", "approve"): ["a1"],
    ("approvals", "deny"): ["a1"],
    ("approvals", "show"): ["a1"],
    ("keys", "create"): ["ann"],
    ("keys", "revoke"): ["k"],
    ("keys", "rotate"): ["k"],
    ("roles", "set"): ["clerk"],
    ("tenants", "change"): ["acme"],
    ("tenants", "create"): ["acme"],
    ("users", "change"): ["ann"],
    ("users", "create"): ["ann"],
    ("run",): ["hi"],
    ("mcp", "test"): ["peer"],
}
NO_SETTINGS = {
    ("doctor",),
    *(("market", name) for name in ("add", "list", "publish", "refresh", "remove", "search", "show")),
    ("plugin", "list"),
    ("plugin", "show"),
    ("rules", "test"),
    ("rules", "import"),
    ("draft", "list"),
    ("shells", "list"),
    ("shells", "stop"),
    ("shells", "output"),
}


@pytest.mark.parametrize("command", [one for one in EVERY if one not in NO_SETTINGS], ids=" ".join)
def test_settings_that_are_broken_are_a_document(ferrule: Command, command: tuple[str, ...]) -> None:
    ferrule.settings.write_text("[limits\n")
    more = ["1"] if command == ("audit", "show") else NEED.get(command, [])
    done = ferrule(*command, *more, "--json")
    assert (done.code, done.err) == (2, "")
    error = error_of(done.out)
    assert error["type"] == "settings_error"
    assert str(ferrule.settings) in error["message"]


@pytest.mark.parametrize(
    ("arguments", "code", "kind", "says"),
    [
        (["nonsense", "--json"], 2, "usage_error", "There is no command `nonsense`."),
        (["diff", "--json"], 2, "usage_error", "--json"),
        (["call", "--json"], 2, "usage_error", "TOOL"),
        (["call", "--json=yes", "echo_text"], 2, "usage_error", "--json"),
        (["call", "echo_text", "--workspace", "nowhere", "--json"], 2, "usage_error", "nowhere"),
        (["call", "echo_text", "--json", "--timeout", "soon"], 2, "usage_error", "not a number of seconds"),
        (["call", "no_such_tool", "--json"], 1, "not_found_error", "no_such_tool"),
        (["call", "echo_text", "{", "--json"], 1, "validation_error", "not accepted"),
        (["call", "fail_politely", "--json"], 1, "execution_error", "It is broken."),
        (["call", "save_note", '{"text": "x"}', "--json"], 3, "permission_error", "was not run"),
        (["call", "hang_around", "--json"], 4, "timeout_error", "time limit"),
        (["explain", "no_such_tool", "--json"], 1, "not_found_error", "no_such_tool"),
        (["explain", "echo_text", '{"txt": 1}', "--json"], 1, "validation_error", "2 problems"),
        (["explain", "echo_text", "not json", "--json"], 1, "validation_error", "not accepted"),
        (["explain", "--json"], 2, "usage_error", "TOOL"),
        (["explain", "echo_text", "--mode", "fast", "--json"], 2, "usage_error", "fast"),
        (["run", "", "--json"], 2, "usage_error", "The request is empty."),
        (["run", "hi", "--model", "nobody/nothing", "--json"], 2, "model_error", "nobody"),
        (["run", "hi", "--continue", "--json"], 2, "usage_error", "no session"),
        (["tools", "--dialect", "nonsense", "--json"], 2, "usage_error", "nonsense"),
        (["lint", "nowhere", "--json"], 2, "usage_error", "nowhere"),
        (["audit", "show", "7", "--json"], 2, "usage_error", "no audit log"),
        (["audit", "verify", "--json"], 2, "audit_error", "no audit log"),
        (["audit", "--file", "ferrule.toml", "list", "--json"], 2, "audit_error", "ferrule.toml"),
        (["stats", "--since", "yesterday", "--json"], 2, "usage_error", "is not a time"),
        (["stats", "--file", "ferrule.toml", "--json"], 2, "audit_error", "ferrule.toml"),
        (["history", "--limit", "none", "--json"], 2, "usage_error", "--limit"),
        (["undo", "--to", "-3", "--json"], 2, "usage_error", "--to"),
        (["rules", "test", "Bash(", "x", "--json"], 2, "settings_error", "Bash("),
        (["rules", "import", "nowhere.json", "--json"], 2, "usage_error", "nowhere.json"),
        (["mcp", "test", "nobody", "--json"], 2, "execution_error", "nobody"),
        (["shells", "stop", "--json", "bash_9"], 2, "usage_error", "bash_9"),
        (["shells", "output", "bash_9", "--json"], 2, "usage_error", "bash_9"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_whatever_is_wrong_is_a_document_in_english(
    ferrule: Command, arguments: list[str], code: int, kind: str, says: str
) -> None:
    (ferrule.workspace / "ferrule.toml").write_text("# no audit log\n")
    done = ferrule(*arguments, FERRULE_LANG="zh")
    assert done.code == code, done.err
    error = error_of(done.out)
    assert error["type"] == kind
    assert says in error["message"]


def test_what_others_print_is_on_standard_error(noisy: Command) -> None:
    done = noisy.process("call", "make_noise", "--json")
    assert done.code == 0
    assert done.json["llm_content"] == "the result"
    for printed in PRINTED:
        assert printed in done.err


def test_so_it_is_in_words(noisy: Command) -> None:
    """Standard output is exactly the result, also in a file."""
    done = noisy.process("call", "make_noise")
    assert (done.code, done.out) == (0, "the result\n")
    for printed in PRINTED:
        assert printed in done.err


@pytest.mark.parametrize(
    "arguments", [["tools"], ["tools", "make_noise"], ["explain", "make_noise"], ["lint"]], ids=" ".join
)
def test_nor_does_it_get_between_the_lines_of_a_table(noisy: Command, arguments: list[str]) -> None:
    done = noisy.process(*arguments)
    assert "a plugin" not in done.out
    assert PRINTED[0] in done.err


@pytest.mark.parametrize(
    "arguments",
    [["tools", "--json"], ["tools", "--dialect", "anthropic"], ["explain", "make_noise", "--json"], ["lint", "--json"],
     ["doctor", "--json"], ["rules", "list", "--json"]],
    ids=" ".join,
)  # fmt: skip
def test_a_plugin_that_prints_does_no_harm(noisy: Command, arguments: list[str]) -> None:
    done = noisy.process(*arguments)
    assert done.json
    assert PRINTED[0] in done.err
    assert PRINTED[1] in done.err


def noisy_turn(noisy: Command) -> str:
    script = noisy.folder / "script.json"
    asked = {"text": "", "calls": [{"name": "make_noise", "arguments": {}}]}
    script.write_text(json.dumps([asked, "All done."]))
    return f"--model=scripted:{script}"


def test_a_run_prints_a_document_a_line_for_each_event_or_its_answer_alone(noisy: Command) -> None:
    model = noisy_turn(noisy)
    document = noisy.process("run", "go", model, "--json")
    assert document.json["calls"][0]["result"]["llm_content"] == "the result"
    events = [json.loads(line) for line in noisy.process("run", "go", model, "--stream-json").out.splitlines()]
    assert (events[0]["type"], events[-1]["type"]) == ("start", "turn_ended")
    plain = noisy.process("run", "go", model)
    assert plain.out == "All done.\n"
    for done in (document, plain):
        assert "a child prints" in done.err


def test_the_lines_of_a_run_that_cannot_begin_are_one_with_the_error(ferrule: Command) -> None:
    done = ferrule("run", "hi", "--model", "nobody/nothing", "--stream-json")
    (line,) = done.out.splitlines()
    event = json.loads(line)
    assert (done.code, event["type"], event["error"]["type"]) == (2, "error", "model_error")


@pytest.mark.parametrize("command", ["call", "explain"])
def test_arguments_come_from_standard_input_wherever_they_are_taken(ferrule: Command, command: str) -> None:
    done = ferrule(command, "echo_text", "-", "--json", stdin='{"text": "from a pipe"}')
    assert done.code == 0, done.out
    wrong = ferrule(command, "echo_text", "-", "--json", stdin="[1]")
    assert error_of(wrong.out)["type"] == "validation_error"
    closed = ferrule.workspace / "out"
    line = f"FERRULE <&- >{shlex.quote(str(closed))}"
    assert in_a_shell(ferrule, line, command, "echo_text", "-", "--json")[0] == 2
    assert "closed" in error_of(closed.read_text())["message"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("tool", ["sleep_long", "wait_long"])
def test_a_call_that_is_stopped_is_a_document(ferrule: Command, tool: str, number: signal.Signals) -> None:
    program = subprocess.Popen(
        ferrule.arguments("call", tool, '{"seconds": 600}', "--json"),
        cwd=ferrule.workspace, env=ferrule.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert program.stderr is not None
    assert program.stderr.readline() == "ready\n"
    program.send_signal(number)
    out, _ = program.communicate(timeout=60)
    assert error_of(out)["type"] == "cancelled_error"
    assert program.returncode == (130 if number is signal.SIGINT else 143)


@pytest.mark.parametrize("after", [0.15, 0.3, 0.6, 1.2])
def test_ctrl_c_at_any_moment_leaves_one_document_or_none_half(ferrule: Command, after: float) -> None:
    program = subprocess.Popen(
        ferrule.arguments("doctor", "--json"),
        cwd=ferrule.workspace, env=ferrule.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(after)
    program.send_signal(signal.SIGINT)
    out, err = program.communicate(timeout=60)
    if program.returncode == 130:
        assert error_of(out)["type"] == "cancelled_error"
    elif program.returncode in (0, 1) and "KeyboardInterrupt" not in err:
        assert isinstance(json.loads(out), list)


def test_a_log_that_cannot_be_written_is_a_document(ferrule: Command) -> None:
    (ferrule.folder / "data").write_text("a file where a folder should be")
    done = ferrule("call", "echo_text", '{"text": "x"}', "--json")
    assert (done.code, done.err) == (2, "")
    assert error_of(done.out)["message"].startswith("Cannot open the audit log")


def test_a_program_that_breaks_still_gives_a_document(ferrule: Command) -> None:
    """What nobody expected: the traceback is on standard error, and the document says that it failed."""
    (ferrule.folder / "sitecustomize.py").write_text(
        "import ferrule.records.statistics as usage\n"
        "def broken(*_, **__):\n"
        "    raise LookupError('of all things')\n"
        "usage.statistics_of = broken\n"
    )
    ferrule("call", "echo_text", '{"text": "x"}')
    done = ferrule.from_cold("stats", "--json", PYTHONPATH=str(ferrule.folder))
    assert (done.code, error_of(done.out)["message"]) == (1, "LookupError: of all things")
    assert "Traceback" in done.err


@pytest.mark.parametrize(
    "arguments", [["tools"], ["tools", "--json"], ["call", "make_noise", "--json"], ["call", "make_noise"]]
)
def test_a_reader_who_has_gone_is_no_complaint(noisy: Command, arguments: list[str]) -> None:
    code, err = in_a_shell(noisy, "set -o pipefail; { sleep 0.2; exec FERRULE; } | true", *arguments)
    assert code == 141
    assert "Error" not in err
    assert "Exception" not in err


@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_a_document_that_cannot_be_written_is_one_line(ferrule: Command, where: str) -> None:
    code, err = in_a_shell(ferrule, f"FERRULE {where}", "call", "getCurrentDirectory", "--json")
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("Error: The output could not be written: ")


def test_closed_standard_error_does_no_harm(noisy: Command) -> None:
    file = noisy.workspace / "out"
    code, _ = in_a_shell(noisy, f"FERRULE 2>&- >{shlex.quote(str(file))}", "call", "make_noise", "--json")
    assert (code, json.loads(file.read_text())["llm_content"]) == (0, "the result")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_document_is_utf_8_in_every_locale(noisy: Command, encoding: str) -> None:
    done = subprocess.run(
        noisy.arguments("call", "make_noise", json.dumps({"text": "é 名 😀"}), "--json"),
        cwd=noisy.workspace, env={**noisy.environment, "PYTHONIOENCODING": encoding}, capture_output=True, timeout=60,
        check=True,
    )  # fmt: skip
    assert json.loads(done.stdout.decode("utf-8"))["llm_content"] == "the result é 名 😀"


def test_help_is_help(ferrule: Command) -> None:
    for arguments in (["tools", "--json", "--help"], ["tools", "--help", "--json"]):
        done = ferrule(*arguments)
        assert (done.code, done.out.splitlines()[0]) == (0, "Usage: ferrule tools [OPTIONS] [QUERY]...")


def test_what_is_another_programs_option_is_not_ours(ferrule: Command) -> None:
    done = ferrule("mcp", "add", "peer", "ftp://nowhere", "--json")
    assert (done.code, done.out) == (2, "")
    assert "ftp://nowhere" in done.err


def test_the_question_of_a_call_is_in_the_persons_language_and_the_document_is_not(ferrule: Command) -> None:
    environment = {**ferrule.environment, "TERM": "linux", "FERRULE_LANG": "zh"}
    command = ferrule.arguments("call", "save_note", '{"text": "x"}', "--json")
    file = ferrule.workspace / "out"
    line = ["sh", "-c", f"{shlex.join(command)} >{shlex.quote(str(file))}"]
    with Terminal(line, ferrule.workspace, environment) as terminal:
        terminal.wait("[y/a/s/N]")
        assert "运行吗？" in terminal.text
        terminal.type("n\n")
        assert terminal.ended() == 3
    assert error_of(file.read_text())["message"] == "`save_note` was not run: the user denied it."


def test_numbers_without_a_form_in_json_are_words(capsys: pytest.CaptureFixture[str]) -> None:
    output.write_json({"a": float("nan"), "b": [float("-inf")], "c": 1.5, "d": object})
    assert json.loads(capsys.readouterr().out) == {"a": "NaN", "b": ["-Infinity"], "c": 1.5, "d": str(object)}


def test_a_pipe_that_does_not_wait_gets_all_of_it() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    own = output._OwnOutput(writing, "utf-8", "strict")
    child = os.fork()
    if not child:
        own.write("x" * 1_000_000)
        os._exit(0)
    os.close(writing)
    time.sleep(0.1)
    with os.fdopen(reading, "rb") as file:
        assert len(file.read()) == 1_000_000
    assert os.waitpid(child, 0)[1] == 0
