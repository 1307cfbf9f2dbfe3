"""Shell completion: what real shells offer, and what installing it writes (M2)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from tests.cli.terminal import Terminal
from tests.needs import needs

if TYPE_CHECKING:
    from .conftest import Command


def offered(ferrule: Command, *words: str) -> list[str]:
    done = ferrule(
        COMP_WORDS=" ".join(("ferrule", *words)), COMP_CWORD=str(len(words)), _FERRULE_COMPLETE="bash_complete"
    )
    return [line.partition(",")[2] for line in done.out.splitlines() if line]


def test_commands_tools_models_modes_and_sessions_are_known(ferrule: Command) -> None:
    script = ferrule.folder / "script.json"
    script.write_text(json.dumps(["Fine."]))
    ferrule("run", "--model", f"scripted:{script}", "hello")
    session = next((ferrule.folder / "data/sessions").glob("*.jsonl")).stem
    assert offered(ferrule, "comp") == ["completion"]
    assert offered(ferrule, "mcp", "un") == ["untrust"]
    assert offered(ferrule, "call", "Multi") == ["MultiEdit"]
    assert offered(ferrule, "explain", "save_") == ["save_note"]
    assert offered(ferrule, "chat", "--mode", "p") == ["plan"]
    assert "anthropic/claude-sonnet-4-5" in offered(ferrule, "chat", "--model", "anthropic/")
    assert offered(ferrule, "chat", "--resume", "") == [session[:8]]


def test_wrong_settings_offer_nothing_and_say_nothing(ferrule: Command) -> None:
    ferrule.settings.write_text("[permissions]\nmode = 5\n")
    assert offered(ferrule, "call", "Re") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_installing_keeps_every_other_byte_and_uninstalling_gives_them_back(ferrule: Command, shell: str) -> None:
    home = {"HOME": str(ferrule.folder), "XDG_CONFIG_HOME": "", "ZDOTDIR": "", "SHELL": f"/bin/{shell}"}
    startup = ferrule.folder / (".zshrc" if shell == "zsh" else ".bashrc")
    startup.write_bytes(b"# caf\xe9\r\nalias x=y\n")
    startup.chmod(0o600)
    before = startup.read_bytes()
    for _ in range(2):
        assert ferrule("completion", "install", **home).code == 0
    if shell != "fish":
        assert startup.read_bytes().startswith(before)
        assert startup.read_bytes().count(b"# ferrule completion") == 1
        assert startup.stat().st_mode & 0o777 == 0o600
    script = ferrule("completion", "show", shell).out
    assert "_FERRULE_COMPLETE" in script
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    assert ferrule("completion", "uninstall", **home).out == "Removed.\n"
    assert startup.read_bytes() == before
    assert ferrule("completion", "uninstall", **home).out == "It was not installed.\n"


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_new_shell_completes_commands_options_and_tools(ferrule: Command, shell: str) -> None:
    """The shell itself, at a terminal, after `ferrule completion install` and nothing else."""
    needs(shutil.which(shell), shell)
    programs = ferrule.folder / "bin"
    programs.mkdir()
    program = programs / "ferrule"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ferrule "$@"\n')
    program.chmod(0o755)
    (ferrule.folder / ".config/fish").mkdir(parents=True)
    (ferrule.folder / ".config/fish/config.fish").write_text("function fish_prompt; echo -n 'ready$ '; end\n")
    for startup in (".bashrc", ".zshrc"):
        (ferrule.folder / startup).write_text("PS1='ready$ '\n")
    environment = {
        **ferrule.environment, "HOME": str(ferrule.folder), "PATH": f"{programs}:{os.environ['PATH']}", "TERM": "xterm",
        "XDG_CONFIG_HOME": "", "XDG_RUNTIME_DIR": str(ferrule.folder),
        "ZDOTDIR": str(ferrule.folder), "SHELL": f"/bin/{shell}",
    }  # fmt: skip
    subprocess.run([str(program), "completion", "install"], env=environment, check=True, capture_output=True)
    start = ["bash", "--noprofile", "-i"] if shell == "bash" else [shell, "-i"]
    with Terminal(start, ferrule.workspace, environment, columns=100, rows=30) as terminal:
        terminal.wait("ready$")
        for typed, completed in (
            ("ferrule comp\t", "ferrule completion"), ("unins\t", "ferrule completion uninstall"),
            ("\x15ferrule call Multi\t", "ferrule call MultiEdit"),
            ("\x15ferrule chat --mode p\t", "ferrule chat --mode plan"),
        ):  # fmt: skip
            terminal.press(typed)
            terminal.wait(lambda row=f"ready$ {completed}": row in terminal.visible.split("\n"))


def test_a_shell_that_is_not_known_is_named(ferrule: Command) -> None:
    done = ferrule("completion", "install", SHELL="/bin/tcsh")
    assert done.code == 2
    assert "Say one of: bash, zsh, fish." in done.err
