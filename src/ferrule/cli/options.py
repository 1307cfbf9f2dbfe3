"""Options that several commands share, and the settings they add up to."""

from __future__ import annotations

import math
import os
import re
import select
import stat
import sys
import time
from datetime import datetime
from functools import wraps
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

import click

from ferrule.app.settings import Loaded, load_settings, organisation_settings_file
from ferrule.cli.completion import complete_models, complete_sessions
from ferrule.cli.output import document_promised, own_stdout, promise_json, write
from ferrule.cli.words import _, as_error, as_warning, chosen_language, localised, said_of, speak_english
from ferrule.core.access import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ferrule.app.assistant import Resumed
    from ferrule.app.build import App, Tools
    from ferrule.app.settings import Settings


class PlainError(click.ClickException):
    """Something that the person can mend, but not by typing the command in another way."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(as_error(self.message), file=file, err=file is None)


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


class Since(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only from click 8.4 on
    """Gives seconds since 1970."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, (int, float)):
            return float(value)
        if found := re.fullmatch(r"([0-9]{1,6})([smhdw])", value):
            return time.time() - int(found[1]) * _SECONDS[found[2]]
        try:
            return datetime.fromisoformat(value).astimezone().timestamp()
        except ValueError:
            self.fail(_("{value} is not a time; write 2h, 3d, or 2026-01-31.").format(value=repr(value)), param, ctx)


class Seconds(click.ParamType):  # pyright: ignore[reportMissingTypeArgument] - generic only from click 8.4 on
    """A number above zero that a clock can reach."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(value)
        except ValueError:
            seconds = math.nan
        if not 0 < seconds < math.inf:
            self.fail(_("{value} is not a number of seconds above 0.").format(value=repr(value)), param, ctx)
        return seconds


SECONDS = Seconds()
SINCE = Since()


F = TypeVar("F", bound="Callable[..., Any]")

_FLAGS = "ferrule.flags"
MODES = tuple(mode.value for mode in Mode)


def workspace_option(command: F) -> F:
    return click.option(
        "--workspace",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        default=".",
        help=_("The folder to work in; the current one by default."),
    )(command)


def yes_option(command: F) -> F:
    """--yes, for what asks before calls run."""
    return click.option("--yes", is_flag=True, help=_("Answer yes to every question; what is denied stays denied."))(
        command
    )


def permission_options(command: F) -> F:
    """--mode, --allow, --ask and --deny."""
    return with_options(
        command,
        _setting("permissions", "mode", "--mode", type=click.Choice(MODES), help=_("How much runs without asking.")),
        _setting(
            "permissions", "allow", "--allow", multiple=True, metavar="RULE",
            help=_("Run this without asking. Repeatable."),
        ),
        _setting(
            "permissions", "ask", "--ask", multiple=True, metavar="RULE", help=_("Always ask about this. Repeatable.")
        ),
        _setting("permissions", "deny", "--deny", multiple=True, metavar="RULE", help=_("Never run this. Repeatable.")),
    )  # fmt: skip


def sandbox_options(command: F) -> F:
    """--no-sandbox, --allow-host and --add-dir."""
    return with_options(
        command,
        _setting(
            "sandbox", "enabled", "--no-sandbox", is_flag=True, flag_value=False, default=None,
            help=_("Run commands unconfined, with all your permissions."),
        ),
        _setting(
            "sandbox", "hosts", "--allow-host", multiple=True, metavar="HOST",
            help=_("Let commands reach this host. Repeatable."),
        ),
        _setting(
            "shell", "see", "--add-dir", multiple=True, metavar="DIR",
            type=click.Path(exists=True, file_okay=False, resolve_path=True),
            help=_("Let commands read this folder too. Repeatable."),
        ),
    )  # fmt: skip


def code_option(command: F) -> F:
    """--code."""
    words = _("Let the model call tools from programs that it writes.")
    return _setting("tools", "code", "--code", is_flag=True, flag_value=True, default=None, help=words)(command)


def assistant_options(command: F) -> F:
    """--model, the limits of a turn, --continue and --resume."""
    money = click.FloatRange(min=0, min_open=True)
    return with_options(
        command,
        click.option(
            "--model", default="", metavar="NAME", help=_("The model, as provider/name."),
            shell_complete=complete_models,
        ),
        _setting(
            "assistant", "max_steps", "--max-steps", type=click.IntRange(min=1),
            help=_("Model answers the turn may take."),
        ),
        _setting(
            "assistant", "max_tokens", "--max-tokens", type=click.IntRange(min=1), help=_("Tokens the turn may use.")
        ),
        _setting("assistant", "max_cost", "--max-cost", type=money, help=_("US dollars the turn may cost.")),
        _setting(
            "assistant", "max_seconds", "--timeout", type=SECONDS,
            help=_("Seconds the turn may take, with all its calls."),
        ),
        click.option("--continue", "go_on", is_flag=True, help=_("Continue the last session in this folder.")),
        click.option(
            "--resume", is_flag=False, flag_value="", metavar="[ID]",
            help=_("Continue this session; `chat` without ID lets you choose."), shell_complete=complete_sessions,
        ),
    )  # fmt: skip


def with_options(command: F, *options: Callable[[F], F]) -> F:
    """The command with options, listed in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def _setting(section: str, key: str, *names: str, **attributes: Any) -> Callable[[F], F]:
    """An option that is a setting under another name: `settings_for` has it, and the command need not pass it on."""

    def keep(context: click.Context, _parameter: click.Parameter, given: Any) -> None:
        if given is not None and given != ():
            flags: dict[str, Any] = context.meta.setdefault(_FLAGS, {}).setdefault(section, {})
            flags[key] = list(cast("tuple[Any, ...]", given)) if isinstance(given, tuple) else given

    return click.option(*names, expose_value=False, callback=keep, **attributes)


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


def settings_for(workspace: Path, more: Mapping[str, Any] | None = None) -> Loaded:
    """The settings in force, with the command's flags and `more` of its own. What was asked for and not given, and by
    whom, is said once.
    """
    context = click.get_current_context(silent=True)
    flags: Mapping[str, Any] = context.meta.get(_FLAGS, {}) if context is not None else {}
    loaded = load_settings(workspace.resolve(), {**flags, **(more or {})} or None)
    loaded.settings.lang = chosen_language()  # type: ignore[assignment] - one of LANGUAGES
    if loaded.set_aside:
        listed = ", ".join(loaded.set_aside)
        warn(
            _("{file} asks for {keys}; not applied, because this folder is not in your `trusted_folders`.").format(
                file=workspace / "ferrule.toml", keys=listed
            )
        )
    if loaded.not_the_projects:
        warn(
            _("{file} asks for {keys}; not applied, because only your own settings may say that.").format(
                file=workspace / "ferrule.toml", keys=", ".join(loaded.not_the_projects)
            )
        )
    if loaded.overruled:
        warn(
            _("{keys}: not applied, because your organisation's {file} is stricter.").format(
                file=organisation_settings_file(), keys=", ".join(loaded.overruled)
            )
        )
    return loaded


def warn_of_freedom(settings: Settings) -> None:
    """Say it when nothing holds a call back."""
    if settings.permissions.mode == "bypass":
        warn(_("Mode bypass: whatever is not denied runs without asking, except dangerous commands and ask rules."))
    if not settings.sandbox.enabled:
        warn(
            _("The sandbox is off: commands run unconfined, with all your permissions, your network and your secrets.")
        )
    elif settings.shell.unconfined == "allow":
        warn(_("`shell.unconfined` is set: where no sandbox works, commands run with all your permissions."))


def report_broken(tools: Tools) -> None:
    """Say what could not be loaded; the rest works."""
    for broken in tools.broken:
        warn(_("{source} was skipped: {reason}").format(source=broken.source, reason=broken.reason))


def warn(message: str) -> None:
    write(as_warning(message), err=True)


EXIT_UNRECORDED = 5
EXIT_TERMINATED, EXIT_HUNG_UP = 143, 129


class SignalExit:
    """SIGTERM and a closed terminal stop what runs as Ctrl-C does, so that tools are stopped and calls recorded."""

    def __init__(self) -> None:
        self.code: int | None = None
        """What the program ends with, where a signal ended it."""

    def note_sigterm(self) -> None:
        self.code = EXIT_TERMINATED

    def watch(self, stop: Callable[[], object]) -> None:
        from ferrule.core.loops import no_more_on_signal, on_signal

        def terminate() -> None:
            self.note_sigterm()
            no_more_on_signal("SIGTERM")  # a second one ends the program at once
            stop()

        def hang_up() -> None:
            if self.code is None:  # the kernel and the shell both say it
                self.code = EXIT_HUNG_UP
                stop()

        on_signal("SIGTERM", terminate)
        on_signal("SIGHUP", hang_up)


def recorded_code(app: App, code: int) -> int:
    """What a command ends with once its calls were to be on record. Where they are not, that is said, and a success has
    a code of its own.
    """
    if not app.unrecorded:
        return code
    warn(_("Not on record: {why}").format(why=localised(app.unrecorded)))
    return code or EXIT_UNRECORDED


# What is piped into a command: as context, which is never waited for, or as its request or arguments.


MOST_BYTES = 10_000_000
MOST_CHARACTERS = 200_000
_PATIENCE = 3.0


def piped_context() -> str:
    """The text on standard input if it is a pipe or a file, else nothing; of a long one both ends."""
    if not _is_piped() or not _something_comes():
        return ""
    text = _read()
    if len(text) > MOST_CHARACTERS:
        from ferrule.core.shown_text import head_and_tail

        text, left_out = head_and_tail(text, MOST_CHARACTERS)
        warn(_("Standard input was too long: {count} characters in the middle were left out.").format(count=left_out))
    return text


def whole_input() -> str:
    """All of standard input, as the request itself."""
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - the caller closed it
        raise click.UsageError(_("Standard input is closed, so nothing can be read from it."))
    text = _read()
    if len(text) > MOST_CHARACTERS:
        raise click.UsageError(
            _("Standard input has more than {most} characters; name a file instead.").format(most=MOST_CHARACTERS)
        )
    return text


def given_arguments(typed: str | None, most: int) -> str | None:
    """The JSON arguments of a call: as they were typed, or from standard input where that is `-`."""
    if typed != "-":
        return typed
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - the caller closed it
        raise click.UsageError(_("Standard input is closed, so no arguments can be read from it."))
    given = sys.stdin.buffer.read(most + 1)
    if len(given) > most:
        raise click.UsageError(
            _(
                "Standard input has more than {most} bytes of arguments. "
                "To take more, raise the setting `limits.argument_bytes` (FERRULE_LIMITS_ARGUMENT_BYTES)."
            ).format(most=most)
        )
    try:
        return given.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise click.UsageError(
            _("Standard input is not UTF-8: byte {position} is {byte}.").format(
                position=error.start + 1, byte=f"0x{given[error.start]:02x}"
            )
        ) from None


def with_context(request: str, context: str) -> str:
    """A request, and the text that it is about."""
    if not context.strip():
        return request
    inside = context.replace("</stdin", "<\\/stdin")
    return f"{request}\n\n<stdin>\n{inside}\n</stdin>"


def _is_piped() -> bool:
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - the caller closed it
        return False
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)


def _something_comes() -> bool:
    """Whether there is anything to read, or the other end has closed. Whoever left a pipe open gets no hang for it."""
    try:
        ready = select.select([sys.stdin], [], [], _PATIENCE)[0]
    except (OSError, ValueError):  # not on every system for every kind of file
        return True
    if not ready:
        words = _(
            "Nothing arrived on standard input for {seconds} s, so it was not read; `< /dev/null` avoids the wait."
        )
        warn(words.format(seconds=f"{_PATIENCE:g}"))
    return bool(ready)


def _read() -> str:
    given = sys.stdin.buffer.read(MOST_BYTES + 1)
    if len(given) > MOST_BYTES:
        raise click.UsageError(
            _("Standard input has more than {most} bytes; name a file instead.").format(most=MOST_BYTES)
        )
    return given.decode("utf-8-sig", "replace")


def resumed_session(workspace: Path, go_on: bool, resume: str | None, *, forks: bool = False) -> Resumed | None:
    """The session that the flags name; a usage error where there is none."""
    if not go_on and resume is None:
        return None
    if go_on and resume is not None:
        raise click.UsageError(_("Use either --continue or --resume, not both."))
    from ferrule.agent.saved_sessions import SavedConversationError
    from ferrule.app.assistant import resume as resume_session

    if resume == "":
        raise click.UsageError(
            _("--resume needs an ID here; at a terminal, `ferrule chat --resume` lists the sessions.")
        )
    try:
        resumed = resume_session(workspace, resume, forks=forks)
    except SavedConversationError as problem:
        raise click.UsageError(said_of(problem)) from None
    if resumed is None:
        raise click.UsageError(_("There is no session in this folder to continue."))
    return resumed
