"""The areas of the toolbox; the only place that names them all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from ferrule.extension import phrase
from ferrule.toolbox.accounts import AccountCheck, Accounts

if TYPE_CHECKING:
    from ferrule import Registry, Tool


@dataclass(slots=True, frozen=True)
class Area:
    """A part of the toolbox: which packages it needs, the tools it has for some accounts, and how those are tried."""

    name: str
    home: str
    extra: str
    modules: tuple[str, ...]
    needs: str = ""
    """What it needs to have tools at all, for a person."""
    only_for: str = ""
    """The accounts without which it has no tools, and need not be imported."""
    always: tuple[str, ...] = ()
    """The names of its tools, where they are the same for all accounts but those in `unless`."""
    unless: str = ""

    @property
    def missing(self) -> list[str]:
        """Packages that are not installed."""
        return [module for module in self.modules if find_spec(module) is None]

    def tools(self, accounts: Accounts) -> list[Tool[Any]]:
        """Its tools: none where they would have nothing to work on. Imports what it needs."""
        if self.only_for and not getattr(accounts, self.only_for):
            return []
        return import_module(self.home).tools(accounts)

    async def check(self, accounts: Accounts) -> list[AccountCheck]:
        """Try each account of its own."""
        check = getattr(import_module(self.home), "check", None)
        return [] if check is None else await check(accounts)


AREAS: tuple[Area, ...] = (
    Area(
        "documents",
        "ferrule.toolbox.documents.tools",
        "documents",
        ("pypdfium2", "docx", "pptx", "python_calamine", "openpyxl", "defusedxml", "lxml", "markdown_it", "fpdf"),
        always=("ReadDocument", "WriteDocument", "EditDocument", "ConvertDocument"),
    ),
    Area(
        "notes",
        "ferrule.toolbox.notes",
        "notes",
        ("markdown_it", "yaml"),
        phrase("a workspace with `.obsidian` in it, or `[notes] vaults` in the settings"),
        only_for="vaults",
    ),
    # SQLite comes with Python; a database whose driver is missing says so when it is used.
    Area(
        "databases",
        "ferrule.toolbox.databases.tools",
        "databases",
        (),
        always=("DescribeDatabase", "QueryDatabase"),
        unless="databases",
    ),
    Area(
        "web",
        "ferrule.toolbox.web",
        "web",
        ("httpcore2", "idna", "jsonschema_rs", "lxml", "trafilatura", "yaml"),
        always=("FetchPage", "HttpRequest"),
        unless="apis",
    ),
    Area(
        "mail",
        "ferrule.toolbox.mail",
        "mail",
        ("imap_tools", "aiosmtplib"),
        phrase("an account in `[mail.NAME]`"),
        only_for="mail",
    ),
    Area(
        "calendars",
        "ferrule.toolbox.calendar",
        "calendar",
        ("defusedxml", "httpx2", "icalendar", "recurring_ical_events"),
        phrase("an account in `[calendars.NAME]`"),
        only_for="calendars",
    ),
)


def toolbox_tools(accounts: Accounts | None = None) -> list[Tool[Any]]:
    """The tools of every area that is installed and has something to work on: `Runtime(toolbox_tools())`."""
    accounts = accounts or Accounts()
    return [tool for area in AREAS if not area.missing for tool in area.tools(accounts)]


def register_toolbox(registry: Registry, accounts: Accounts) -> list[str]:
    """Add the tools, where possible to be imported when they are first looked at.

    Gives what is to be said of accounts whose area is not installed.
    """
    notes: list[str] = []
    for area in AREAS:
        if not area.missing:
            load = partial(area.tools, accounts)
            if area.always and not (area.unless and getattr(accounts, area.unless)):
                registry.register_later(area.always, load, origin="builtin")
            else:
                registry.register_many(load(), origin="builtin")
        elif isinstance(named := getattr(accounts, area.name, None), Mapping) and named:
            names = [f"`{area.name}.{name}`" for name in cast("Mapping[str, Any]", named)]
            notes.append(
                phrase(
                    "The settings name {names}, and the tools for that are not installed: pip install "
                    "'ferrule[{extra}]'",
                    names=", ".join(names),
                    extra=area.extra,
                )
            )
    return notes
