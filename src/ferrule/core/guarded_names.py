"""The names of files and folders that other programs run or obey on their own. This is the only list of them: rules,
boxes and the folders of plugins all go by it.

Names are in lower case, because not every file system and not every program tells `.vscode` from `.VSCode`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

SHELL_FILES = frozenset({
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", ".inputrc",
    ".xprofile", ".xinitrc", ".xsession", ".xsessionrc", ".pam_environment",
})  # fmt: skip
"""What a shell or a desktop runs at its start."""
SETTINGS = SHELL_FILES | frozenset({
    "ferrule.toml", ".ferrule",
    # Editors
    ".vscode", "*.code-workspace", ".idea", ".zed", ".fleet", ".vs", ".helix", ".theia", ".nova", "*.sublime-project",
    ".project", ".externaltoolbuilders", ".nvim.lua", ".nvimrc", ".exrc",
    ".vimrc", ".gvimrc", ".lvimrc", ".vim", ".dir-locals.el", ".dir-locals-2.el", ".neoconf.json",
    ".devcontainer", ".devcontainer.json", ".vimspector.json",
    # Agents
    ".claude", ".codex", ".gemini", ".cursor", ".windsurf", ".trae", ".mcp.json", ".continue", ".continuerc.json",
    ".kiro", ".roo", ".kilocode", ".cline", ".clinerules/hooks", ".qwen", ".amazonq", ".opencode", "opencode.json",
    "opencode.jsonc", ".crush", "crush.json", ".crush.json", ".aider.conf.yml", ".agents", ".factory", ".junie",
    ".augment", ".openhands", ".goose", ".amp", ".iflow", ".qoder", ".codebuddy", ".vibe", ".pi", ".omp",
    ".opencode.json", ".agent", ".devin", ".tabnine", ".mux", ".conductor", "conductor.json", ".superset",
    ".github/hooks", ".github/agents", ".github/copilot", ".github/mcp.json",
    # Git and other version control, and what their hooks run
    ".gitmodules", ".gitconfig", ".gitattributes", ".hg/hgrc", ".hg/hgrc-not-shared",
    ".sl/config", ".husky", ".huskyrc*", ".cargo-husky",
    ".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml", "lefthook.*", "lefthook-local.*", ".lefthook",
    ".lefthook.*", ".lefthook-local", ".lefthook-local.*", ".overcommit.yml", ".git-hooks", ".simple-git-hooks.*",
    "simple-git-hooks.*", ".lintstagedrc*", "lint-staged.config.*", ".rusty-hook.toml", "captainhook.json",
    "grumphp.yml", "hk.pkl",
    # Package managers
    ".npmrc", ".yarnrc", ".yarnrc.yml", ".yarn/plugins", ".yarn/releases", ".pnpmfile.*", "pnpm-workspace.yaml",
    "bunfig.toml", ".cargo/config", ".cargo/config.toml", ".mvn", ".bundle/config", "nuget.config", "uv.toml",
    # What chooses the versions of tools, or loads an environment when a shell enters the folder
    ".tool-versions", "mise.toml", "mise.*.toml", ".mise.toml", ".mise.*.toml", ".mise", "mise/config.toml",
    ".config/mise", ".config/mise.toml", ".rtx.toml", ".prototools", ".sdkmanrc", "rust-toolchain",
    "rust-toolchain.toml", ".envrc", ".envrc.*", ".direnv", ".autoenv", ".autoenv.*", ".autoenv_*",
    ".shadowenv.d", ".rvmrc", ".rbenv-vars", "flake.nix", "flake.lock",
    "shell.nix", "devenv.nix", "devenv.yaml", "devbox.json",
    # Debuggers and interpreters
    ".gdbinit", ".lldbinit", ".pdbrc", ".irbrc", ".pryrc", ".rdbgrc", ".byebugrc", ".perldb", ".rprofile", ".renviron",
    ".ghci", ".iex.exs", ".erlang", ".ocamlinit", ".octaverc",
})  # fmt: skip
"""Names that are obeyed wherever they lie, some within a folder of a certain name; `*` stands for anything.

Source code, build files and the settings of test runners are not among them: those take effect when the user runs what
they belong to. These take effect when somebody opens an editor, changes folder, commits or installs. What services
build after a push is not either: it runs elsewhere, and the push itself asks.
"""
_STARRED = lazy_pattern(
    "|".join(re.escape(name).replace(r"\*", ".*") for name in sorted(SETTINGS) if "*" in name), re.DOTALL
)
SETTINGS_FOLDERS = frozenset(name.partition("/")[0] for name in SETTINGS if "/" in name)
"""Where a name counts within a folder alone: the folder's. As a link, which may lead anywhere, it counts by itself."""
_OF_DEPENDENCIES = frozenset({"node_modules", "site-packages"})
"""Folders of other people's packages, where nobody opens an editor or a shell, and nothing is committed."""
CONFIGS = frozenset({"config", "config.worktree"})
OF_GIT = CONFIGS | frozenset({"hooks", "commondir", "remotes", "branches"})
"""The same within a git directory; `remotes` and `branches` are where git looks for remotes besides its settings."""


def is_setting_name(name: str) -> bool:
    """Whether what is called so is obeyed wherever it lies."""
    folded = name.casefold()
    return folded in SETTINGS or _STARRED.fullmatch(folded) is not None


def settings_among(folder: str, names: Iterable[str]) -> set[str]:
    """Of the names in a folder of the workspace those that other programs obey."""
    above = folder.casefold().split("/")
    if not _OF_DEPENDENCIES.isdisjoint(above):
        return set()
    found = set(filter(is_setting_name, names))
    if above[-1] in SETTINGS_FOLDERS:
        found |= {name for name in names if f"{above[-1]}/{name.casefold()}" in SETTINGS}
    return found


def is_setting(path: str) -> bool:
    """Whether other programs obey what is at a path of the workspace, or a folder that it lies in."""
    above = ""
    for part in path.casefold().split("/"):
        if f"{above}/{part}" in SETTINGS or is_setting_name(part):
            return True
        if part in _OF_DEPENDENCIES:
            return False
        above = part
    return False


def guarded_by_name(path: str) -> bool:
    """Whether other programs obey a path of the workspace for its name, which may be one in a git directory."""
    parts = path.split("/")
    inside = parts[parts.index(".git") + 1 :] if ".git" in parts else []
    nested = inside[:1] in (["modules"], ["worktrees"])
    return not OF_GIT.isdisjoint(inside if nested else inside[:1]) or is_setting(path)


# A home is full of what programs run and obey, more than can be listed: all that is hidden there counts, and where
# programs are installed. Not these, which hold copies or belong to a project, or have names above.
_PLAIN_OF_HOME = frozenset({
    ".cache", ".npm", ".git", ".gitignore", ".github", ".venv", ".tox", ".nox", ".pytest_cache", ".mypy_cache",
    ".ruff_cache", ".hypothesis", ".coverage", ".trash", ".ds_store", ".cargo/registry", ".cargo/git", ".m2/repository",
    ".gradle/caches", ".nuget/packages", ".local/state", ".local/share/trash", ".bun/install", ".ivy2/cache",
})  # fmt: skip
_PROGRAMS_OF_HOME = ("bin", "go/bin", "miniconda3", "anaconda3", "miniforge3", "mambaforge")


def is_of_home(path: str) -> bool:
    """Whether a path of a home is where its programs and their settings are."""
    folded = path.casefold()
    parts = folded.split("/")
    if not _PLAIN_OF_HOME.isdisjoint("/".join(parts[:end]) for end in range(1, 4)):
        return False
    return folded.startswith(".") or any(f"{folded}/".startswith(f"{name}/") for name in _PROGRAMS_OF_HOME)
