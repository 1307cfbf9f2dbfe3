"""What the library logs, on standard error as the command's own words are: safe for a terminal.

A line of the log may quote a server's, a plugin's or a workspace's words. Python would write those as they are, with
whatever in them steers a terminal.
"""

from __future__ import annotations

import logging

from ferrule.cli.output import write


class LogLines(logging.Handler):
    """One record, one line or more; nothing is raised where nobody can be told."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            write(self.format(record), err=True)
        except (OSError, ValueError):  # standard error is closed
            return


def show_log_lines() -> None:
    """In place of Python's own last resort, and like it for warnings alone and only where nobody else listens."""
    logging.lastResort = LogLines(logging.WARNING)
