"""The policy that the settings describe: each rule read, checked against the tools there are, with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ferrule.app.load_settings import SettingsError
from ferrule.app.locations import PROJECT_FILE, organisation_settings_file, tool_folders, user_settings_file
from ferrule.app.settings import RuleTable, SourcedRule
from ferrule.core.phrases import said_by

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ferrule.app.find_tools import Tools
    from ferrule.app.settings import Settings
    from ferrule.policy.decide import RulePolicy
    from ferrule.policy.rule_checks import Written
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
        from ferrule.policy.rule_checks import Known, RuleChecks
        from ferrule.policy.rule_errors import RuleError

        known = Known(tools.registry.get, tools.registry.names(), complete=not tools.broken)
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
    from ferrule.pipeline.authorise import Verdict
    from ferrule.policy.rule_checks import Written
    from ferrule.policy.sources import Source, SourceKind

    permissions = settings.permissions
    for verdict in (Verdict.DENY, Verdict.ASK, Verdict.ALLOW):
        for one in getattr(permissions, verdict.value):
            table = one if isinstance(one, RuleTable) else RuleTable(one)
            source = Source(SourceKind(table.kind), table.file) if isinstance(table, SourcedRule) else Source()
            yield Written(verdict, table.rule, source, tuple(table.match), tuple(table.no_match))
