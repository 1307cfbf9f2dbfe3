"""What Ferrule guards by itself: reading secrets asks, writing what other programs run or obey asks in every mode, and
its own settings are never written by a tool.

A path rule of the user's own (`allow = ["Read(.env)"]`) lifts a question; for writes it must name the place, and `**`
does not. Nothing lifts the last: an agent that could write the rules would approve itself.
"""

from __future__ import annotations

import os
import re
import stat
from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING

from ferrule.core.files import without_waiting
from ferrule.core.guarded_names import OF_GIT, SETTINGS, SETTINGS_FOLDERS, is_of_home
from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.pipeline.stages import Verdict
from ferrule.policy.patterns import escape_path
from ferrule.policy.rules import BUILT_IN, About, RuleSet, parse_rules

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from ferrule.policy.rules import Rule

SECRETS = (
    "~/.ssh/**", "~/.gnupg/**", "~/.aws/**", "~/.azure/**", "~/.config/gcloud/**", "~/.kube/**",
    "~/.docker/config.json", "~/.config/gh/**", "~/.netrc", "~/.git-credentials", "~/.npmrc", "~/.pypirc",
    "~/.password-store/**", "~/.local/share/keyrings/**", "~/.mozilla/**", "~/.config/google-chrome/**",
    "~/.config/chromium/**", "~/.bash_history", "~/.zsh_history", "//etc/shadow", "//etc/gshadow", "//etc/sudoers",
    "//etc/sudoers.d/**", "//root/.ssh/**", "//proc/*/environ", "//proc/*/mem", ".env", ".netrc", "_netrc", ".pypirc",
    ".git-credentials", ".pgpass", ".vault-token", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "**/.aws/credentials",
    "**/.cargo/credentials", "**/.cargo/credentials.toml",
)  # fmt: skip
"""Reading these asks."""

_PERHAPS = (
    ".env.*", ".env-*", ".env_*", ".env~", ".envrc", "*.env", "*.pem", "*.key", "*.p8", "*.ppk", "*.p12", "*.pfx",
    "*.jks", "*.keystore", "id_*", ".npmrc", ".yarnrc.yml", "*credential*.json", "*service*account*.json",
    "*client*secret*.json", "**/.docker/config.json", "**/.ssh/**",
)  # fmt: skip
"""Reading these asks where they look like secrets; `looks_secret` says when they do."""
_EXAMPLE = lazy_pattern(r"(^|[._-])(examples?|samples?|template|tpl|dist|defaults?|schema|pub)([._-]|$)", re.IGNORECASE)
_DOT_ENV = lazy_pattern(r"\.env(?:[._~-]|$)")
_FOR_TESTS = frozenset({
    "test", "tests", "testing", "testdata", "test_data", "test-data", "__tests__", "spec", "specs", "e2e", "fixtures",
    "example", "examples", "mocks",
})  # fmt: skip
_HOLDS_SECRET = lazy_pattern(
    rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY|PuTTY-User-Key-File|"
    rb"_auth(?:token)?\s*=|_password\s*=|npmauth(?:token|ident)\s*:|"
    rb"\"(?:auth|private_key|client_secret|refresh_token|[a-z_]*access_key)\"\s*:|"
    rb"://[^\s/:@]{0,80}:[^\s/@]{1,200}@|"
    rb"^(?:\xef\xbb\xbf)?[ \t]*(?:export )?\w{0,80}?(?:secret|token|passw|pwd|key|credential|auth(?!ors?\b|or_)|_dsn|"
    rb"(?:database|db|redis|mongo|postgres|mysql|amqp|broker)\w{0,20}_ur[il])\w{0,80}\s*=\s*[^\s#]",
    re.IGNORECASE | re.MULTILINE,
)
_BARE_KEY = lazy_pattern(rb"\s*[\w+/=.-]{16,}\s*")
_MOST_READ = 1 << 20

STARTERS = (
    *(f"**/{name}" for name in sorted(SETTINGS - {"ferrule.toml"})),
    *(f"**/.git/**/{name}" for name in ("config", "config.worktree", "hooks", "commondir", "info/attributes")),
    # Not at any depth: `refs/remotes` is where fetched branches are.
    *(f"**/.git/{place}{name}" for name in ("remotes", "branches") for place in ("", "modules/*/")),
    "~/.config/fish/**", "~/.config/autostart/**", "~/.config/systemd/**", "~/.config/git/**", "~/.ssh/**",
    "~/.local/bin/**", "~/bin/**", "~/Library/LaunchAgents/**", "//etc/**", "//boot/**", "//bin/**", "//sbin/**",
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
        self._perhaps = _rules("Read", _PERHAPS, Verdict.ASK)
        self.asks = RuleSet.of(_rules("Read", SECRETS, Verdict.ASK) + self._perhaps + starters)
        self.never = RuleSet.of(_rules("Edit", (*_OWN, *files), Verdict.DENY))
        self._own_files = tuple(str(file) for file in own_files)
        self.looked: dict[tuple[str, ...], RuleSet] | None = None
        """Of one decision: where git and links were found to lead."""

    def at_once(self) -> Guarded:
        """The same for one decision, which looks only once at where git and links lead."""
        made = copy(self)
        made.looked = {}
        return made

    def asking(self, path: str, roots: tuple[str, ...], *, write: bool) -> Rule | None:
        """The built-in question about a path, also in other letters: not every file system tells `.Git` from `.git`."""
        found = self.named(path, roots, write=write)
        if found is None and write:
            if place := path if completes_repository(path) else _of_home(path, roots):
                return _questions(frozenset([place])).rules[0]
            return self.obeyed(roots).concerning_path(path, roots, write=True)
        return None if found is not None and self.depends(found) and not looks_secret(path) else found

    def obeyed(self, roots: tuple[str, ...]) -> RuleSet:
        """Questions about places that have any name: those that git's settings point to, and that links lead to."""
        from ferrule.process.sandbox.guarded import obeyed_below

        if self.looked and roots in self.looked:
            return self.looked[roots]
        found = _questions(frozenset(path for root in roots for path in obeyed_below(root)))
        if self.looked is not None:
            self.looked[roots] = found
        return found

    def leads_to_settings(self, link: str, roots: tuple[str, ...]) -> bool:
        """Whether a link would stand on the way to a place that other programs obey."""
        rules = self.obeyed(roots).listed(About.WRITE)
        return leads_to_settings(link, (base for rule in rules if rule.path for base in rule.path.bases(roots)))

    def named(self, path: str, roots: tuple[str, ...], *, write: bool) -> Rule | None:
        """The same by the path's name alone."""
        found = self.asks.concerning_path(path, roots, write=write)
        if (found is None or self.depends(found)) and (folded := path.casefold()) != path:
            found = self.asks.concerning_path(folded, roots, write=write) or found
        return found

    def depends(self, rule: Rule) -> bool:
        """Whether a rule holds only for files that look like secrets."""
        return any(rule is one for one in self._perhaps)

    def own_file_in(self, folder: str, roots: tuple[str, ...]) -> Rule | None:
        """The rule that keeps a settings file which lies in this folder, and would be removed with it."""
        here = [os.path.join(root, name) for root in roots for name in _IN_A_ROOT]  # noqa: PTH118 - text is faster
        inside = folder if folder.endswith("/") else f"{folder}/"
        for file in (*self._own_files, *here):
            if file.startswith(inside) and os.path.exists(file):  # noqa: PTH110
                return self.never.concerning_path(file, roots, write=True)
        return None


@lru_cache(maxsize=32)
def _questions(places: frozenset[str]) -> RuleSet:
    return RuleSet.of(_rules("Edit", (f"/{escape_path(place)}" for place in sorted(places)), Verdict.ASK))


def completes_repository(path: str, made: Collection[str] = ()) -> bool:
    """Whether writing a path makes git obey a folder as a repository, whatever the folder is called: settings and hooks
    beside a `HEAD`, or the `HEAD` beside those. `made` are paths that are written together with it.
    """

    def there(inner: str) -> bool:
        return os.path.lexists(f"{folder}/{inner}") or any(
            one == f"{folder}/{inner}" or one.startswith(f"{folder}/{inner}/") for one in made
        )

    folder, _, name = path.rpartition("/")
    if "/.git/" in f"{folder}/":
        return False  # names within those have rules of their own
    if name.casefold() == "head":
        return not os.path.lexists(path) and any(map(there, OF_GIT))
    if folder.rpartition("/")[2] in OF_GIT:
        folder, _, name = folder.rpartition("/")
    return name.casefold() in OF_GIT and there("HEAD")


def _of_home(path: str, roots: Iterable[str]) -> str:
    """What a path belongs to of the user's home that its programs run or obey, where a workspace holds all of that."""
    home = f"{os.path.realpath(os.environ.get('HOME') or '/')}/"
    inner = path.removeprefix(home)
    if inner == path or not is_of_home(inner) or not any(home.startswith(f"{root.rstrip('/')}/") for root in roots):
        return ""
    return home + inner.partition("/")[0]


def leads_to_settings(link: str, obeyed: Iterable[str]) -> bool:
    """Whether a link stands where a folder would in which other programs look for what they obey; `obeyed` are places
    that are known to be.
    """
    folder, _, name = link.rpartition("/")
    inside = "/.git/" in f"{folder}/" or name.casefold() in SETTINGS_FOLDERS
    return inside or any(place.startswith(f"{link}/") for place in obeyed)


def _rules(tool: str, paths: Iterable[str], verdict: Verdict) -> list[Rule]:
    return parse_rules([f"{tool}({path})" for path in paths], verdict, BUILT_IN)


def looks_secret(path: str) -> bool:
    """Whether a file with a name that secrets often have is one: no example, no test's own key, no public certificate.
    What cannot be read is not read by a command either.
    """
    *folders, name = path.split("/")
    if _EXAMPLE.search(name):
        return False
    lower = name.lower()
    if _DOT_ENV.match(lower):
        return True
    if not _FOR_TESTS.isdisjoint(folder.lower() for folder in folders[-4:]):
        return False
    try:
        state = os.stat(path)  # noqa: PTH116 - of every such file, for every command
        if not stat.S_ISREG(state.st_mode):
            return False
        if lower.endswith((".p12", ".pfx", ".jks", ".keystore")):
            return state.st_size > 0
        return _holds_secret(path, state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    except OSError:
        return False


@lru_cache(maxsize=4096)
def _holds_secret(path: str, *version: int) -> bool:
    with open(path, "rb", opener=without_waiting) as file:
        content = file.read(_MOST_READ)
    found = _HOLDS_SECRET.search(content)
    return bool(found or (path.lower().endswith(".key") and _BARE_KEY.fullmatch(content)))
