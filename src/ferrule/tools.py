"""The tools that Ferrule brings, those of a folder or a package, and a linter for your own."""

from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.context import SandboxChoice
from ferrule.core.lint import lint_tool
from ferrule.core.plugin import Plugin
from ferrule.plugins.discovery import load_plugin
from ferrule.plugins.plugin import plugin_settings
from ferrule.toolbox.accounts import (
    Accounts,
    Api,
    CalendarAccount,
    Credential,
    DatabaseAccount,
    MailAccount,
    WebAccess,
)
from ferrule.toolbox.areas import toolbox_tools

__all__ = [
    "Accounts", "Api", "CalendarAccount", "Credential", "DatabaseAccount", "MailAccount", "Plugin", "SandboxChoice",
    "WebAccess", "builtin_tools", "lint_tool", "load_plugin", "plugin_settings", "toolbox_tools",
]  # fmt: skip
