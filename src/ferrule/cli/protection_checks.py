"""What protects the person on this machine, for `ferrule doctor`: the sandbox, the understanding of commands, the rules
and the hooks, each tried for real.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.app.build_policy import build_policy, written_rules
from ferrule.app.build_protection import hook_command, sandbox_config, writable_folders
from ferrule.app.find_tools import build_tools
from ferrule.app.load_settings import SettingsError
from ferrule.cli.check import Check
from ferrule.cli.words import _, said_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ferrule.app.settings import Settings


def protection_checks(settings: Settings, workspace: Path) -> Iterator[Check]:
    """Each layer, strongest last resort first."""
    yield from _sandbox(settings, workspace)
    yield _commands()
    yield from _rules(settings, workspace)
    yield from _hooks(settings, workspace)


def _sandbox(settings: Settings, workspace: Path) -> Iterator[Check]:
    try:
        sandbox_config(settings, workspace)
    except SettingsError as error:
        yield Check("sandbox", "fail", said_of(error))
    if not settings.sandbox.enabled:
        yield Check("sandbox", "note", _("turned off in the settings: commands run unconfined"))
        return
    from ferrule.process.sandbox.choose import probe_report
    from ferrule.workspace.layers.session_layer import layers_folder
    from ferrule.workspace.paths import Paths

    tried = probe_report((workspace,), layers_folder(Paths((workspace,))))
    works = any(one.works for one in tried)
    for one in tried:
        yield Check("sandbox", "ok" if one.works else "note" if works else "fail", f"{one.name}: {one.message}")
        for note in one.notes:
            yield Check("sandbox", "note", f"{one.name}: {note}")
    if not works:
        yield Check("sandbox", "fail", _("none works: every command asks before it runs, and runs unconfined"))
    for folder in writable_folders(settings, workspace):
        if not folder.is_dir():
            missing = _("{folder}: named in `sandbox.writable`, and not there").format(folder=folder)
            yield Check("sandbox", "fail", missing)


def _commands() -> Check:
    """A harmless command and one that hides a dangerous one, looked at as before any call."""
    from ferrule.policy.commands.analyse import analyse

    harmless, hidden = analyse("ls -l | head"), analyse('echo "$(env rm -rf /)"')
    if not harmless.unclear and hidden.dangers:
        return Check("commands", "ok", _("commands are understood before they run"))
    return Check("commands", "note", _("commands are not understood, so every one asks; pip install 'ferrule[shell]'"))


def _rules(settings: Settings, workspace: Path) -> Iterator[Check]:
    try:
        built = build_policy(settings, workspace, build_tools(settings, workspace))
    except SettingsError as error:
        yield Check("rules", "fail", said_of(error))
        return
    count = sum(1 for _rule in written_rules(settings))
    yield Check("rules", "ok", _("{count} rules, mode {mode}").format(count=count, mode=settings.permissions.mode))
    for note in built.notes:
        yield Check("rules", "note", note)


def _hooks(settings: Settings, workspace: Path) -> Iterator[Check]:
    for hook in settings.hooks:
        program = hook_command(hook)[0]
        place = os.path.join(workspace, program) if os.sep in program else program  # noqa: PTH118 - a name stays one
        found = shutil.which(place)
        about = f"{hook.event} {', '.join(hook.tools)}: {program}"
        if found is None:
            there = _("it cannot be executed") if Path(place).is_file() else _("there is no such program")
            refuses = _("so all these calls are refused")
            yield Check("hooks", "fail", f"{about}: {there}, {refuses}")
        elif Path(os.path.realpath(found)).is_relative_to(workspace):
            yield Check("hooks", "note", f"{about}: " + _("it lies in the workspace, where an agent may change it"))
        else:
            yield Check("hooks", "ok", about)
