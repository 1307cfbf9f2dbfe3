"""What stands around calls besides the rules, as the settings describe it: the sandbox of commands, and the hooks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ferrule.app.load_settings import SettingsError
from ferrule.app.locations import tool_folders
from ferrule.app.settings import SandboxSettings
from ferrule.core.phrases import phrase

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from ferrule.app.settings import HookSettings, Settings
    from ferrule.pipeline.hooks import Hook


def sandbox_config(settings: Settings, workspace: Path) -> dict[str, Any]:
    """What a session must know of the sandbox; nothing where it is as it comes."""
    chosen, ignored = settings.sandbox, settings.shell.look.ignored
    if chosen == SandboxSettings() and ignored == "session":
        return {}
    from ferrule.builtin.session_shells import KEY, SandboxChoice

    if chosen.hosts:
        _require_hosts(chosen.hosts)
    return {
        KEY: SandboxChoice(
            enabled=chosen.enabled,
            hosts=chosen.hosts or None,
            writable=writable_folders(settings, workspace),
            ignored=ignored,
        )
    }


def _require_hosts(hosts: Sequence[str]) -> None:
    from ferrule.process.sandbox.hosts import AllowedHosts, BadHost

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
