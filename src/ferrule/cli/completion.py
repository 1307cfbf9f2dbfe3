"""`ferrule completion`: what a shell completes, from the tools, models and sessions that are there, and its set-up."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, get_completion_class

from ferrule.cli.output import print_table, write
from ferrule.cli.words import _
from ferrule.core.errors import ToolError

# What is completed. A shell shows no error while somebody types: what cannot be found out is not offered.


def _workspace(context: click.Context) -> Path:
    return Path(context.params.get("workspace") or ".").resolve()


def complete_tools(context: click.Context, _parameter: click.Parameter, part: str) -> list[CompletionItem]:
    """The tools by name, as `ferrule tools` lists them; no server is started for it."""
    from ferrule.app.build import build_tools
    from ferrule.app.settings import load_settings
    from ferrule.core.tool import description_of

    try:
        folder = _workspace(context)
        tools = build_tools(load_settings(folder).settings, folder).registry.tools()
    except (ToolError, ValueError, OSError):
        return []
    return [CompletionItem(one.name, help=description_of(one).short) for one in tools if one.name.startswith(part)]


def complete_models(context: click.Context, _parameter: click.Parameter, part: str) -> list[CompletionItem]:
    """Well-known models of every provider, the user's own providers too."""
    from ferrule.app.assistant import known_providers
    from ferrule.app.settings import load_settings
    from ferrule.models.known_models import names_of
    from ferrule.models.providers import EMBEDDED

    try:
        providers = known_providers(load_settings(_workspace(context)).settings)
    except (ToolError, ValueError, OSError):
        providers = {}
    names = [EMBEDDED, *(f"{provider}/{name}" for provider in providers for name in names_of(provider) or ("",))]
    return [CompletionItem(name) for name in names if name.startswith(part)]


def complete_sessions(context: click.Context, _parameter: click.Parameter, part: str) -> list[CompletionItem]:
    """The saved conversations of the folder, the newest first."""
    from ferrule.agent.saved_sessions import listed
    from ferrule.app.settings import sessions_folder

    try:
        sessions = list(listed(sessions_folder(), _workspace(context)))[:50]
    except OSError:
        return []
    return [CompletionItem(one.id[:8], help=one.request) for one in sessions if one.id.startswith(part)]


SHELLS = ("bash", "zsh", "fish")
_MARK = "# ferrule completion"
_COMPINIT = "(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }\n"


completion_command = click.Group("completion", help=_("Set up completion of this command in your shell."))


def _shell_argument(command: Any) -> Any:
    return click.argument("shell", required=False, type=click.Choice(SHELLS))(command)


def _chosen(shell: str | None) -> str:
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SHELLS:
        raise click.UsageError(_("Which shell? Say one of: {names}.").format(names=", ".join(SHELLS)))
    return name


def script_of(shell: str) -> str:
    """What the shell is to load."""
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(_("Which shell? Say one of: {names}.").format(names=", ".join(SHELLS)))
    made = found(click.Group("ferrule"), {}, "ferrule", "_FERRULE_COMPLETE")
    text = made.source_template % made.source_vars()
    return (_COMPINIT if shell == "zsh" else "") + text.strip() + "\n"


@completion_command.command("list", help=_("List the shells, and where completion is installed for them."))
def list_command() -> None:
    scripts = {shell: _places(shell)[0] for shell in SHELLS}
    rows = [[shell, str(script) if script.exists() else _("no")] for shell, script in scripts.items()]
    print_table([_("SHELL"), _("INSTALLED")], rows)


@completion_command.command("show", help=_("Print the script for a shell: bash, zsh or fish."))
@_shell_argument
def show_command(shell: str | None) -> None:
    write(script_of(_chosen(shell)).rstrip("\n"))


@completion_command.command("install", help=_("Install completion for a shell; yours by default."))
@_shell_argument
def install_command(shell: str | None) -> None:
    name = _chosen(shell)
    script, startup = _places(name)
    _write(script, script_of(name).encode())
    write(_("Written: {file}").format(file=script))
    if startup is not None:
        kept = _without_line(startup.read_bytes() if startup.exists() else b"")
        line = f"source {shlex.quote(str(script))}  {_MARK}\n"
        _write(startup, kept + (b"" if not kept or kept.endswith(b"\n") else b"\n") + line.encode())
        write(_("One line in {file} loads it.").format(file=startup))
    write(_("It works in new shells. `ferrule completion uninstall {shell}` removes it.").format(shell=name))


@completion_command.command("uninstall", help=_("Remove what `install` has written."))
@_shell_argument
def uninstall_command(shell: str | None) -> None:
    script, startup = _places(_chosen(shell))
    found = script.exists()
    script.unlink(missing_ok=True)
    before = startup.read_bytes() if startup is not None and startup.exists() else b""
    if startup is not None and (kept := _without_line(before)) != before:
        _write(startup, kept)
        found = True
    write(_("Removed.") if found else _("It was not installed."))


def _places(shell: str) -> tuple[Path, Path | None]:
    """The script's file, and the file that must load it; fish finds its own."""
    from ferrule.workspace.data_folder import data_folder

    home = Path.home()
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    if shell == "fish":
        return config / "fish/completions/ferrule.fish", None
    startup = Path(os.environ.get("ZDOTDIR") or home) / ".zshrc" if shell == "zsh" else home / ".bashrc"
    return data_folder() / f"completion.{shell}", Path(os.path.realpath(startup))


def _without_line(text: bytes) -> bytes:
    return b"".join(line for line in text.splitlines(keepends=True) if not line.rstrip().endswith(_MARK.encode()))


def _write(file: Path, data: bytes) -> None:
    """Whole or not at all: no shell must ever read half of its start-up file."""
    from ferrule.core.files import write_atomically

    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, data)
