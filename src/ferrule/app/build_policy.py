"""The policy that the settings describe: each rule read, checked against the tools there are, with its source."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.app.load_settings import SettingsError
from ferrule.app.locations import PROJECT_FILE, organisation_settings_file, tool_folders, user_settings_file
from ferrule.app.settings import RuleTable, SourcedRule
from ferrule.core.context import SandboxChoice
from ferrule.core.phrases import phrase, said_by

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from ferrule.app.find_tools import Tools
    from ferrule.app.settings import HookSettings, Settings
    from ferrule.pipeline.hooks import Hook
    from ferrule.policy.decide import RulePolicy
    from ferrule.policy.rule_file import Written
    from ferrule.policy.rules import Rule


@dataclass(slots=True, frozen=True)
class BuiltPolicy:
    """A policy, and what a person should hear of its rules."""

    policy: RulePolicy
    notes: list[str]


def build_policy(settings: Settings, workspace: Path, tools: Tools) -> BuiltPolicy:
    """Raises `SettingsError` with the file and the rule when one cannot work: half a policy would be none."""
    from ferrule.policy.decide import RulePolicy

    permissions = settings.permissions
    rules: list[Rule] = []
    notes: list[str] = []
    if permissions.allow or permissions.ask or permissions.deny:
        from ferrule.policy.patterns import RuleError
        from ferrule.policy.rule_file import KnownTools, RuleChecks

        known = KnownTools(tools.registry.get, tools.registry.names(), complete=not tools.broken)
        try:
            checked = RuleChecks(workspace, known).read(written_rules(settings))
        except RuleError as error:
            raise SettingsError(said_by(error)) from None
        rules, notes = checked.rules, checked.notes
    policy = RulePolicy(
        rules,
        mode=permissions.mode,
        dangerous=permissions.dangerous,
        own_files=own_files(workspace),
        tool_folders=[folder.resolve() for folder in tool_folders(settings, workspace)],
        doubts=tools.servers.approvals if tools.servers is not None else None,
    )
    return BuiltPolicy(policy, notes)


def own_files(workspace: Path) -> list[Path]:
    """The settings files in force for a workspace, which no tool may write."""
    return [user_settings_file().absolute(), organisation_settings_file(), (workspace / PROJECT_FILE).absolute()]


def written_rules(settings: Settings) -> Iterator[Written]:
    """Every rule of the settings as it was written."""
    from ferrule.pipeline.stages import Verdict
    from ferrule.policy.rule_file import Written
    from ferrule.policy.rules import Source, SourceKind

    permissions = settings.permissions
    for verdict in (Verdict.DENY, Verdict.ASK, Verdict.ALLOW):
        for one in getattr(permissions, verdict.value):
            table = one if isinstance(one, RuleTable) else RuleTable(one)
            source = Source(SourceKind(table.kind), table.file) if isinstance(table, SourcedRule) else Source()
            yield Written(verdict, table.rule, source, tuple(table.match), tuple(table.no_match))


# What stands around calls besides the rules, as the settings describe it: the sandbox of commands, and the hooks.


def sandbox_choice(settings: Settings, workspace: Path) -> SandboxChoice:
    """What a session must know of the sandbox."""
    chosen = settings.sandbox
    if chosen.hosts:
        _require_hosts(chosen.hosts)
    return SandboxChoice(
        enabled=chosen.enabled,
        hosts=tuple(chosen.hosts or ()) or None,
        writable=tuple(writable_folders(settings, workspace)),
        ignored=settings.shell.look.ignored,
    )


def _require_hosts(hosts: Sequence[str]) -> None:
    from ferrule.process.sandbox.proxy import AllowedHosts, BadHost

    try:
        AllowedHosts(hosts)
    except BadHost as error:
        raise SettingsError(
            phrase(
                "`sandbox.hosts`: {error}. A host is `example.org`, `*.example.org` or `*`, also with a port: "
                "`example.org:443`.",
                error=error,
            )
        ) from None


def writable_folders(settings: Settings, workspace: Path) -> list[Path]:
    """The folders that commands may write besides the workspace; relative ones start there."""
    return [workspace / folder.expanduser() for folder in settings.sandbox.writable]


def guarded_folders(settings: Settings, workspace: Path) -> tuple[Path, ...]:
    """Tools folders, which no command may write: Ferrule itself runs what they hold, and loads it at once.

    Not one that the whole workspace lies in, where nothing could be written then.
    """
    root = workspace.resolve()
    folders = [folder.resolve() for folder in tool_folders(settings, workspace)]
    return tuple(folder for folder in folders if not root.is_relative_to(folder))


def build_hooks(settings: Settings) -> list[Hook]:
    """Every hook of the settings. Whether its program is there is found out when it is asked: a missing one refuses."""
    if not settings.hooks:
        return []
    from ferrule.policy.program_hook import program_hook

    return [
        program_hook(hook_command(one), event=one.event, tools=one.tools, timeout=one.timeout) for one in settings.hooks
    ]


def hook_command(hook: HookSettings) -> list[str]:
    """The command that is started; `~` in front of the program is the person's home."""
    return [os.path.expanduser(hook.command[0]), *hook.command[1:]]  # noqa: PTH111 - a name to look up stays one
