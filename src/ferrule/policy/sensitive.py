"""What Ferrule guards by itself: reading secrets asks, writing what other programs run or obey asks in every mode, and
its own settings are never written by a tool.

A path rule of the user's own (`allow = ["Read(.env)"]`) lifts a question; for writes it must name the place, and `**`
does not. Nothing lifts the last: an agent that could write the rules would approve itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ferrule.core.access import OF_GIT, SETTINGS
from ferrule.pipeline.authorise import Verdict
from ferrule.policy.path_patterns import escape_path
from ferrule.policy.rule_set import RuleSet
from ferrule.policy.rules import parse_rules
from ferrule.policy.sources import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from ferrule.policy.rules import Rule

SECRETS = (
    "~/.ssh/**", "~/.gnupg/**", "~/.aws/**", "~/.azure/**", "~/.config/gcloud/**", "~/.kube/**",
    "~/.docker/config.json", "~/.config/gh/**", "~/.netrc", "~/.git-credentials", "~/.npmrc", "~/.pypirc",
    "~/.password-store/**", "~/.local/share/keyrings/**", "~/.mozilla/**", "~/.config/google-chrome/**",
    "~/.config/chromium/**", "~/.bash_history", "~/.zsh_history", "//etc/shadow", "//etc/gshadow", "//etc/sudoers",
    "//etc/sudoers.d/**", "//root/.ssh/**", "//proc/*/environ", "//proc/*/mem", ".env", ".env.local", ".env.*.local",
    ".env.development", ".env.staging", ".env.production", ".env.prod", ".env.test", "id_rsa", "id_ecdsa", "id_ed25519",
)  # fmt: skip
"""Reading these asks."""

STARTERS = (
    *(f"**/{name}" for name in sorted(SETTINGS - {"ferrule.toml"})),
    *(f"**/.git/**/{name}" for name in sorted(OF_GIT)), "**/.git/**/info/attributes",
    "~/.config/fish/**", "~/.config/autostart/**", "~/.config/systemd/**", "~/.config/git/**", "~/.ssh/**",
    "~/.local/bin/**", "~/bin/**", "//etc/**", "//boot/**", "//bin/**", "//sbin/**",
)  # fmt: skip
"""Writing these asks, in every mode: git, an editor, an agent, a shell or the system runs what they hold."""

_IN_A_ROOT = ("ferrule.toml", ".claude/settings.json", ".claude/settings.local.json")
_OWN = (*(f"**/{file}" for file in _IN_A_ROOT), "//etc/ferrule/**")


class Guarded:
    """The rules that Ferrule itself brings."""

    def __init__(self, own_files: Iterable[Path] = (), tool_folders: Iterable[Path] = ()) -> None:
        """`tool_folders` hold Python files that Ferrule itself runs, so writing those asks like any other starter."""
        own_files = list(own_files)
        files = [f"/{escape_path(str(file))}" for file in own_files]
        loaded = [f"/{escape_path(str(folder))}/**/*.py" for folder in tool_folders]
        starters = _rules("Edit", (*STARTERS, *loaded), Verdict.ASK)
        self.asks = RuleSet.of(_rules("Read", SECRETS, Verdict.ASK) + starters)
        self.never = RuleSet.of(_rules("Edit", (*_OWN, *files), Verdict.DENY))
        self._own_files = tuple(str(file) for file in own_files)

    def asking(self, path: str, roots: tuple[str, ...], *, write: bool) -> Rule | None:
        """The built-in question about a path, also in other letters: not every file system tells `.Git` from `.git`."""
        found = self.asks.concerning_path(path, roots, write=write)
        if found is None and not path.islower():
            found = self.asks.concerning_path(path.lower(), roots, write=write)
        return found

    def own_file_in(self, folder: str, roots: tuple[str, ...]) -> Rule | None:
        """The rule that keeps a settings file which lies in this folder, and would be removed with it."""
        here = [os.path.join(root, name) for root in roots for name in _IN_A_ROOT]  # noqa: PTH118 - text is faster
        inside = folder if folder.endswith("/") else f"{folder}/"
        for file in (*self._own_files, *here):
            if file.startswith(inside) and os.path.exists(file):  # noqa: PTH110
                return self.never.concerning_path(file, roots, write=True)
        return None


def _rules(tool: str, paths: Iterable[str], verdict: Verdict) -> list[Rule]:
    return parse_rules([f"{tool}({path})" for path in paths], verdict, BUILT_IN)


# Words that show a command is after a secret, where its paths cannot be known.
TELL_TALES = (".ssh", ".gnupg", ".aws", ".azure", "gcloud", ".kube", ".netrc", "id_rsa", "id_ed25519", ".env", "shadow",
              "credentials", "keyrings", "environ")  # fmt: skip
