"""What ends a command that was typed rightly: one line that says why, without how the command is typed."""

from __future__ import annotations

from typing import IO, Any

import click

from ferrule.cli.words import as_error


class PlainError(click.ClickException):
    """Something that the person can mend, but not by typing the command in another way."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(as_error(self.message), file=file, err=file is None)
