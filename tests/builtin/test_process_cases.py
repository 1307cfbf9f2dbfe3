"""What shell commands try, and what must hold all the same: sandboxed, as root and as an ordinary user (P6, P10, S2).

One table. A case is a session of commands in a fresh workspace, run through the real pipeline in a Ferrule of its own,
and what must be true of the results. What needs more than that stands below the table.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.builtin.shell_case import Ferrule, Told
from tests.needs import needs
from tests.process.shell.shell_room import alive, becomes, gone, new_mark
from tests.process.shell.test_ownership import ESCAPES, python_for, user_cases

MARK = new_mark()


def bash(command: str, **arguments: Any) -> list[Any]:
    return ["Bash", {"command": command, **arguments}]


def short(command: str) -> list[Any]:
    return bash(command, timeout=1000)


@dataclass
class Case:
    steps: list[Any]
    holds: Callable[[list[Told], Path], object]
    files: dict[str, str] = field(default_factory=dict[str, str])
    given: dict[str, Any] = field(default_factory=dict[str, Any])


def says(*words: str, last: int = -1) -> Callable[[list[Told], Path], object]:
    """The last result has all these words."""
    return lambda told, root: all(word in told[last].words for word in words)


def writes(text: str) -> Callable[[list[Told], Path], object]:
    """The last command wrote just this."""
    return lambda told, root: told[-1].out == text


def codes(*expected: int | None) -> Callable[[list[Told], Path], object]:
    return lambda told, root: tuple(one.code for one in told) == expected


def silent(*words: str) -> Callable[[list[Told], Path], object]:
    """No result has one of these words."""
    return lambda told, root: not any(word in str(one.words) + str(one.data) for one in told for word in words)


def both(*all_of: Callable[[list[Told], Path], object]) -> Callable[[list[Told], Path], object]:
    return lambda told, root: all(one(told, root) for one in all_of)


def refused(*words: str) -> Callable[[list[Told], Path], object]:
    return lambda told, root: told[-1].error == "permission_error" and all(one in told[-1].words for one in words)


def timed_out(*words: str) -> Callable[[list[Told], Path], object]:
    """The first is ended, nothing of it is left, and the session goes on."""
    return lambda told, root: (
        told[0].error == "timeout_error"
        and all(one in told[0].words for one in words)
        and told[-1].out == "on\n"
        and not alive(MARK)
    )


def kept(path: str, text: str) -> Callable[[list[Told], Path], object]:
    return lambda told, root: (root / path).read_text() == text


def absent(*paths: str) -> Callable[[list[Told], Path], object]:
    return lambda told, root: not any(os.path.lexists(root / path) for path in paths)


def at_once(command: str, *words: str) -> Case:
    """A command that asks gets end of file: nothing waits for its time limit, which would be an error."""
    return Case([command, "echo on"], both(says(*words, last=0), writes("on\n")))


REPOSITORY = {".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n", ".git/hooks/x.sample": ""}
REPOSITORIES = REPOSITORY | {f"inner/{path}": text for path, text in REPOSITORY.items()}
GUARDED = "which is guarded"
ENV = {".env": "KEY=topsecret\n", "deep/.env": "KEY=topsecret\n"}
DENIED: dict[str, Any] = {"rules": {"deny": ["Read(.env)"]}}
HIDDEN = both(silent("topsecret"), kept(".env", "KEY=topsecret\n"))

CASES: dict[str, Case] = {
    # The session
    "the folder stays": Case(["mkdir a; cd a", "pwd"], lambda told, root: told[-1].out == f"{root}/a\n"),
    "the folder can be elsewhere": Case(["cd /tmp", "pwd"], writes("/tmp\n")),
    "variables stay": Case(["export A=1; B=2", 'echo $A$B; sh -c "echo $A"'], writes("12\n1\n")),
    "functions stay": Case(["f() { echo called; }", "f"], writes("called\n")),
    "options stay": Case(
        ["set -u; shopt -s nullglob", "echo x*; echo $missing"], lambda told, _: told[1].data["exit_code"] in (1, 127)
    ),
    "aliases stay": Case(["shopt -s expand_aliases; alias ll='echo listed'", "ll"], writes("listed\n")),
    "exit ends the command, not the tool": Case(["x=5; exit 3", "echo on$x"], both(codes(3, 0), writes("on\n"))),
    "set -e ends the command, not the tool": Case(["set -e; false; echo no", "echo on"], codes(1, 0)),
    "exec ends the command, not the tool": Case(["exec ls", "echo on"], both(codes(0, 0), writes("on\n"))),
    "a syntax error is told with its line": Case(["echo a\nif then"], says("line 2: syntax error", "exit code 2")),
    "exit codes are told": Case(["true", "false", "bash -c 'exit 255'", "nosuch"], codes(0, 1, 255, 127)),
    "signals are told": Case(["sh -c 'kill -TERM $$'", "kill -9 $$", "echo on"], codes(143, 137, 0)),
    "a folder that is not there is an error": Case(
        [bash("echo ran", working_directory="nope")],
        lambda told, root: told[0].error == "not_found_error" and "There is no folder `nope`" in told[0].words,
    ),
    "a folder can be given": Case(
        [bash("pwd", working_directory="a")], lambda told, root: told[0].out == f"{root}/a\n", {"a/x": ""}
    ),
    "NUL is refused": Case([bash("echo a\0b")], lambda told, root: told[0].error == "validation_error"),
    "nothing is refused": Case([bash(" \n")], lambda told, root: told[0].error == "validation_error"),
    "a megabyte of command runs": Case([f": {'x ' * 490_000}\necho done"], writes("done\n")),
    "a batch keeps its order": Case(
        [["batch", [bash(f"echo {number} >>log; cat log") for number in range(4)]]], writes("0\n1\n2\n3\n")
    ),
    "a command on a terminal has the same state": Case(
        [bash("echo t; x=1", terminal=True), "echo p$x"], writes("p1\n")
    ),
    # Time limits
    **{
        f"time ends {name}": Case([short(escape.replace("MARK", MARK)), "echo on"], timed_out())
        for name, escape in ESCAPES.items()
        if name in ("setsid", "nohup", "double fork", "respawn", "daemon", "no TERM", "stopped")
    },
    "what it wrote until then is told": Case(
        [short(f"echo before; echo Traceback >&2; sleep {MARK}"), "echo on"],
        timed_out("before", "Traceback", "within 1 s"),
    ),
    "a loop in the shell itself ends": Case([short("while :; do :; done"), "echo on"], timed_out()),
    "background processes hold nothing up": Case(
        [f"sleep {MARK} & echo started", "echo on"],
        both(says("started", "it was stopped", "`run_in_background`", last=0), lambda told, root: not alive(MARK)),
    ),
    "time can move it to the background": Case(
        [
            bash("sleep 1.2; echo later; exit 5", timeout=300, background_on_timeout=True),
            ["BashOutput", {"shell_id": "bash_1", "wait_for": "later"}],
            ["BashOutput", {"shell_id": "bash_1", "wait_for": "never"}],
        ],
        both(says("goes on in the background as `bash_1`", last=0), says("later", last=1), says("exit code 5")),
    ),
    # Output
    "a flood is counted exactly": Case(
        ["yes 0123456 | head -c 60000000"],
        lambda told, root: (
            f"bytes left out; the whole output is in `{told[0].data['output_file']}`" in told[0].words
            and Path(told[0].data["output_file"]).stat().st_size == 60_000_000
            and _left_out(told[0]) == 60_000_000
        ),
    ),
    "the file with all of it can be read by the next command": Case(
        ["seq 100000 | tee full; exit 4", "cmp full $(ls -d /*/*{,/*}/data/outputs/*/output-* 2>/dev/null | tail -1)"],
        both(codes(4, 0), lambda told, root: told[0].data["output_file"] is not None),
    ),
    "binary output does no harm": Case(["head -c 3000 /dev/urandom; echo; echo end"], says("end")),
    "bytes that are no UTF-8 are replaced": Case(["printf 'a\\xffb\\n'"], writes("a\ufffdb\n")),
    "a line without its end is whole": Case(["printf 'no end'"], writes("no end")),
    "streams are apart": Case(
        ["echo out; echo err >&2"], lambda told, root: (told[0].out, told[0].data["stderr"]) == ("out\n", "err\n")
    ),
    "colours are taken off": Case(["printf '\\033[31mred\\033[0m\\n'"], writes("red\n")),
    "the clipboard cannot be set": Case(["printf '\\033]52;c;aGk=\\007x\\n'"], writes("x\n")),
    "the title cannot be set": Case(["printf '\\033]0;evil\\007x\\n'"], writes("x\n")),
    "the cursor cannot be moved": Case(["printf 'a\\033[2J\\033[1;1Hb\\n'"], writes("ab\n")),
    "progress reads as it ended": Case(["printf '10%%\\r20%%\\rdone\\n'"], writes("done\n")),
    "links are text": Case(["printf '\\033]8;;http://evil\\033\\\\text\\033]8;;\\033\\\\\\n'"], writes("text\n")),
    # Input
    "read gets the end": at_once("read x; echo [$x]", "[]"),
    "cat gets the end": at_once("cat"),
    "input() gets the end": at_once("python3 -c 'input()'", "EOFError"),
    "getpass gets the end": at_once("python3 -c 'import getpass; getpass.getpass()'", "EOFError"),
    "the terminal cannot be opened": at_once("read x </dev/tty", "No such device"),
    "an interpreter ends": at_once("python3"),
    "git asks for nothing": at_once("git -c user.name=a -c user.email=b commit --allow-empty", "exit code"),
    "a prompt on a terminal is answered": Case(
        [bash("read -p 'name? ' x; echo got $x", terminal=True), ["BashInput", {"text": "bob\n"}]],
        both(says("waits for input after `name? `", last=0), says("got bob")),
    ),
    "a password on a terminal is answered": Case(
        [
            bash("python3 -c 'import getpass; print(len(getpass.getpass()))'", terminal=True),
            ["BashInput", {"text": "hunter2\n"}],
        ],
        both(says("waits for input after `Password: `", last=0), says("7"), silent("hunter2")),
    ),
    "Ctrl-C ends what waits": Case(
        [bash("cat", terminal=True), ["BashInput", {"text": "\x03"}], bash("echo on", terminal=True)],
        lambda told, root: told[1].data["exit_code"] == 130 and "on" in told[2].words,
    ),
    "what a terminal's command removes can be undone": Case(
        [bash("read x; rm a", terminal=True), ["BashInput", {"text": "\n"}], ["undo"]], kept("a", "1"), {"a": "1"}
    ),
    # Secrets
    "variables with secrets are not there": Case(["env; export; set"], silent("shownsecret")),
    "no process shows them": Case(
        ["cat /proc/[0-9]*/environ /proc/self/environ | tr '\\0' '\\n'; ls /proc"], silent("shownsecret")
    ),
    "the other processes of the machine are not there": Case(
        ["ls -d /proc/[0-9]* | wc -l"], lambda told, root: int(told[0].out) < 20
    ),
    "memory of others cannot be read": Case(["cat /proc/1/mem | head -c 1"], silent("shownsecret")),
    "keys of the home are hidden": Case(["cat ~/.ssh/id_rsa ~/.aws/credentials; ls -A ~"], silent("homesecret")),
    "other homes are not there": Case(["ls -A /home", "ls -A /root/.ssh", "cat /root/.bashrc"], codes(2, 2, 1)),
    "passwords of the system are hidden": Case(["cat /etc/shadow"], lambda told, root: told[0].code == 1),
    "temporary files of others are not there": Case(
        ["ls -A /tmp/ | head", "touch /tmp/mine && ls /tmp/mine"],
        lambda told, root: told[1].code == 0 and not Path("/tmp/mine").exists(),
    ),
    # Places
    "outside nothing is written": Case(
        ["echo x >/etc/made-by-ferrule"], says("The sandbox kept the command from writing", "ask the user to add")
    ),
    "programs cannot be replaced": Case(["touch /usr/bin/made"], says("The sandbox kept", "`/usr/bin/made`")),
    "the folder above cannot be written": Case(
        ["touch ../made"], lambda told, root: not (root.parent / "made").exists()
    ),
    "git's hooks are locked": Case(
        ["echo x >.git/hooks/pre-commit"], both(says(GUARDED), absent(".git/hooks/pre-commit")), REPOSITORIES
    ),
    "git's configuration is locked": Case(
        ["echo '[alias]' >>.git/config"], both(says(GUARDED), kept(".git/config", "[core]\n")), REPOSITORIES
    ),
    "nested repositories are locked": Case(
        ["echo x >inner/.git/hooks/pre-push"], both(says(GUARDED), absent("inner/.git/hooks/pre-push")), REPOSITORIES
    ),
    "git's folder cannot be moved": Case(
        ["mv .git aside; mkdir -p .git/hooks; echo x >.git/hooks/y"], absent("aside", ".git/hooks/y"), REPOSITORIES
    ),
    "hooks of a new repository are taken back": Case(
        ["git init -q new", "echo x >new/.git/hooks/pre-commit"],
        both(says(GUARDED), absent("new/.git/hooks/pre-commit")),
    ),
    "settings that are not there cannot be made": Case(
        ["echo x >ferrule.toml; mkdir .vscode .claude; echo {} >.vscode/tasks.json; echo {} >.claude/settings.json"],
        both(says(GUARDED, "`ferrule.toml`", "`.vscode`"), absent("ferrule.toml", ".vscode", ".claude")),
    ),
    "settings that are there cannot be changed": Case(
        ["echo x >>ferrule.toml", "rm ferrule.toml", "mv ferrule.toml x"],
        both(says(GUARDED, last=0), kept("ferrule.toml", "# mine\n")),
        {"ferrule.toml": "# mine\n"},
    ),
    # One policy for reading
    "cat of what is denied": Case(["cat .env"], both(HIDDEN, refused("Read(.env)")), ENV, DENIED),
    "a redirect of it": Case(["sort < .env"], both(HIDDEN, refused("Read(.env)")), ENV, DENIED),
    "a program that opens it": Case(
        ['python3 -c \'print(open(".e" + "nv").read())\''],
        both(HIDDEN, says("reading it needs approval, or a rule denies it")),
        ENV,
        DENIED,
    ),
    "a search over it": Case(["grep -r KEY ."], HIDDEN, ENV, DENIED),
    "another name for it": Case(
        [
            'python3 -c \'import os; os.link(".e" "nv", "b")\'; cat b',
            'python3 -c \'import os; os.rename(".e" "nv", "b")\'',
        ],
        HIDDEN,
        ENV,
        DENIED,
    ),
    # The network
    "no network, and it is said": Case(
        ["curl -s http://example.org/"], says("exit code", "`example.org`: it has no network", "`hosts` of `[sandbox]`")
    ),
    "no network behind a pipe": Case(["curl -s http://192.0.2.1/ | cat"], says("`192.0.2.1`: it has no network")),
    "no network for programs of one's own": Case(
        ["python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 5)'"], says("it has no network")
    ),
    "another host than the allowed is refused by name": Case(
        ["curl -sS http://other.example/"],
        both(says("`other.example`, which is not an allowed host"), silent("still running")),
        given={"sandbox": {"hosts": ["one.example"]}},
    ),
    "after a time-out the network is still there": Case(
        [short(f"sleep {MARK}"), "curl -sS http://other.example/"],
        says("`other.example`, which is not an allowed host"),
        given={"sandbox": {"hosts": ["one.example"]}},
    ),
    # Bounds
    "a fork bomb ends with its time": Case(
        [bash("f() { f | f & f; }; f", timeout=1500), "echo on"], timed_out(), given={"rules": {"dangerous": "allow"}}
    ),
    "files are bounded": Case(["truncate -s 9G big"], says("`shell.file_size` in the user's settings sets the limit")),
    "no privilege is left": Case(
        ["grep CapEff /proc/self/status; unshare -rn id"], says("0000000000000000", "not permitted")
    ),
    "init cannot be killed": Case(["kill -9 1 2>/dev/null; echo on"], writes("on\n")),
    "no core is left": Case(["sh -c 'kill -SEGV $$'; ls -A"], lambda told, root: "core" not in told[0].out),
    # Undo
    "rm is undone": Case(["rm -r d", ["undo"]], both(kept("d/a", "1"), kept("d/b", "2")), {"d/a": "1", "d/b": "2"}),
    "mv is undone": Case(["mv a b", ["undo"]], both(kept("a", "1"), absent("b")), {"a": "1"}),
    "sed -i is undone": Case(["sed -i s/1/2/ a", ["undo"]], kept("a", "1"), {"a": "1"}),
    "what undo does not cover is said": Case(
        ["mkdir .svn; echo 1 > .svn/a", "rm -r .svn"], says("Undo does not cover `.svn`")
    ),
    "a command in the background is undone": Case(
        [
            bash("rm a", run_in_background=True),
            ["BashOutput", {"shell_id": "bash_1", "wait_for": "x"}],
            "true",
            ["undo"],
        ],
        kept("a", "1"),
        {"a": "1"},
    ),
    # Modes
    "plan runs what only reads": Case(["cat a"], writes("1"), {"a": "1"}, {"rules": {"mode": "plan"}}),
    "plan keeps nothing that a command changes": Case(
        ["rm a"], both(says("mode plan", "delete a"), kept("a", "1")), {"a": "1"}, {"rules": {"mode": "plan"}}
    ),
    "plan runs interpreters": Case(["python3 -c 'print(1)'"], writes("1\n"), given={"rules": {"mode": "plan"}}),
    "plan keeps nothing under the assistant's name either": Case(
        [["executeCommand", {"command": "touch made"}]],
        both(says("mode plan", "create made"), absent("made")),
        given={"rules": {"mode": "plan"}},
    ),
    "bypass asks about what is dangerous": Case(
        ["rm -rf d"], both(refused("dangerous"), kept("d/a", "")), {"d/a": ""}, {"rules": {}}
    ),
}


def _left_out(told: Told) -> int:
    """The bytes that are shown and those that are said to be left out, together."""
    head, _, rest = told.words.partition("[… ")
    said, _, tail = rest.partition(" …]\n")
    left = int(said.partition(" bytes")[0].rpartition(" ")[2].replace(",", ""))
    return left + len(head) + len(re.split(r"\n\[The (?:whole|output) ", tail)[0]) + 1


@pytest.fixture(scope="module", params=user_cases())
def ferrule(request: pytest.FixtureRequest) -> Iterator[Ferrule]:
    needs(python_for(request.param), "a Python that an ordinary user can start")
    made = Ferrule(request.param)
    for name in (".ssh/id_rsa", ".aws/credentials"):
        path = made.room / "home" / name
        path.parent.mkdir()
        path.write_text("homesecret")
    made.own(made.room / "home")
    yield made
    made.close()


@pytest.mark.parametrize("name", CASES)
def test_it_holds(ferrule: Ferrule, name: str) -> None:
    case = CASES[name]
    root = ferrule.workspace(case.files)
    told = ferrule.ask(root, *case.steps, **case.given)
    assert case.holds(told, root), [(one.error, one.words[:2000]) for one in told]
    assert not alive(MARK)


def test_services_of_the_machine_are_not_reached(ferrule: Ferrule) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        script = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        (told,) = ferrule.ask(ferrule.workspace(), f'python3 -c "{script}"')
    assert "Connection refused" in told.words


@pytest.mark.parametrize("name", ["a b", "q'uo\"te", "new\nline", "ünï 名", "-dash", "$(x)`y`;z", "%s\\n"])
def test_any_name_of_a_workspace_will_do(ferrule: Ferrule, name: str) -> None:
    root = ferrule.workspace({"sub/x": ""}, name=name)
    told = ferrule.ask(
        root, "echo made >made; pwd", ["executeCommand", {"command": "pwd", "cwd": "sub"}], "rm ../made", ["undo"]
    )
    assert told[0].out == f"{root}\n", told[0].words
    assert told[1].data["stdout"] == f"{root}/sub\n"
    assert (root / "made").read_text() == "made\n"


def test_a_workspace_may_be_a_link(ferrule: Ferrule) -> None:
    root = ferrule.workspace(name="real")
    (ferrule.room / "link").symlink_to(root)
    told = ferrule.ask(ferrule.room / "link", "touch made; echo x >.git", f"ls -A {ferrule.room}/link/")
    assert told[-1].out == "made\n", told[-1].words
    assert sorted(one.name for one in root.iterdir()) == ["made"]


@pytest.mark.parametrize("background", [False, True], ids=["in front", "in the background"])
def test_when_ferrule_is_killed_nothing_is_left(ferrule: Ferrule, background: bool) -> None:
    """P6: `kill -9` of Ferrule itself, in the middle of a command."""
    mark = new_mark()
    command = f"(setsid sh -c 'trap \"\" TERM HUP; sleep {mark}; sleep {mark}' &); nohup sleep {mark} & sleep {mark}"
    steps = [bash(command, run_in_background=True), bash(f"sleep {mark}")] if background else [bash(command)]
    process = ferrule.start("tests.builtin.shell_server")
    assert process.stdin is not None
    try:
        process.stdin.write(json.dumps({"workspace": str(ferrule.workspace()), "steps": steps}) + "\n")
        process.stdin.flush()
        assert becomes(lambda: len([one for one in alive(mark) if one.split()[1] == "sleep"]) >= 3 + background)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert gone(mark), alive(mark)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_when_the_command_line_is_interrupted_nothing_is_left(ferrule: Ferrule, ending: signal.Signals) -> None:
    mark = new_mark()
    arguments = json.dumps({"command": f"setsid sleep {mark} & sleep {mark}"})
    workspace = ferrule.workspace()
    process = ferrule.start("ferrule", "call", "Bash", arguments, "--yes", "--workspace", str(workspace))
    try:
        assert becomes(lambda: len(alive(mark)) >= 3)  # the two, and the arguments of the program itself
        process.send_signal(ending)
        process.communicate(timeout=30)
        assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[ending]
        assert not alive(mark)
    finally:
        process.kill()
        process.communicate()


def test_after_the_command_line_nothing_is_left(ferrule: Ferrule) -> None:
    mark = new_mark()
    for more in ({}, {"run_in_background": True}):
        arguments = json.dumps({"command": f"sleep {mark} & echo started", **more})
        process = ferrule.start(
            "ferrule", "call", "Bash", arguments, "--yes", "--workspace", str(ferrule.room / "home")
        )
        out, _ = process.communicate(timeout=60)
        assert "tarted" in out
        assert process.returncode == 0
        assert not alive(mark)


@pytest.mark.slow
def test_memory_stays_flat_in_a_flood(ferrule: Ferrule) -> None:
    """500 MB through a process whose memory is read before and after."""
    root = ferrule.workspace()
    ferrule.ask(root, "yes | head -c 5000000")
    before = _peak(ferrule.process.pid)
    (told,) = ferrule.ask(root, "yes 0123456789abcde | head -c 500000000")
    assert _left_out(told) == 500_000_000
    assert Path(told.data["output_file"]).stat().st_size <= 64 << 20
    assert "its middle was dropped" in told.words
    assert _peak(ferrule.process.pid) - before < 50_000
    Path(told.data["output_file"]).unlink()


def _peak(pid: int) -> int:
    """The most memory a process has had, in kilobytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
