"""`ferrule doctor` lists every MCP server, says which may be used, and tries those; nothing is left running."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mcp_client.peers import alive
from tests.mcp_client.signing_in_peer import signing_in

from ferrule.app.settings import Settings
from ferrule.cli.doctor import mcp_checks

from .conftest import Command
from .mcp_peer import PLAIN, TOOLS, add, started, write_json
from .terminal import CTRL_C, Terminal


def mcp(ferrule: Command, **environment: str) -> dict[str, tuple[str, str]]:
    """What is said of each server."""
    done = ferrule("doctor", "--json", **environment)
    return {one["name"]: (one["state"], one["message"]) for one in done.json if one["name"].startswith("mcp")}


def pids(ferrule: Command) -> list[int]:
    return [int(line.split()[1]) for line in (ferrule.folder / "notes").read_text().splitlines() if "started" in line]


def test_servers_that_work_are_counted_with_the_file_that_names_them(ferrule: Command) -> None:
    """O7."""
    add(ferrule, "one")
    add(ferrule, "two")
    said = f"{TOOLS} tools; it is plain 1 2025-11-25, from {ferrule.settings}"
    assert mcp(ferrule) == {"mcp one": ("ok", said), "mcp two": ("ok", said)}
    assert len(pids(ferrule)) == 2, "each was started once, by nobody else but this check"
    assert not any(alive(pid) for pid in pids(ferrule))
    assert ferrule("doctor").code == 0


def test_hundreds_of_their_tools_do_not_hide_the_other_rows(ferrule: Command) -> None:
    add(ferrule, "one")
    (tools,) = [one["message"] for one in ferrule("doctor", "--json").json if one["name"] == "tools"]
    assert "Read" in tools.split(", ")
    assert "mcp__" not in tools


def test_a_workspaces_server_is_never_started_before_it_is_trusted(ferrule: Command) -> None:
    write_json(ferrule)
    (state, said) = mcp(ferrule)["mcp theirs"]
    file = ferrule.workspace.resolve() / ".mcp.json"
    assert state == "note"
    assert said.startswith(f"not trusted yet, and not started: {sys.executable} -I {PLAIN} good ")
    assert said.endswith(f"({file}). If that is right: ferrule mcp trust theirs")
    assert started(ferrule) == 0
    ferrule("mcp", "trust", "theirs")
    assert mcp(ferrule)["mcp theirs"] == ("ok", f"{TOOLS} tools; it is plain 1 2025-11-25, from {file}")
    file.write_text(file.read_text().replace('"x"', '"y"'))
    state, said = mcp(ferrule)["mcp theirs"]
    assert (state, said.split(",")[0]) == ("note", "changed since you trusted it")
    assert started(ferrule) == 1


@pytest.mark.parametrize(
    ("table", "state", "said"),
    [
        (
            'command = "no-such-program"',
            "fail",
            "there is no program `no-such-program`. Install it, or correct {file}.",
        ),
        (
            'command = "ls"\nenv = { A = "${NOT_SET_ANYWHERE}" }',
            "fail",
            "the variable `NOT_SET_ANYWHERE` is not set. Give it a value, or change {file}.",
        ),
        (
            'command = "ls"\nenv = { A = "${keyring:oops}" }',
            "fail",
            "write a reference to a secret as `${{keyring:service/user}}`. Give it a value, or change {file}.",
        ),
        ('command = "ls"\nenabled = false', "note", "switched off in {file}"),
        (
            f"command = {json.dumps(sys.executable)}\nargs = ['-I', {json.dumps(str(PLAIN))}, 'exit']",
            "fail",
            "it ended with exit code 3. See what it says: ferrule mcp test peer",
        ),
    ],
)
def test_each_reason_is_said_with_what_to_do(ferrule: Command, table: str, state: str, said: str) -> None:
    with ferrule.settings.open("a") as file:
        file.write(f"[mcp_servers.peer]\n{table}\n")
    assert mcp(ferrule)["mcp peer"] == (state, said.format(file=ferrule.settings))
    assert ferrule("doctor").code == (1 if state == "fail" else 0)


def test_a_secret_that_the_keyring_lacks_is_named_and_none_is_shown(ferrule: Command) -> None:
    (ferrule.folder / "keyring.py").write_text("def get_password(service, user):\n    return None\n")
    ferrule("mcp", "add", "--env", "A=${keyring:vault/ann}", "peer", "ls")
    python_path = f"{ferrule.folder}:{ferrule.environment.get('PYTHONPATH', '')}"
    assert mcp(ferrule, PYTHONPATH=python_path)["mcp peer"][1].startswith("the keyring has nothing for vault/ann.")


@pytest.mark.slow
def test_a_keyring_that_waits_for_its_person_holds_nobody_up(ferrule: Command) -> None:
    (ferrule.folder / "keyring.py").write_text("import threading\nget_password = lambda *_: threading.Event().wait()\n")
    ferrule("mcp", "add", "--env", "A=${keyring:vault/ann}", "peer", "ls")
    add(ferrule, "good")
    found = mcp(ferrule, PYTHONPATH=f"{ferrule.folder}:{ferrule.environment.get('PYTHONPATH', '')}")
    assert found["mcp peer"][1].startswith("it has not answered within 10 s")
    assert found["mcp good"][0] == "ok"


def test_an_address_that_nobody_answers_at_and_one_that_wants_a_sign_in(ferrule: Command) -> None:
    with signing_in() as url:
        ferrule("mcp", "add", "locked", url)
        ferrule("mcp", "add", "gone", "http://127.0.0.1:9/mcp")
        found = mcp(ferrule)
    assert found["mcp locked"] == ("note", "it wants you to sign in: ferrule mcp test locked.")
    state, said = found["mcp gone"]
    assert state == "fail"
    assert said.startswith("127.0.0.1:9 cannot be reached: ")
    assert said.endswith(f"Check your network, and the address in {ferrule.settings}.")


@pytest.mark.slow
def test_a_mute_server_is_given_a_few_seconds_and_the_others_are_told_as_ever(ferrule: Command) -> None:
    add(ferrule, "good")
    add(ferrule, "mute", "silent")
    found = mcp(ferrule)
    assert found["mcp good"][0] == "ok"
    assert found["mcp mute"] == (
        "note",
        "it has not answered within 10 s; it may take up to 30 s: ferrule mcp test mute",
    )
    assert len(pids(ferrule)) == 2, "nothing else that doctor tries starts it once more"
    assert not any(alive(pid) for pid in pids(ferrule))


@pytest.mark.slow
def test_one_that_says_something_else_than_messages_is_quoted(ferrule: Command) -> None:
    """R6."""
    add(ferrule, "odd", "says-usage")
    state, said = mcp(ferrule)["mcp odd"]
    assert state == "note"
    sample = "'Usage: server [OPTIONS]'"
    assert said.endswith(f"test odd. Its output contains something that is not a protocol message: {sample}")


def test_while_it_waits_it_says_so_and_ctrl_c_ends_it_with_nothing_left(ferrule: Command) -> None:
    add(ferrule, "mute", "silent")
    environment = {**ferrule.environment, "TERM": "linux"}
    with Terminal(ferrule.arguments("doctor"), ferrule.workspace, environment) as terminal:
        terminal.wait("Waiting for `mute` to start (")
        terminal.press(CTRL_C)
        assert terminal.ended() == 130
        assert "Waiting" not in terminal.text
    assert not any(alive(pid) for pid in pids(ferrule))


def test_servers_that_are_described_wrongly_keep_it_from_nothing(ferrule: Command) -> None:
    add(ferrule, "good")
    with ferrule.settings.open("a") as file:
        file.write('[mcp_servers.both]\ncommand = "ls"\nurl = "https://example.org"\n')
    table = {"sse": {"type": "sse", "url": "https://example.org"}, "good": {"command": "ls"}}
    (ferrule.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": table}))
    done = ferrule("doctor")
    assert done.code == 1
    lines = done.out.splitlines()
    assert any(line.startswith("fail  settings: ") and "`both` has both `command` and `url`" in line for line in lines)
    assert any(line.startswith("fail  mcp: ") and "`sse` uses the old SSE transport" in line for line in lines)
    assert any(line.startswith("note  mcp: ") and "`good` is left out" in line for line in lines)
    assert any(line.startswith(f"ok    mcp good: {TOOLS} tools") for line in lines)
    assert any(line.startswith("ok    call: ") for line in lines)


def test_tools_that_are_left_out_are_told(ferrule: Command) -> None:
    add(ferrule, "peer", "schemas")
    said = [one["message"] for one in ferrule("doctor", "--json").json if one["name"] == "mcp peer"]
    assert "; it is plain 1 2025-11-25" in said[0]
    assert said[1].startswith("the tool `huge` is left out: ")


def test_no_secret_and_nothing_that_passes_for_another_check_is_shown(ferrule: Command) -> None:
    secret = "sk-ant-api03-hunter2hunter2hunter2"
    name = "x\nok    sandbox: all is well\x1b[2J"
    table = {name: {"command": "run\nit", "args": ["--token", secret], "env": {"A": secret}}}
    (ferrule.workspace / ".mcp.json").write_text(json.dumps({"mcpServers": table}))
    complains = f"import sys; sys.exit('no: {secret} and ' + __import__('os').environ['B'])"
    ferrule("mcp", "add", "--env", "B=${MINE}", "loud", "--", sys.executable, "-c", complains)
    done = ferrule("doctor", MINE="grandmother-of-pearl")
    assert "hunter2" not in done.out + done.err
    assert "grandmother" not in done.out + done.err
    assert "\x1b" not in done.out
    assert not any(line.startswith("ok    sandbox: all is well") for line in done.out.splitlines())


def test_without_servers_it_says_so_and_imports_nothing_for_it(tmp_path: Path) -> None:
    (found,) = mcp_checks(Settings(), tmp_path)
    assert (found.name, found.state, found.message[:10]) == ("mcp", "ok", "no servers")
    script = (
        "import sys; from pathlib import Path; from ferrule.app.settings import Settings\n"
        "from ferrule.cli.doctor import mcp_checks; before = set(sys.modules)\n"
        "list(mcp_checks(Settings(), Path.cwd())); new = set(sys.modules) - before\n"
        "print([name for name in new if name.startswith(('mcp', 'asyncio', 'ferrule.mcp'))])\n"
        "print([name for name in sys.modules if name.split('.')[0] == 'mcp' or 'mcp_client' in name])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n[]\n"


def test_it_is_told_in_chinese_too(ferrule: Command) -> None:
    write_json(ferrule)
    assert "mcp theirs：尚未信任，未启动：" in ferrule("--lang", "zh", "doctor").out
