"""Options that several commands share, and the settings they add up to."""

from __future__ import annotations

from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click

from ferrule.app.settings import Loaded, load_settings, organisation_settings_file
from ferrule.cli.output import document_promised, own_stdout, promise_json, write
from ferrule.cli.words import _, as_error, as_warning, localised, speak_english

if TYPE_CHECKING:
    from collections.abc import Callable

    from ferrule.app.build import App, Tools


# What ends a command that was typed rightly: one line that says why, without how the command is typed.


class PlainError(click.ClickException):
    """Something that the person can mend, but not by typing the command in another way."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(as_error(self.message), file=file, err=file is None)


F = TypeVar("F", bound="Callable[..., Any]")

_MODES = ("default", "plan", "accept-edits", "dont-ask", "bypass")


def workspace_option(command: F) -> F:
    return click.option(
        "--workspace",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        default=".",
        help=_("The folder to work in; the current one by default."),
    )(command)


def permission_options(command: F) -> F:
    """--mode, --allow, --ask and --deny."""
    for option in (
        click.option("--deny", multiple=True, metavar="RULE", help=_("Never run this; may be given again.")),
        click.option("--ask", multiple=True, metavar="RULE", help=_("Always ask about this; may be given again.")),
        click.option("--allow", multiple=True, metavar="RULE", help=_("Run this without asking; may be given again.")),
        click.option("--mode", type=click.Choice(_MODES), help=_("How much runs without asking.")),
    ):
        command = option(command)
    return command


def sandbox_options(command: F) -> F:
    """--no-sandbox and --allow-host."""
    for option in (
        click.option(
            "--allow-host", multiple=True, metavar="HOST", help=_("Let commands reach this host; may be given again.")
        ),
        click.option("--no-sandbox", is_flag=True, help=_("Run commands unconfined. Nothing holds them back then.")),
    ):
        command = option(command)
    return command


def json_option(command: F) -> F:
    """--json: standard output holds one document, whatever happens, and in English. It is the command's own in any
    case, so that a plugin that prints does not get between its lines.
    """

    @wraps(command)
    def with_output_of_its_own(*given: Any, as_json: bool = False, **named: Any) -> Any:
        as_json = as_json or document_promised()  # also by the group that this command belongs to
        if click.get_current_context().invoked_subcommand is None:  # which may be asked for help
            own_stdout()
        return command(*given, as_json=as_json, **named)

    # Eager: what else is wrong with the command line is a document too. `--help` is not, so nothing is claimed yet.
    flag = click.option(
        "--json", "as_json", is_flag=True, is_eager=True, callback=promise, help=_("Print one JSON document.")
    )
    return cast("F", flag(with_output_of_its_own))


def promise(_context: click.Context, parameter: click.Parameter, given: Any) -> Any:
    """For an option whose caller is a program."""
    if given:
        promise_json(lines=parameter.name == "stream_json")
        speak_english()
    return given


def permission_flags(
    mode: str | None, allow: tuple[str, ...], ask: tuple[str, ...], deny: tuple[str, ...]
) -> dict[str, Any]:
    """The flags in the settings' own form."""
    flags: dict[str, Any] = {}
    if mode:
        flags["mode"] = mode
    if allow:
        flags["allow"] = list(allow)
    if ask:
        flags["ask"] = list(ask)
    if deny:
        flags["deny"] = list(deny)
    return {"permissions": flags} if flags else {}


def sandbox_flags(no_sandbox: bool, allow_host: tuple[str, ...]) -> dict[str, Any]:
    """The flags in the settings' own form."""
    flags: dict[str, Any] = {}
    if no_sandbox:
        flags["enabled"] = False
    if allow_host:
        flags["hosts"] = list(allow_host)
    return {"sandbox": flags} if flags else {}


def settings_for(workspace: Path, flags: dict[str, Any] | None = None) -> Loaded:
    """The settings in force; what was asked for and not given, and by whom, is said once."""
    loaded = load_settings(workspace.resolve(), flags)
    if loaded.set_aside:
        listed = ", ".join(loaded.set_aside)
        warn(
            _("{file} asks for {keys}; not applied, because this folder is not in your `trusted_folders`.").format(
                file=workspace / "ferrule.toml", keys=listed
            )
        )
    if loaded.overruled:
        warn(
            _("{keys}: not applied, because {file} of your organisation is stricter.").format(
                file=organisation_settings_file(), keys=", ".join(loaded.overruled)
            )
        )
    return loaded


def report_broken(tools: Tools) -> None:
    """Say what could not be loaded; the rest works."""
    for broken in tools.broken:
        warn(_("{source} was skipped: {reason}").format(source=broken.source, reason=broken.reason))


def warn(message: str) -> None:
    write(as_warning(message), err=True)


EXIT_UNRECORDED = 5


def recorded_code(app: App, code: int) -> int:
    """What a command ends with once its calls were to be on record. Where they are not, that is said, and a success has
    a code of its own.
    """
    if not app.unrecorded:
        return code
    warn(_("Not on record: {why}").format(why=localised(app.unrecorded)))
    return code or EXIT_UNRECORDED
