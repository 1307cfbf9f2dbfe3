"""The tools that Ferrule brings, those of a folder or a package, and a linter for your own."""

from ferrule.builtin.all_tools import builtin_tools
from ferrule.core.context import SandboxChoice
from ferrule.core.lint import lint_tool
from ferrule.plugins.plugin import Plugin

__all__ = ["Plugin", "SandboxChoice", "builtin_tools", "lint_tool"]
