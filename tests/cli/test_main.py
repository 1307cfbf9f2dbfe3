"""The command as a whole."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from ferrule._version import __version__
from ferrule.cli import main
from ferrule.cli.main import COMMANDS

if TYPE_CHECKING:
    from .conftest import Command


def test_the_version_is_told_both_ways(ferrule: Command) -> None:
    assert ferrule.from_cold("--version").out == f"ferrule {__version__}\n"
    assert ferrule.from_cold("--lang", "en", "--version").out == f"ferrule {__version__}\n"


def test_without_a_command_the_help_names_them_all(ferrule: Command) -> None:
    done = ferrule.from_cold()
    assert done.code == 0
    for name, (_module, summary) in COMMANDS.items():
        assert f"{name}  " in done.out
        assert summary in done.out


def test_each_command_has_help_and_the_summary_does_not_lie(ferrule: Command) -> None:
    for name in COMMANDS:
        done = ferrule(name, "--help")
        assert done.code == 0, done.err
        assert f"ferrule {name}" in done.out


def in_a_shell(ferrule: Command, line: str, *arguments: str) -> tuple[int, str]:
    """`line` with the command in place of FERRULE; its exit code and stderr."""
    words = " ".join(shlex.quote(part) for part in ferrule.arguments(*arguments))
    done = subprocess.run(
        ["bash", "-c", line.replace("FERRULE", words)],
        cwd=ferrule.workspace, env=ferrule.environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "arguments", [["tools"], ["--help"], ["--version"], ["doctor"], ["call", "getCurrentDirectory"]]
)
def test_output_that_nobody_reads_ends_alike_everywhere(ferrule: Command, arguments: list[str]) -> None:
    line = "set -o pipefail; { sleep 0.2; exec FERRULE; } | true"
    assert in_a_shell(ferrule, line, *arguments) == (141, "")


@pytest.mark.parametrize("arguments", [["tools"], ["--help"], ["--version"], ["call", "getCurrentDirectory"]])
@pytest.mark.parametrize("where", [">/dev/full", ">&-"])
def test_output_that_cannot_be_written_is_one_line(ferrule: Command, arguments: list[str], where: str) -> None:
    code, err = in_a_shell(ferrule, f"FERRULE {where}", *arguments)
    assert code == 1
    assert err.startswith("Error: The output could not be written: ")
    assert err.count("\n") == 1


def test_a_current_folder_that_is_gone_is_one_line(ferrule: Command) -> None:
    for arguments in (["tools"], ["call", "getCurrentDirectory"], ["doctor"]):
        code, err = in_a_shell(ferrule, "mkdir gone && cd gone && rmdir ../gone && FERRULE", *arguments)
        assert (code, err) == (2, "Error: The current folder is gone; change to another one.\n")


def test_closed_input_and_errors_do_no_harm(ferrule: Command) -> None:
    assert in_a_shell(ferrule, "FERRULE <&- 2>&-", "call", "getCurrentDirectory")[0] == 0


def test_ctrl_c_while_a_class_is_made_ends_like_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python up to 3.11 makes another error of it, in any import."""

    class Interrupted:
        def __set_name__(self, owner: type, name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setattr(main, "_run", lambda: type("Made", (), {"one": Interrupted()}))
    monkeypatch.setattr(main, "_end_at_once_on_ctrl_c", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 130


@pytest.mark.parametrize("after", [0.12, 0.2, 0.3, 0.4])
def test_ctrl_c_at_any_moment_shows_no_traceback(ferrule: Command, after: float) -> None:
    program = subprocess.Popen(
        ferrule.arguments("doctor"), cwd=ferrule.workspace, env=ferrule.environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(after)
    program.send_signal(signal.SIGINT)
    _out, err = program.communicate(timeout=20)
    assert not re.search(r'ferrule\S*", line \d+, in main\n', err)  # before that it is the interpreter's own start
    assert "Aborted" not in err
    if not err:
        assert program.returncode in (130, 0, -signal.SIGINT)


@pytest.mark.parametrize(
    "plain",
    [{"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "ascii"}],
    ids=["locale", "encoding"],
)
def test_a_terminal_without_the_characters_fails_no_command(ferrule: Command, plain: dict[str, str]) -> None:
    done = ferrule.from_cold("--lang", "zh", "tools", **plain)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("\\u540d\\u79f0 ")


SET_ASIDE = """
import gc, sys, weakref
usual = gc.get_threshold()
sys.argv = ["ferrule", "tools", "--help"]
from ferrule.cli.main import main
try:
    main()
except SystemExit:
    pass
class Ring:
    def __init__(self):
        self.itself = self
late = [Ring() for _ in range(200_000)]
assert gc.get_threshold() == usual, gc.get_threshold()
assert gc.get_freeze_count() > 10_000, gc.get_freeze_count()
gone = weakref.ref(late[-1])
late.clear()
more = [Ring() for _ in range(10_000)]
assert gone() is None
"""


def test_garbage_is_looked_for_as_usual_once_a_command_has_begun() -> None:
    done = subprocess.run([sys.executable, "-c", SET_ASIDE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
