"""What the toolbox's tools use beside the workspace: databases, mail, calendars, credentials and APIs, each by a name.

A model and a rule know the name alone. Addresses and secrets stay in the settings, and a secret is best not even there:
`password = "${SALES_PASSWORD}"`, `"${keyring:sales/ro}"`, `"${file:~/.pw}"` or `"${command:pass show sales}"`. Plain
dataclasses, so that they can be declared where settings are read and in a program alike.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from ferrule import ToolError
from ferrule.extension import advice, joined, nearest, phrase
from ferrule.toolbox.failures import not_found

T = TypeVar("T")


class _Settings:
    """What an account of any kind is: its keys are these and no others."""

    __slots__ = ()
    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if not 0 < getattr(self, "timeout", 1.0) < float("inf"):
            raise ValueError("`timeout` is a number of seconds above 0")


@dataclass(slots=True)
class DatabaseAccount(_Settings):
    """A database: `sqlite:///data/app.db`, `postgresql://user@host/name`, `mysql://user@host/name`,
    `duckdb:///data/facts.duckdb`. A relative file starts at the workspace.
    """

    url: str
    password: str = field(default="", repr=False)
    timeout: float = 30.0
    read_only: bool = False
    """Whether ChangeDatabase may not be used with it."""


@dataclass(slots=True)
class MailAccount(_Settings):
    """A mailbox: `imap = "imaps://imap.example.org"` to read, `smtp = "smtps://smtp.example.org"` to send; with
    `imap://` and `smtp://` STARTTLS is required, except on this machine. `user` is the address unless given.
    """

    address: str
    name: str = ""
    imap: str = ""
    smtp: str = ""
    user: str = ""
    password: str = field(default="", repr=False)
    timeout: float = 30.0


@dataclass(slots=True)
class CalendarAccount(_Settings):
    """Calendars on a CalDAV server: the address of one calendar, or of an account that has several."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    timezone: str = ""
    """What times without a zone are in, such as `Europe/Berlin`; this machine's unless given."""
    timeout: float = 30.0


@dataclass(slots=True)
class Credential(_Settings):
    """What HttpRequest and tools of APIs send to some `hosts` and no others: a header (`Authorization` unless named)
    with `value`, or `user` and `password`, or a `query` parameter with `value`.
    """

    hosts: list[str]
    header: str = ""
    query: str = ""
    value: str = field(default="", repr=False)
    user: str = ""
    password: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        if not self.hosts:
            raise ValueError("`hosts` names the hosts that the credential may be sent to")
        if bool(self.value) == bool(self.user):
            raise ValueError("a credential is a `value`, or a `user` with a `password`")


@dataclass(slots=True)
class Api(_Settings):
    """An HTTP API whose operations become tools: `spec` is a file with its OpenAPI document. `operations` are the ones
    to offer, by id or `GET /path`, all unless given.
    """

    spec: Path
    base_url: str = ""
    credential: str = ""
    operations: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class WebAccess(_Settings):
    """What FetchPage, HttpRequest and tools of APIs may reach besides the public internet: hosts and networks such as
    `localhost`, `build.example.org` or `10.1.0.0/16`.
    """

    private: list[str] = field(default_factory=list[str])
    timeout: float = 30.0
    most_bytes: int = 20_000_000

    def __post_init__(self) -> None:
        _Settings.__post_init__(self)
        if self.most_bytes < 1:
            raise ValueError("`most_bytes` must be at least 1")


@dataclass(slots=True)
class Accounts:
    """All of them, each under the name that a model and a rule know it by. `vaults` are folders of notes, besides the
    workspace where that is one.
    """

    databases: Mapping[str, DatabaseAccount] = field(default_factory=dict[str, DatabaseAccount])
    mail: Mapping[str, MailAccount] = field(default_factory=dict[str, MailAccount])
    calendars: Mapping[str, CalendarAccount] = field(default_factory=dict[str, CalendarAccount])
    credentials: Mapping[str, Credential] = field(default_factory=dict[str, Credential])
    apis: Mapping[str, Api] = field(default_factory=dict[str, Api])
    web: WebAccess = field(default_factory=WebAccess)
    vaults: list[Path] = field(default_factory=list[Path])
    workspace: Path | None = field(default=None, compare=False)
    """Where relative files start while accounts are only checked; a call starts them at its session's workspace."""


def named(accounts: Mapping[str, T], name: str, what: str, more: str = "") -> T:
    """The account of this name; a `ToolError` lists those there are, and may say `more`. `what` is "database" …"""
    if (found := accounts.get(name)) is not None:
        return found
    close = nearest(name, list(accounts), most=1)
    raise not_found(
        phrase("There is no {what} `{name}`.", what=what, name=name),
        phrase("Did you mean `{name}`?", name=close[0])
        if close
        else joined(
            " ", [phrase("Known names: {names}.", names=", ".join(f"`{one}`" for one in accounts) or "none"), more]
        ),
    )


class Secrets:
    """The secrets of one account, filled in for one use, and kept out of whatever is said about it afterwards."""

    def __init__(self, account: Any, environment: Mapping[str, str] | None = None) -> None:
        from ferrule.extension import Variables

        self._account = account
        self._variables = Variables(os.environ if environment is None else environment, of_the_user=True)

    def fill(self, name: str) -> str:
        """A field of the account with its places filled in; a `ToolError` says which value is missing."""
        from ferrule.extension import MissingValueError

        secret = not next(one.repr for one in fields(self._account) if one.name == name)
        text: str = getattr(self._account, name)
        try:
            return self._variables.fill_secret(name, text) if secret else self._variables.fill(text)
        except MissingValueError as missing:
            raise ToolError(
                phrase("`{field}` of this account cannot be filled in: {why}.", field=name, why=missing),
                suggestion=advice(
                    "Ask the user to set it, and to run `ferrule toolbox check`.",
                    "Set it, and run `ferrule toolbox check`.",
                ),
            ) from None

    def hide(self, name: str, value: str) -> None:
        """Keep one more value out of what is said, such as a secret in another form."""
        from ferrule.extension import Template

        self._variables.fill_secret(name, Template((value,)))

    def masked(self, text: str) -> str:
        """The text with the name of each secret in its place."""
        return self._variables.masked(text)


@dataclass(slots=True, frozen=True)
class AccountCheck:
    """Whether an account can be used, in words: `what` is "database `sales`"."""

    what: str
    works: bool
    words: str
