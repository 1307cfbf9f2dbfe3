"""What «always» would remember of a call: a rule that covers the same call again, and as little else as is of use."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ferrule.core.phrases import phrase
from ferrule.core.shown_text import hidden_in
from ferrule.core.tool import Kind
from ferrule.pipeline.confirm import Offer
from ferrule.pipeline.stages import Verdict
from ferrule.policy.findings import inside
from ferrule.policy.patterns import RuleError, escape_command, escape_path, join_words
from ferrule.policy.rules import BASH, FETCH, SESSION, parse_rule
from ferrule.policy.weigh import needs_no_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ferrule.core.context import Session
    from ferrule.core.tool import Invocation, Tool
    from ferrule.policy.commands.parts import Part
    from ferrule.policy.findings import Judge, Judgement
    from ferrule.policy.rules import Rule


# Which words of a command say what it does: what «always» may grant, and what it must grant to the letter alone.


# Programs whose next words choose what they do, with a few of those words, to show what a rule would not cover.
_SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    program: tuple(words.split())
    for program, words in {
        "git": "push commit add pull checkout rebase merge", "npm": "publish install ci",
        "npm run": "build test deploy lint", "pnpm": "publish install add", "pnpm run": "build test deploy lint",
        "yarn": "publish install add build", "yarn run": "build test deploy lint", "bun": "install add",
        "cargo": "publish build test clippy", "go": "install build test vet", "pip": "install uninstall download",
        "pip3": "install uninstall download", "uv": "add sync publish lock", "uv pip": "install uninstall sync",
        "poetry": "publish install add build", "make": "install build test", "just": "deploy build test",
        "docker": "push build pull stop", "docker compose": "down up build", "kubectl": "delete get describe logs",
        "helm": "uninstall lint template", "terraform": "apply plan validate fmt", "gh": "repo pr issue",
        "gh pr": "merge create view", "gh issue": "close create view", "gh repo": "delete clone view",
        "brew": "uninstall install list", "apt": "remove list show", "apt-get": "remove update",
        "systemctl": "stop status restart", "dotnet": "publish build test", "mvn": "deploy compile test",
        "gradle": "publish build test", "composer": "update install", "bundle": "update install",
        "rails": "destroy test", "mix": "deps.get test format", "swift": "package build test", "ruff": "format check",
    }.items()
}  # fmt: skip
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
    versionless = name.rstrip("0123456789.-")  # `python3.12`, `ruby3.2` and the like
    if name in _TO_THE_LETTER or versionless in _TO_THE_LETTER or not name or name.startswith("-"):
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


def offer_for(policy: Judge, invocation: Invocation, session: Session) -> Offer | None:
    """What a person is shown: the rules, one future call they cover, and one near it that they do not."""
    judged = policy.judge(invocation, session)
    if not judged.can_be_always:
        return None
    if _has_own_rule(invocation, judged):
        return Offer(invocation.always_rule, exact=_by_signature(policy, invocation, session))
    offers = _offers(policy, invocation, session, judged)
    if not offers:
        return None
    rules = _texts(offers)
    exact = _texts(_offers(policy, invocation, session, judged, exact=True))
    shown = next((offer for offer in offers if offer.covers and offer.not_covers), offers[0])
    return Offer(", ".join(rules), shown.covers, shown.not_covers, rules, exact=exact)


def _texts(offers: Iterable[Offer]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(offer.rule for offer in offers))


def _by_signature(policy: Judge, invocation: Invocation, session: Session) -> tuple[str, ...]:
    """Rules for what the tool says of this call, where they would let it run."""
    name = invocation.tool.name
    offers = [Offer(f"{name}({escape_command(one)})") for one in invocation.subjects]
    try:
        return _texts(offers) if _suffice(offers, policy, invocation, session) else ()
    except RuleError:  # some signatures cannot be written as a rule
        return ()


class Grants(NamedTuple):
    """What an «always» adds to a session: leave for this very tool, not for whatever has its name, and rules."""

    tool: bool
    rules: list[Rule]


def grants_for(policy: Judge, invocation: Invocation, session: Session) -> Grants:
    judged = policy.judge(invocation, session)
    if not judged.can_be_always:
        return Grants(False, [])
    if _has_own_rule(invocation, judged):
        return Grants(True, [])
    texts = dict.fromkeys(offer.rule for offer in _offers(policy, invocation, session, judged))
    name = invocation.tool.name
    return Grants(name in texts, [parse_rule(text, Verdict.ALLOW, SESSION) for text in texts if text != name])


def _has_own_rule(invocation: Invocation, judged: Judgement) -> bool:
    """Whether only the tool knows what an «always» should cover; of paths and commands, rules say it better."""
    request = judged.request
    of_paths = (request.reads or request.writes) and not request.writes_else
    if request.commands or of_paths or invocation.info.asks_always:
        return False
    return invocation.always_rule != invocation.tool.name


def _needs_its_name(tool: Tool[object], judged: Judgement) -> bool:
    """Whether only its name lets a tool run: rules about paths do not reach one that does more, or is dangerous."""
    request = judged.request
    if tool.dangerous or tool.asks_anyway:
        return True
    if request.commands or (tool.name == FETCH and request.hosts):
        return False
    return tool.kind is Kind.EXECUTE or request.writes_else


def _offers(
    policy: Judge, invocation: Invocation, session: Session, judged: Judgement, *, exact: bool = False
) -> list[Offer]:
    """What an "always" adds; with `exact`, what covers this call and as little else as can be said."""
    if invocation.info.asks_always:
        name = invocation.tool.name
        return [Offer(f"{name}({escape_command(one)})", one, phrase("anything else")) for one in invocation.subjects]
    request, needs_its_name = judged.request, _needs_its_name(invocation.tool, judged)
    by_name = Offer(invocation.tool.name, phrase("any call of {name}", name=invocation.tool.name))
    guarded = _guarded(policy, judged, write=False) or _guarded(policy, judged, write=True)
    touched = request.commands or request.writes or (invocation.tool.name == FETCH and request.hosts)
    if not guarded and (not touched or needs_its_name):
        return [by_name]  # a grant can only be for the tool as such, and for none of the paths it names
    if not request.commands:
        offers = list(_for_resources(policy, invocation, judged, exact=exact))
        if needs_its_name and not _suffice(offers, policy, invocation, session):
            offers.insert(0, by_name)
        return offers
    # A rule for each part that lacks leave and can have one by its first words.
    lacking = {finding.what for finding in judged.findings if not finding.leave}
    parts = [part for analysis in request.commands for part in analysis.parts if part.text in lacking]
    parts = [part for part in parts if not needs_no_rule(part)] or parts
    by_part = [offer for part in parts if (offer := _for_part(part)) is not None]
    # Tried, not assumed: where a rule for each part is not enough, the command to the letter may be, or nothing is.
    whole = [_whole(analysis.command) for analysis in request.commands]
    for offers in (whole,) if exact else (by_part, whole):
        if _suffice(offers, policy, invocation, session):
            return offers
    return []


def _suffice(offers: list[Offer], policy: Judge, invocation: Invocation, session: Session) -> bool:
    """Whether these rules would let the call run for real: tried, not assumed."""
    rules = [parse_rule(offer.rule, Verdict.ALLOW, SESSION) for offer in offers]
    decision = policy.judge(invocation, session, rules).decision
    return decision.verdict is Verdict.ALLOW and not decision.tentative


def _for_resources(policy: Judge, invocation: Invocation, judged: Judgement, *, exact: bool) -> Iterator[Offer]:
    request, tool = judged.request, invocation.tool
    if _needs_its_name(tool, judged):
        yield from (_for_write(path, policy, judged, exact=exact) for path in _guarded(policy, judged, write=True))
    elif tool.name == FETCH:
        for host in request.hosts:
            yield Offer(
                f"{FETCH}(domain:{host})",
                phrase("any page of {host}", host=host),
                phrase("a page of www.{host}", host=host),
            )
    else:
        yield from (_for_write(path, policy, judged, exact=exact) for path in request.writes)
    for path in _guarded(policy, judged, write=False):
        yield Offer(f"Read(/{escape_path(path)})", path, str(Path(path).parent / "another-file"))


def _guarded(policy: Judge, judged: Judgement, *, write: bool) -> list[str]:
    """The paths of a call that Ferrule itself asks about."""
    request = judged.request
    paths = request.writes if write else request.reads
    return [path for path in paths if policy.guarded.asking(path, request.roots, write=write)]


# Paths


def _for_write(path: str, policy: Judge, judged: Judgement, *, exact: bool) -> Offer:
    """All in the file's folder, or in the folder itself that is written to; the file alone where the rule shall be
    `exact`, and where its folder is not the workspace's or the file is looked after.
    """
    roots = judged.request.roots
    is_folder = os.path.isdir(path)  # noqa: PTH112 - real paths are text here
    folder = path if is_folder else os.path.dirname(path)  # noqa: PTH120
    if not is_folder and (exact or not inside(folder, roots) or policy.guarded.asking(path, roots, write=True)):
        return Offer(f"Edit(/{escape_path(path)})", path, str(Path(path).parent / "another-file"))
    outer = str(Path(folder).parent / "another-folder" / "file")
    return Offer(f"Edit(/{escape_path(folder.rstrip('/'))}/**)", str(Path(folder) / "another-file"), outer)


# Commands


def _for_part(part: Part) -> Offer | None:
    if not part.plain:
        return None  # a rule by its first words would not cover it
    prefix = prefix_of(part.words)
    if prefix is None or any("*" in word or "\\" in word or hidden_in(word) for word in prefix):
        return None
    text = join_words(prefix)
    try:
        rule = parse_rule(f"{BASH}({text} *)", Verdict.ALLOW, SESSION)
    except RuleError:
        return None  # a program whose name holds `;` or the like
    return Offer(rule.text, f"{text} --verbose", neighbour_of(prefix))


def _whole(command: str) -> Offer:
    """The command to the letter."""
    rule = f"{BASH}({escape_command(command)})"
    shown = command.strip()
    return Offer(rule, shown, f"{shown} {shlex.quote('more')}")
