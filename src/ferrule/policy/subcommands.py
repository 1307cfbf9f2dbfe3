"""Which words of a command say what it does: what «always» may grant, and what it must grant to the letter alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Programs whose next words choose what they do, with a few of those words, to show what a rule would not cover.
_SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    "git": ("push", "commit", "add", "pull", "checkout", "rebase", "merge"),
    "npm": ("publish", "install", "ci"),
    "npm run": ("build", "test", "deploy", "lint"),
    "pnpm": ("publish", "install", "add"),
    "pnpm run": ("build", "test", "deploy", "lint"),
    "yarn": ("publish", "install", "add", "build"),
    "yarn run": ("build", "test", "deploy", "lint"),
    "bun": ("install", "add"),
    "cargo": ("publish", "build", "test", "clippy"),
    "go": ("install", "build", "test", "vet"),
    "pip": ("install", "uninstall", "download"),
    "pip3": ("install", "uninstall", "download"),
    "uv": ("add", "sync", "publish", "lock"),
    "uv pip": ("install", "uninstall", "sync"),
    "poetry": ("publish", "install", "add", "build"),
    "make": ("install", "build", "test"),
    "just": ("deploy", "build", "test"),
    "docker": ("push", "build", "pull", "stop"),
    "docker compose": ("down", "up", "build"),
    "kubectl": ("delete", "get", "describe", "logs"),
    "helm": ("uninstall", "lint", "template"),
    "terraform": ("apply", "plan", "validate", "fmt"),
    "gh": ("repo", "pr", "issue"),
    "gh pr": ("merge", "create", "view"),
    "gh issue": ("close", "create", "view"),
    "gh repo": ("delete", "clone", "view"),
    "brew": ("uninstall", "install", "list"),
    "apt": ("remove", "list", "show"),
    "apt-get": ("remove", "update"),
    "systemctl": ("stop", "status", "restart"),
    "dotnet": ("publish", "build", "test"),
    "mvn": ("deploy", "compile", "test"),
    "gradle": ("publish", "build", "test"),
    "composer": ("update", "install"),
    "bundle": ("update", "install"),
    "rails": ("destroy", "test"),
    "mix": ("deps.get", "test", "format"),
    "swift": ("package", "build", "test"),
    "ruff": ("format", "check"),
}
_DEEPER = frozenset({"npm run", "pnpm run", "yarn run", "uv pip", "docker compose", "gh pr", "gh issue", "gh repo"})

# Run whatever their arguments say, or take away more than anyone could oversee: never a rule by their name alone.
_TO_THE_LETTER = frozenset(
    {
        "sh", "bash", "zsh", "dash", "ksh", "fish", "csh", "tcsh", "busybox", "python", "python2", "python3",
        "pypy", "pypy3", "ipython", "node", "nodejs", "deno", "ts-node", "tsx", "ruby", "irb", "perl", "php", "lua",
        "luajit", "Rscript", "R", "julia", "java", "javac", "scala", "kotlin", "groovy", "osascript", "powershell",
        "pwsh", "tclsh", "wish", "expect", "awk", "gawk", "mawk", "nawk", "sed", "ed", "ex", "vi", "vim", "nvim",
        "emacs", "env", "sudo", "doas", "su", "runuser", "pkexec", "npx", "pnpx", "bunx", "uvx", "pipx", "xargs",
        "find", "fd", "parallel", "watch", "ssh", "scp", "sftp", "rsync", "timeout", "nice", "nohup", "time",
        "eval", "source", ".", "exec", "command", "builtin", "trap", "setsid", "stdbuf", "ionice", "chroot",
        "unshare", "nsenter", "bwrap", "script", "screen", "tmux", "at", "batch", "crontab", "tee", "dd", "rm",
        "rmdir", "shred", "truncate", "mv", "cp", "ln", "install", "tar", "unzip", "patch", "chmod", "chown",
        "chgrp", "chattr", "setfacl", "kill", "pkill", "killall", "curl", "wget", "nc", "ncat", "netcat", "socat",
        "telnet", "ftp", "mount", "umount", "mkfs", "iptables", "docker-compose", "podman", "kubectx", "aws", "az",
        "gcloud", "psql", "mysql", "sqlite3", "mongosh", "redis-cli", "gdb", "lldb", "strace", "ltrace", "export",
        "alias", "unalias", "declare", "typeset", "local", "readonly", "set", "unset", "shopt", "enable", "hash",
        "cd", "pushd", "popd", "git-shell",
    }
)  # fmt: skip
_TO_THE_LETTER_WITH = frozenset(
    {
        "docker run", "docker exec", "docker cp", "kubectl exec", "kubectl run", "kubectl cp", "npm exec", "npm x",
        "pnpm exec", "pnpm dlx", "yarn exec", "yarn dlx", "bun run", "bun x", "uv run", "uv tool", "poetry run",
        "bundle exec", "go run", "go generate", "cargo run", "git config", "git filter-branch", "git submodule",
        "git bisect", "git clean", "git reset", "git push", "make -f", "gh api", "gh alias", "gh extension",
        "docker compose run", "docker compose exec", "npm run-script", "dotnet run", "swift run", "git daemon",
        "git difftool", "git mergetool", "git rebase", "apt install", "apt-get install",
    }
)  # fmt: skip


def prefix_of(words: Sequence[str]) -> tuple[str, ...] | None:
    """The words that a rule may go by: `git commit`, `npm run test`, `mkdir`. None where only the whole will do."""
    program = words[0]
    name = program.rpartition("/")[2]
    if name in _TO_THE_LETTER or _is_versioned(name) or not name or name.startswith("-"):
        return None
    if name not in _SUBCOMMANDS:
        return (program,)
    taken = 1
    while (key := " ".join((name, *words[1:taken]))) in _SUBCOMMANDS and (taken == 1 or key in _DEEPER):
        if taken >= len(words) or not _is_plain(words[taken]):
            return None  # `git -c …`, or `npm` alone: what it does is not said by its first words
        taken += 1
    chosen = (name, *words[1:taken])
    if any(" ".join(chosen[:length]) in _TO_THE_LETTER_WITH for length in (2, 3)):
        return None
    return (program, *words[1:taken])


def neighbour_of(prefix: Sequence[str]) -> str:
    """A command near to what a rule by these words covers, that it does not cover."""
    name = prefix[0].rpartition("/")[2]
    others = _SUBCOMMANDS.get(" ".join((name, *prefix[1:-1])), ()) if len(prefix) > 1 else ()
    other = next((one for one in others if one != prefix[-1]), None)
    return " ".join((*prefix[:-1], other)) if other is not None else f"{' '.join(prefix)}-other"


def _is_plain(word: str) -> bool:
    """A word that can be a subcommand: no flag, no path, nothing that is only known at run time."""
    return bool(word) and word[0].isalpha() and all(letter.isalnum() or letter in "-_:.@" for letter in word)


def _is_versioned(name: str) -> bool:
    """`python3.12`, `ruby3.2` and the like."""
    bare = name.rstrip("0123456789.-")
    return bare != name and bare in _TO_THE_LETTER
