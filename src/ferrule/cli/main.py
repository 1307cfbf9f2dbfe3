"""The `ferrule` command. Each subcommand's module is imported when it is used, so that starting stays instant."""

from __future__ import annotations

import atexit
import errno
import gc
import os
import sys

from ferrule._version import __version__

TYPE_CHECKING = False  # as in `typing`, whose import would take longer than all the rest here
if TYPE_CHECKING:
    from typing import Any

COMMANDS = {
    "acp": ("acp", "Serve the assistant to an editor (Agent Client Protocol)."),
    "api": ("api", "Make tools of the operations of an HTTP API."),
    "approvals": ("approvals", "Decide what calls of the service wait for."),
    "audit": ("audit", "See and check the record of every call."),
    "call": ("call", "Call one tool and print its result."),
    "chat": ("chat", "Chat with a model that works in this folder through the tools."),
    "completion": ("completion", "Set up completion of this command in your shell."),
    "diff": ("past", "Show what a change did."),
    "doctor": ("doctor", "Check this installation and say what is missing."),
    "draft": ("draft", "Have a model write a new tool, and look at it before it is used."),
    "explain": ("rules", "Say why a call would run, ask or be refused."),
    "history": ("past", "List the changes that tools made."),
    "keys": ("tenants", "Manage the API keys of the service."),
    "lint": ("tools", "Check tool definitions for what confuses models."),
    "market": ("market", "Find plugins in markets, and publish yours."),
    "mcp": ("mcp", "Use the tools of MCP servers, or serve yours."),
    "models": ("models", "List the models you can use, and what the others need."),
    "panel": ("panel", "Look at the record of your own calls in a browser."),
    "plugin": ("plugin", "Install, judge, use and remove plugins."),
    "redo": ("past", "Redo what was undone."),
    "remote": ("remote", "Try, watch and set up calls on other machines."),
    "roles": ("tenants", "Manage the roles of the service's users."),
    "rules": ("rules", "See and change the permission rules."),
    "run": ("run", "Give the assistant a request and print its answer."),
    "serve": ("serve", "Serve the tools over HTTP, for many tenants."),
    "shells": ("shells", "See and stop what runs in the background."),
    "stats": ("audit", "Show how often each tool ran, failed and was refused."),
    "tenants": ("tenants", "Manage the tenants of the service."),
    "toolbox": ("toolbox", "See the areas of the toolbox, and try its accounts."),
    "tools": ("tools", "List the tools and their definitions."),
    "undo": ("past", "Undo what tools changed."),
    "users": ("tenants", "Manage the users of the service."),
    "worker": ("remote", "Run calls from other machines on this one."),
}
"""Each command's module, and a line about it."""
_OBJECTS_OF_A_START = 150_000


def main() -> None:
    """Run the command line; never shows a traceback for what a person can mend."""
    code = 0
    try:
        _run()
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # whoever read our output has gone
        code = 141
    except OSError as error:
        # What was half made when an error came, such as an event loop without its files, complains when it goes.
        import warnings

        warnings.simplefilter("ignore")
        sys.unraisablehook = lambda _: None
        code = _report(error)
    except SystemExit as ended:
        code = ended.code
    except Exception as error:
        if not _is_interrupt(error):
            _end_json(1, f"{type(error).__name__}: {error}")
            raise
        code = 130
    finally:
        _end_at_once_on_ctrl_c()
    if code:
        _end_json(code)
        # Point what cannot be written elsewhere, so that the interpreter does not complain about it while it ends.
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError):
                from ferrule.core.standard_streams import discard_output

                discard_output(stream)
            except AttributeError:
                continue
        sys.exit(code)


def _is_interrupt(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind it. Python up to 3.11 wraps one that comes while a class is made, as imports do."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__
    return False


def _end_json(code: int | str | None, message: str = "") -> None:
    """The document of a command that was promised to give one, and ended before it could."""
    from contextlib import suppress

    output = sys.modules.get("ferrule.cli.output")
    if output is None or code == 141:
        return
    if code == 130 and "--json" in sys.argv:
        output.promise_json()  # the command line may not have been read yet
    kind, words = _ENDINGS.get(code, ("unknown_error", "The command failed; standard error says why."))
    with suppress(OSError):  # nobody reads it
        output.write_json_error(kind, message or words)


_ENDINGS: dict[int | str | None, tuple[str, str]] = {
    129: ("cancelled_error", "The terminal was closed."),
    130: ("cancelled_error", "Interrupted."),
    143: ("cancelled_error", "Ended by SIGTERM."),
}
_EARLY = b'{"error": {"type": "cancelled_error", "message": "Interrupted.", "details": null, "suggestion": null}}\n'
_began = False
"""Whether the command line is being read, or was."""


def _run() -> None:
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - the caller closed it
        raise OSError(errno.EBADF, "standard output is closed")
    if sys.argv[1:] in (["--version"], ["-V"]):
        print(f"ferrule {__version__}")  # noqa: T201 - before anything else is imported
        return
    _end_at_once_on_ctrl_c()
    usual = gc.get_threshold()

    def first_look(_phase: str, info: dict[str, int]) -> None:
        gc.callbacks.remove(first_look)
        gc.set_threshold(*usual)
        if info["generation"] == 0:
            gc.freeze()
            atexit.register(gc.unfreeze)

    gc.callbacks.append(first_look)
    gc.set_threshold(_OBJECTS_OF_A_START, *usual[1:])
    streams: tuple[Any, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        errors, encoding = getattr(stream, "errors", ""), str(getattr(stream, "encoding", ""))
        is_plain = errors == "surrogateescape" and not encoding.lower().startswith("utf")  # as in the locale "C"
        if (errors == "strict" or is_plain) and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a character that the terminal lacks is no failure
    from ferrule.cli.words import choose_language

    choose_language(sys.argv[1:])
    import signal

    from ferrule.cli.group import run

    global _began
    if signal.getsignal(signal.SIGINT) is _end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    _began = True
    run(COMMANDS)


def _end_at_once_on_ctrl_c() -> None:
    """For the times when nothing is open yet, or no longer: an exception inside an import shows a traceback."""
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not when the caller has it ignored
        signal.signal(signal.SIGINT, _end_at_once)


def _end_at_once(_number: int, _frame: object) -> None:
    if not _began and "--json" in sys.argv:
        try:  # noqa: SIM105 - nothing is imported in here
            os.write(1, _EARLY)
        except OSError:
            pass
    os._exit(130)


def _report(error: OSError) -> int:
    from contextlib import suppress

    from ferrule.cli.words import _, as_error

    try:
        os.getcwd()  # noqa: PTH109 - starts faster than a Path
    except OSError:
        words, code = _("The current folder is gone; change to another one."), 2
    else:
        place = f"{error.filename}: " if error.filename else ""
        words, code = f"{place}{error.strerror or error}.", 1
        if error.errno in (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EDQUOT) and not error.filename:
            words = _("The output could not be written: {why}.").format(why=error.strerror)
    from ferrule.cli.output import write_json_error

    with suppress(OSError, AttributeError):  # stderr may be gone too
        with suppress(OSError):
            if write_json_error("execution_error", words):
                return code
        sys.stderr.write(f"{as_error(words)}\n")
        sys.stderr.flush()
    return code
