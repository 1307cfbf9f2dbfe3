"""The top of the command line: global options, and subcommands that are imported when named."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ferrule._version import __version__
from ferrule.app.settings import SettingsError
from ferrule.cli.output import promise_json, show_log_lines, write, write_json_error
from ferrule.cli.words import LANGUAGES, _, as_error, localised, said_of, speak_english
from ferrule.core.errors import MissingExtraError, ToolError
from ferrule.core.nearest import nearest
from ferrule.core.phrases import joined

if TYPE_CHECKING:
    from collections.abc import Mapping


class LazyGroup(click.Group):
    """Knows of each command its name, its module and a line about it; the module is imported when the command runs."""

    def __init__(self, known: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(**options)
        self._known = known

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._known:
            return None
        found = getattr(import_module(f"ferrule.cli.{self._known[cmd_name][0]}"), f"{cmd_name}_command")
        return _with_language(found)

    def invoke(self, ctx: click.Context) -> Any:
        show_log_lines()
        return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._known and not args[0].startswith("-"):
            if "--json" in args:
                speak_english()
            close = nearest(args[0], self._known, most=1)
            help_of = _("See `{command} --help`.").format(command=ctx.command_path)
            hint = _("Did you mean `{name}`?").format(name=close[0]) if close else help_of
            ctx.fail(_("There is no command `{name}`. {hint}").format(name=args[0], hint=hint))
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """From the table: importing every command would keep whoever pressed Tab waiting."""
        rows = ((name, _(summary)) for name, (_module, summary) in sorted(self._known.items()))
        named = [CompletionItem(name, help=about) for name, about in rows if name.startswith(incomplete)]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, _(summary)) for name, (_module, summary) in sorted(self._known.items())]
        with formatter.section(_("Commands")):
            formatter.write_dl(rows)


class DefaultGroup(click.Group):
    """Without the name of a command, one of them is meant: `ferrule rules --json` is `ferrule rules list --json`."""

    default = "list"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:  # a shell completes: a name may still come
            return super().parse_args(ctx, args)
        first = args[2:3] if args[:1] == ["--lang"] else args[:1]
        if not first or (first[0].startswith("-") and first[0] not in ctx.help_option_names):
            args = [self.default, *args]
        return super().parse_args(ctx, args)


def _with_language(command: click.Command) -> click.Command:
    """The command with `--lang`, which was read before anything was said, wherever on the line it stands."""
    if not any("--lang" in parameter.opts for parameter in command.params):
        command.params.append(_language_option())
    for below in command.commands.values() if isinstance(command, click.Group) else ():
        _with_language(below)
    return command


def _language_option() -> click.Option:
    return click.Option(["--lang"], type=click.Choice(LANGUAGES), expose_value=False, help=_("Language of messages."))


def command_line(commands: Mapping[str, tuple[str, str]]) -> click.Group:
    """`ferrule` with all its commands, in the language that was chosen."""

    @click.group(
        cls=LazyGroup,
        known=commands,
        invoke_without_command=True,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
            "color": False if os.environ.get("NO_COLOR") else None,
        },
        help=_("Tools for language models: defined once, shown to any model, run safely and on the record."),
    )
    @click.version_option(__version__, "-V", "--version", message="ferrule %(version)s")
    @click.pass_context
    def ferrule(context: click.Context) -> None:
        if context.invoked_subcommand is None:
            click.echo(context.get_help())

    ferrule.params.append(_language_option())
    # Let click say what it says in the language that was chosen: it looks words up by the environment alone.
    for module in (click.core, click.decorators, click.exceptions, click.formatting, click.parser, click.types):
        vars(module).update(_=_, ngettext=_counted)
    click.Context.formatter_class = _Formatter
    return ferrule


def run(commands: Mapping[str, tuple[str, str]]) -> None:
    """Run the command line; settings that are wrong end it with one clear line."""
    ferrule = command_line(commands)
    if "_FERRULE_COMPLETE" in os.environ:  # a shell asks for completions
        ferrule(prog_name="ferrule")
    try:
        # Not click's own `main`: it ends with 1 when nobody reads the output, and says `Aborted!` on Ctrl-C.
        with ferrule.make_context("ferrule", sys.argv[1:]) as context:
            ferrule.invoke(context)
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except (click.Abort, EOFError):
        sys.exit(130)
    except click.ClickException as error:
        _tell_of_usage(error)
        sys.exit(error.exit_code)
    except _mendable() as error:
        if not write_json_error(_kind_of(error), str(error)):
            write(as_error(said_of(error)), err=True)
        sys.exit(2)
    except ToolError as error:  # from the parts that commands share with tools
        if not write_json_error(error.kind.value, error.message, error.suggestion):
            write(as_error(localised(joined(" ", [error.message, error.suggestion or ""]))), err=True)
        sys.exit(1)


class _Formatter(click.HelpFormatter):
    """Help whose headings end as the language ends them."""

    def write_heading(self, heading: str) -> None:
        words = _("{what}:").format(what=heading)
        self.write(f"{'':>{self.current_indent}}{words}\n")


def _counted(one: str, many: str, number: int) -> str:
    return _(one if number == 1 else many)


def _tell_of_usage(error: click.ClickException) -> None:
    of_usage = isinstance(error, click.UsageError)
    if of_usage and _asks_for_json(error):
        promise_json()
    message = error.format_message()
    hint = f"See `{error.ctx.command_path} --help`." if of_usage and error.ctx is not None else None
    if write_json_error(
        "usage_error" if of_usage else "execution_error", message, None if hint and message.endswith(hint) else hint
    ):
        return
    words = io.StringIO()
    error.show(words)
    write(words.getvalue().removesuffix("\n"), err=True)  # it may quote a workspace's settings


def _asks_for_json(error: click.UsageError) -> bool:
    """Whether a command line that could not be read says `--json`, and as an option: not to a program of its own."""
    given = sys.argv[1 : sys.argv.index("--") if "--" in sys.argv else None]
    if not any(one.partition("=")[0] in ("--json", "--stream-json") for one in given):
        return False
    command = error.ctx.command if error.ctx is not None else None  # none where an option itself is written wrongly
    return (
        command is None
        or isinstance(command, click.Group)
        or any("--json" in parameter.opts for parameter in command.params)
        or (isinstance(error, click.NoSuchOption) and error.option_name == "--json")
    )


def _mendable() -> tuple[type[Exception], ...]:
    """What a person can mend. The records are not imported for this: without them they raised nothing."""
    records = sys.modules.get("ferrule.records.database")
    return (SettingsError, MissingExtraError, *([records.AuditError] if records else []))


def _kind_of(error: Exception) -> str:
    if isinstance(error, SettingsError):
        return "settings_error"
    return "missing_extra_error" if isinstance(error, MissingExtraError) else "audit_error"
