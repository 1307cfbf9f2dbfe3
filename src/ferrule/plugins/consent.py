"""What a user agrees to before a plugin is used, and again before an update: the terminal and the panel ask the same.

Whoever asks is given a `PluginQuestion`, with all that there is to know, and answers it. Nothing of the plugin runs
before the first yes. What its tools are like is seen once it has run in its box, so all that a model would read of them
is a question of its own: no tool is offered before that was agreed to.
"""

from __future__ import annotations

import hashlib
import json
import re
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from pydantic import TypeAdapter

from ferrule.extension import phrase
from ferrule.extension.hosting import dangers_of, require_grantable, wrong_text
from ferrule.plugins.lock import LockedPlugin, PluginGrants, changing_lock, granted, must_find, read_lock
from ferrule.plugins.manifest import OWN_VARIABLES, VARIABLE, PluginError
from ferrule.plugins.model_texts import ReadLine, changed_lines, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence
    from pathlib import Path

    from ferrule.extension.hosting import Definition, FolderDanger
    from ferrule.plugins.install import FoundPlugin, StagedPlugin

_NOT_SHOWN = ("tree", "enabled", "installed", "agreed", "definitions")
"""Of a locked plugin: what an agreement is not about."""

ChangedPart = Literal["publisher", "proof", "source", "tools", "hosts", "folders", "secrets", "programs", "packages"]


@dataclass(slots=True, frozen=True)
class PluginWishes:
    """What the user lets a plugin have besides what it asks for, and how they set it."""

    hosts: Sequence[str] = ()
    folders: Sequence[str] = ()
    secrets: Sequence[str] = ()
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    arguments: Sequence[str] = ()


@dataclass(slots=True, frozen=True)
class PluginChange:
    """What an update changes in one part of what was agreed to."""

    part: ChangedPart
    gone: tuple[str, ...]
    came: tuple[str, ...]


@dataclass(slots=True, frozen=True)
class ToolChange:
    """A tool that is new, that models read otherwise than before, or that is gone."""

    name: str
    how: Literal["new", "changed", "gone"]
    lines: tuple[ReadLine, ...] = ()
    """All that a model reads of a new one; of a changed one what differs, with `-` and `+`."""
    digest: str = ""


@dataclass(frozen=True)
class PluginQuestion:
    """What the user is asked: to use a plugin, an update of it, or these tools."""

    plugin: LockedPlugin
    """As it would be used, with what it would be granted."""
    before: LockedPlugin | None = None
    """Of an update: what is used until then."""
    near: tuple[str, ...] = ()
    """Names that its own could be mistaken for."""
    tools: tuple[ToolChange, ...] = ()
    """Where it is about those."""
    workspace: Path | None = None

    @property
    def dangers(self) -> tuple[FolderDanger, ...]:
        """What it would be granted that the user has to see before anything else, the worst first."""
        return dangers_of(self.plugin.grants.folders, self.workspace)

    @property
    def about(self) -> Literal["plugin", "update", "tools"]:
        if self.tools:
            return "tools"
        return "plugin" if self.before is None else "update"

    @property
    def changes(self) -> list[PluginChange]:
        return _changes(self.before, self.plugin) if self.before is not None else []

    @property
    def widens(self) -> bool:
        """Whether it would get more than was granted before."""
        return self.before is not None and bool(self.plugin.grants.beyond(self.before.grants))

    @cached_property
    def digest(self) -> str:
        """What a yes is for: with anything else in the question it is another one."""
        plugins = [_shown(one) if one is not None else None for one in (self.plugin, self.before)]
        seen = [*plugins, self.near, [asdict(one) for one in self.tools]]
        return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


class NotAgreed(Exception):  # noqa: N818 - reads as what it says
    """The user said no; or, where it is not `refused`, nobody has answered the question."""

    def __init__(self, question: PluginQuestion, *, refused: bool) -> None:
        super().__init__(question.plugin.name)
        self.question = question
        self.refused = refused


if TYPE_CHECKING:
    Agrees = Callable[[PluginQuestion], bool | None]
    """The user's answer to a question; None where they cannot be asked."""


def _ask(question: PluginQuestion, agrees: Agrees) -> None:
    if not (answer := agrees(question)):
        raise NotAgreed(question, refused=answer is False)


def _shown(plugin: LockedPlugin) -> Any:
    said = TypeAdapter(LockedPlugin).dump_python(plugin, mode="json", exclude=set(_NOT_SHOWN))
    return {**said, "grants": {**said["grants"], "secrets": secrets_of(plugin)}}  # not where they are


# Using a plugin


@contextmanager
def found_plugin(
    source: str, market: str | None, note: Callable[[str], object], *, files: bool = True
) -> Generator[FoundPlugin]:
    """What is to be installed, with its file here while the block runs; without `files`, no file of this machine."""
    from ferrule.plugins.install import find_local, find_offered

    found = None if market or not (files or source.startswith(("pypi:", "npm:"))) else find_local(source)
    if found is not None:
        yield found
        return
    with find_offered(source, market, note) as offered:
        yield offered


def install_staged(
    staged: StagedPlugin, workspace: Path, wishes: PluginWishes, agrees: Agrees, *, enable: bool
) -> LockedPlugin:
    """Put a plugin in its place, and have it used once the user has agreed. Where nobody can be asked, a new one is
    installed and disabled. Raises `NotAgreed`, and then all is as it was.
    """
    before = read_lock().get(staged.plugin.name)
    merged = staged.merged(before)
    agreed = before if before is not None and before.agreed else None  # else nobody has seen the whole of it
    wanted = None
    if enable:
        try:
            wanted = _agreed_plugin(merged, wishes, agreed, workspace, agrees)
        except NotAgreed as answer:
            if answer.refused or before is not None:
                raise
    installed = staged.put()
    try:
        if staged.before != before:
            raise _changed_meanwhile(installed)
        return installed if wanted is None else _put_to_use(wanted, agreed, workspace, agrees)
    except BaseException:
        staged.take_back()
        raise


def is_newest(plugin: LockedPlugin, staged: StagedPlugin) -> bool:
    """Whether what was fetched for an update is what is installed."""
    return staged.plugin.tree == plugin.tree and staged.plugin.manifest == plugin.manifest


def enable_plugin(name: str, workspace: Path, wishes: PluginWishes, agrees: Agrees) -> LockedPlugin:
    """Ask, start an installed plugin once in its box to see its tools, and let it be used; raises `NotAgreed`."""
    plugin = must_find(read_lock(), name)
    return _put_to_use(_agreed_plugin(plugin, wishes, None, workspace, agrees), None, workspace, agrees)


def disable_plugin(name: str) -> LockedPlugin:
    """Use it no more; it stays installed."""
    with changing_lock() as plugins:
        plugins[name] = replace(must_find(plugins, name), enabled=False)
        return plugins[name]


def remove_plugin(name: str) -> None:
    """Whatever belongs to it, and what is kept of it elsewhere."""
    from ferrule.plugins.install import remove
    from ferrule.plugins.isolated import forget

    plugin = must_find(read_lock(), name)
    forget(plugin)
    remove(plugin)


def _agreed_plugin(
    plugin: LockedPlugin, wishes: PluginWishes, before: LockedPlugin | None, workspace: Path, agrees: Agrees
) -> LockedPlugin:
    """As the user agreed to have it, not yet enabled."""
    wanted = replace(
        plugin,
        grants=_grants_for(plugin, wishes, before),
        settings=_settings_for(plugin, wishes.settings),
        arguments=tuple(wishes.arguments) or plugin.arguments,
        enabled=False,
    )
    require_grantable(wanted.grants.folders, workspace)
    near = tuple(near_plugins(plugin)) if before is None else ()
    _ask(PluginQuestion(wanted, before, near, workspace=workspace), agrees)
    return wanted


def _put_to_use(plugin: LockedPlugin, before: LockedPlugin | None, workspace: Path, agrees: Agrees) -> LockedPlugin:
    from ferrule.plugins.isolated import listed_tools, remember_definitions, require_as_declared

    offered = listed_tools(plugin, workspace)
    require_as_declared(plugin, offered)
    if changed := _tool_changes(before, offered):
        _ask(PluginQuestion(plugin, before, tools=changed), agrees)
    today = datetime.now(UTC).date().isoformat()
    digests = {one.name: one.digest for one in offered}
    with changing_lock() as plugins:
        there = plugins.get(plugin.name)
        if there is None or there.tree != plugin.tree:
            raise _changed_meanwhile(plugin)
        remember_definitions(plugin, offered)
        plugins[plugin.name] = used = replace(plugin, enabled=True, definitions=digests, agreed=today)
    return used


def _changed_meanwhile(plugin: LockedPlugin) -> PluginError:
    return PluginError(
        phrase("`{name}` was changed or removed meanwhile.", name=plugin.name), suggestion=phrase("Try again.")
    )


def near_plugins(plugin: LockedPlugin) -> list[str]:
    """Names of other plugins, installed or offered, that its own could be mistaken for."""
    from ferrule.plugins.offers import near_names

    return near_names(plugin.manifest.name, [one.manifest.name for one in read_lock().values()])


# What it is given


def as_asked(plugin: LockedPlugin) -> LockedPlugin:
    """For a look at one that nobody has agreed to yet: with all that it asks for, where it has nothing so far."""
    return plugin if plugin.agreed else replace(plugin, grants=granted(plugin.manifest.needs))


def _grants_for(plugin: LockedPlugin, wishes: PluginWishes, before: LockedPlugin | None) -> PluginGrants:
    """What it asks for, and what the user adds to it now. An update keeps what they added before."""
    from ferrule.extension.hosting import AllowedHosts

    asked = granted(plugin.manifest.needs)
    added = added_grants(before) if before is not None else PluginGrants()
    dropped = {*before.manifest.needs.secrets} - {*asked.secrets} if before is not None else set[str]()
    given = [one for one in plugin.grants.secrets if one.partition("=")[0] not in dropped]
    places = {one.partition("=")[0]: one for one in (*asked.secrets, *given, *wishes.secrets)}
    for name, one in places.items():
        if not re.fullmatch(VARIABLE, name) or name.upper().startswith(OWN_VARIABLES) or wrong_text(one) is not None:
            raise PluginError(phrase("`{name}` cannot be granted as a secret.", name=name[:100]))
    try:
        AllowedHosts(wishes.hosts)
    except ValueError as error:
        raise PluginError(phrase("This host cannot be granted: {why}.", why=str(error).rstrip("."))) from None
    return PluginGrants(
        (*dict.fromkeys((*asked.hosts, *added.hosts, *wishes.hosts)),),
        (*dict.fromkeys((*asked.folders, *added.folders, *wishes.folders)),),
        tuple(places.values()),
    )


def added_grants(plugin: LockedPlugin) -> PluginGrants:
    """What of its hosts and folders the user added to what it asks for."""
    needs, grants = plugin.manifest.needs, plugin.grants
    return PluginGrants(
        tuple(one for one in grants.hosts if one not in needs.hosts),
        tuple(one for one in grants.folders if one not in needs.folders),
    )


def _settings_for(plugin: LockedPlugin, given: Mapping[str, str]) -> dict[str, str]:
    for name, value in given.items():
        if "${" in value:
            raise PluginError(phrase("The setting `{name}` names a secret; secrets are granted.", name=name[:100]))
        if (wrong := wrong_text(value)) is not None:
            raise PluginError(phrase("The setting `{name}` {wrong}.", name=name[:100], wrong=wrong))
        if name not in plugin.manifest.settings:
            known = ", ".join(plugin.manifest.settings)
            raise PluginError(
                phrase("`{plugin}` has no setting `{name}`.", plugin=plugin.name, name=name[:100]),
                suggestion=phrase("Its settings are {known}.", known=known) if known else None,
            )
    return {**plugin.settings, **given}


# What an update changes


def _tool_changes(before: LockedPlugin | None, offered: Sequence[Definition]) -> tuple[ToolChange, ...]:
    """What is new or different in what models read of its tools."""
    from ferrule.plugins.isolated import known_definitions

    known = known_definitions(before) if before is not None else {}
    found: list[ToolChange] = []
    for one in offered:
        was = known.get(one.name)
        if was is None:
            found.append(ToolChange(one.name, "new", tuple(read_lines(one.payload)), one.digest))
        elif was.digest != one.digest:
            lines = tuple(changed_lines(was.payload, one.payload))
            found.append(ToolChange(one.name, "changed", lines, one.digest))
    now = {one.name for one in offered}
    found += [ToolChange(name, "gone") for name in known if name not in now]
    return tuple(found)


def _changes(before: LockedPlugin, plugin: LockedPlugin) -> list[PluginChange]:
    was, now = before.manifest, plugin.manifest
    parts: list[tuple[ChangedPart, Sequence[str], Sequence[str]]] = [
        ("publisher", [was.publisher], [now.publisher]),
        ("proof", [before.proof], [plugin.proof]),
        ("source", [before.source], [plugin.source]),
        ("tools", kinds_of(before), kinds_of(plugin)),
        ("hosts", before.grants.hosts, plugin.grants.hosts),
        ("folders", before.grants.folders, plugin.grants.folders),
        ("secrets", secrets_of(before), secrets_of(plugin)),
        ("programs", was.needs.programs, now.needs.programs),
        ("packages", packages_of(before), packages_of(plugin)),
    ]
    found = [
        PluginChange(part, tuple(one for one in old if one not in new), tuple(one for one in new if one not in old))
        for part, old, new in parts
    ]
    return [one for one in found if one.gone or one.came]


def kinds_of(plugin: LockedPlugin) -> list[str]:
    return [f"{one.name} ({one.kind})" for one in plugin.manifest.tools]


def secrets_of(plugin: LockedPlugin) -> list[str]:
    """Their names, and not where the user keeps them."""
    return [one.partition("=")[0] for one in plugin.grants.secrets]


def packages_of(plugin: LockedPlugin) -> list[str]:
    return [f"{one.name} {one.version}" for one in plugin.packages]
