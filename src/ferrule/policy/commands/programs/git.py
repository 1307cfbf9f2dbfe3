"""`git`: which of its many subcommands only look, and which options make even those write or run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase

from ..expansion import Loose
from ..finding import READS, RUNS, WRITES, Finding
from ..naming import names
from ..options import grammar, parse
from .table import Operands, Program, Reader, describe, reader

if TYPE_CHECKING:
    from ..parts import Effect

_GLOBAL = grammar(
    "C:c:pPvh",
    "version help no-pager paginate no-replace-objects no-lazy-fetch no-optional-locks no-advice bare literal-pathspecs"
    " glob-pathspecs noglob-pathspecs icase-pathspecs html-path man-path info-path exec-path? git-dir="
    " work-tree= namespace="
    " super-prefix= config-env= list-cmds= attr-source=",
    permute=False,
)
_GLOBAL_HARMLESS = frozenset(
    names(
        """
        -C -P --no-pager --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice --literal-pathspecs
        --glob-pathspecs --noglob-pathspecs --icase-pathspecs
        """
    )
)
_RUNS_PROGRAM = (RUNS, "runs a program that the settings name")
_SPOILS = {
    "--output": (WRITES, "writes its output to a file"),
    "--ext-diff": _RUNS_PROGRAM,
    "--textconv": _RUNS_PROGRAM,
    "--filters": _RUNS_PROGRAM,
    "--exec": (RUNS, "runs a program"),
    "--upload-pack": (RUNS, "runs a program"),
    "--remote": (RUNS, "reaches another machine"),
    "--show-signature": (RUNS, "runs a program that checks signatures"),
}


def _looks(does: str, values: str = "", long: str = "", spoils: dict[str, tuple[Effect, str]] | None = None) -> Reader:
    return reader(
        does,
        f"n:L:S:G:{values}",
        f"output-indicator-new= output-indicator-old= output-indicator-context= {long}",
        open=True,
        spoils={**_SPOILS, **(spoils or {})},
    )


_LOOKS = {
    "status": _looks("tells what has changed"),
    "log": _looks("shows the history"),
    "diff": _looks("shows changes"),
    "show": _looks("shows a commit"),
    "whatchanged": _looks("shows the history"),
    "shortlog": _looks("sums the history up"),
    "blame": _looks("shows who wrote what"),
    "annotate": _looks("shows who wrote what"),
    "describe": _looks("names a commit"),
    "rev-parse": _looks("names a commit"),
    "rev-list": _looks("lists commits"),
    "ls-files": _looks("lists files"),
    "ls-tree": _looks("lists files"),
    "cat-file": _looks("prints an object"),
    "diff-tree": _looks("shows changes"),
    "diff-index": _looks("shows changes"),
    "diff-files": _looks("shows changes"),
    "for-each-ref": _looks("lists branches and tags"),
    "show-ref": _looks("lists branches and tags"),
    "show-branch": _looks("lists branches"),
    "name-rev": _looks("names a commit"),
    "merge-base": _looks("finds a common ancestor"),
    "cherry": _looks("lists commits"),
    "range-diff": _looks("compares series of commits"),
    "count-objects": _looks("counts objects"),
    "check-ignore": _looks("tells what is ignored"),
    "check-attr": _looks("tells attributes"),
    "check-ref-format": _looks("checks a name"),
    "check-mailmap": _looks("looks a name up"),
    "patch-id": _looks("names a patch"),
    "version": _looks("tells its version"),
    "grep": reader(
        "searches text",
        "e:f:m:A:B:C:O?nlLcivwEGFPaIhHopqrW",
        "open-files-in-pager?",
        open=True,
        spoils={**_SPOILS, "-O": (RUNS, "runs a pager"), "--open-files-in-pager": (RUNS, "runs a pager")},
        operands=Operands.PATTERN,
    ),
    "var": _looks("prints settings"),
    "fsck": _looks(
        "checks the repository", long="lost-found", spoils={"--lost-found": (WRITES, "writes found objects")}
    ),
    "get-tar-commit-id": _looks("names a commit"),
}
_LIST = grammar(
    "larvin?q",
    "list all remotes verbose contains? no-contains? merged? no-merged? points-at= sort= format= column? no-column"
    " show-current ignore-case color? no-color abbrev? no-abbrev quiet omit-empty",
)


def _lists(name: str, arguments: list[str]) -> Finding | None:
    """`branch` and `tag` list as long as they have nothing but listing options, or a pattern behind `--list`."""
    parsed = parse(_LIST, arguments)
    if parsed.unknown or parsed.loose:
        return None
    wants_list = parsed.has("-l", "--list", "--contains", "--no-contains", "--merged", "--no-merged", "--points-at")
    if parsed.operands and not wants_list:
        return None
    return Finding(READS, f"`{name}` lists what there is")


_CONFIG = grammar(
    "lz",
    "get get-all get-regexp get-urlmatch get-color get-colorbool list global local system worktree show-origin"
    " show-scope name-only null type= bool int bool-or-int path expiry-date includes no-includes default= all regexp",
)


def _config(name: str, arguments: list[str]) -> Finding:
    parsed = parse(_CONFIG, arguments)
    operands = parsed.operands
    reads = parsed.has("-l", "--list", "--get", "--get-all", "--get-regexp", "--get-urlmatch", "--get-color")
    reads = reads or operands[:1] in (["get"], ["list"]) or (len(operands) == 1 and "." in operands[0])
    if reads and not parsed.unknown and not parsed.loose:
        return Finding(READS, f"`{name}` prints settings")
    key = next(iter(operands), "")
    dangers = [phrase("it sets a program that git starts by itself")] if _starts_program(key) else []
    return Finding(RUNS, f"`{name}` changes settings, which can name programs to run", dangers=dangers)


def _starts_program(key: str) -> bool:
    key = key.lower()
    return key.startswith(
        (
            "alias.",
            "filter.",
            "credential.",
            "include",
            "url.",
            "protocol.",
            "diff.",
            "merge.",
            "difftool.",
            "mergetool.",
            "gpg.",
            "pager.",
            "uploadpack.",
        )
    ) or key in {
        "core.hookspath",
        "core.sshcommand",
        "core.fsmonitor",
        "core.editor",
        "core.pager",
        "core.gitproxy",
        "core.askpass",
        "sequence.editor",
        "core.attributesfile",
        "core.worktree",
    }


_SECOND_WORD_READS: dict[str, frozenset[str]] = {
    "worktree": frozenset({"list"}),
    "notes": frozenset({"list", "show"}),
    "bisect": frozenset({"log"}),
    "bundle": frozenset({"verify", "list-heads"}),
    "submodule": frozenset({"status"}),
    "sparse-checkout": frozenset({"list"}),
    "rerere": frozenset({"status", "diff"}),
    "stash": frozenset({"list", "show"}),
    "maintenance": frozenset(),
}
_NETWORK = frozenset(
    {"clone", "fetch", "pull", "push", "ls-remote", "remote-http", "remote-https", "archive", "send-email", "daemon"}
)


def _git(name: str, arguments: list[str]) -> Finding:
    parsed = parse(_GLOBAL, arguments)
    if parsed.unknown or (parsed.loose in parsed.operands[:1] and parsed.loose):
        return Finding(RUNS, f"`{name}` has an option that nobody described, or a subcommand only known at run time")
    if not parsed.operands:
        told = (
            parsed.has("-v", "-h", "--version", "--help", "--html-path", "--man-path", "--info-path") or not arguments
        )
        told = told or arguments == ["--exec-path"]
        return Finding(READS if told else RUNS, f"`{name}` tells about itself")
    subcommand, rest = parsed.operands[0], parsed.operands[1:]
    folders = parsed.values("-C")
    finding = _subcommand(f"{name} {subcommand}", subcommand, rest)
    # `HEAD:.env` is a file in a commit; a commit's own name does no harm among the paths.
    finding.reads = [*(word if type(word) is Loose else word.rpartition(":")[2] for word in finding.reads), *folders]
    spoiling = next((option for option, _ in parsed.options if option not in _GLOBAL_HARMLESS), None)
    if spoiling is not None and finding.effect is not RUNS:
        finding.effect, finding.why = RUNS, f"`{name} {spoiling}` can make git run a program"
    return finding


def _subcommand(name: str, subcommand: str, rest: list[str]) -> Finding:
    if any("%G" in word for word in rest):
        return Finding(RUNS, f"`{name}` checks signatures, with a program that the settings name")
    if subcommand in _LOOKS:
        return describe(_LOOKS[subcommand], name, rest)
    if subcommand in ("branch", "tag"):
        listed = _lists(name, rest)
        if listed is not None:
            return listed
    elif subcommand == "config":
        return _config(name, rest)
    elif subcommand == "remote":
        if (
            not rest
            or rest in (["-v"], ["--verbose"])
            or (rest[0] == "get-url" and not any(type(w) is Loose for w in rest))
        ):
            return Finding(READS, f"`{name}` lists other repositories")
    elif subcommand == "reflog":
        if not rest or rest[0] == "show" or rest[0] not in ("expire", "delete", "drop", "exists", "write"):
            return describe(_LOOKS["log"], name, rest[1:] if rest[:1] == ["show"] else rest)
    elif subcommand == "symbolic-ref":
        refs = rest[1:] if rest[:1] in (["--short"], ["-q"]) else rest
        if len(refs) == 1 and type(refs[0]) is not Loose and not refs[0].startswith("-"):
            return Finding(READS, f"`{name}` prints a name")
    elif subcommand == "help" and all(word.isalnum() or word in ("-a", "-g") for word in rest):
        return Finding(READS, f"`{name}` shows help")
    elif subcommand in ("submodule", "notes") and not rest:
        return Finding(READS, f"`{name}` lists what there is")
    elif rest[:1] and rest[0] in _SECOND_WORD_READS.get(subcommand, ()):
        return describe(_LOOKS["log"], f"{name} {rest[0]}", rest[1:])
    hosts: list[str | None] = [_host(rest)] if subcommand in _NETWORK else []
    return Finding(
        RUNS, f"`{name}` changes the repository, and may run hooks", hosts=hosts, dangers=_dangers(subcommand, rest)
    )


def _host(arguments: list[str]) -> str | None:
    for word in arguments:
        if "://" in word:
            return word.partition("://")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]
        if ":" in word and "@" in word:
            return word.partition(":")[0].rpartition("@")[2]
    return None


def _dangers(subcommand: str, arguments: list[str]) -> list[str]:
    """What cannot be taken back, or lets others' code in."""
    words = set(arguments)
    letters = {
        letter for word in arguments if word.startswith("-") and not word.startswith("--") for letter in word[1:]
    }

    def given(*options: str) -> bool:
        return any(
            word.partition("=")[0] in options
            or (len(word) > 4 and word.startswith("--") and any(o.startswith(word.partition("=")[0]) for o in options))
            for word in words
        )

    found: list[str] = []
    if subcommand == "push":
        if (
            "f" in letters
            or given("--force", "--force-with-lease", "--mirror", "--delete", "--prune")
            or "d" in letters
        ) or any(word.startswith(("+", ":")) for word in arguments):
            found.append(phrase("it overwrites or removes what others have on the other side"))
    elif subcommand == "reset" and given("--hard", "--merge", "--keep"):
        found.append(phrase("it throws away changes that are not committed"))
    elif subcommand == "clean" and ("f" in letters or given("--force")):
        found.append(phrase("it removes files that git does not know, beyond recovery"))
    elif subcommand in ("checkout", "switch", "restore"):
        if (
            "f" in letters
            or given("--force", "--discard-changes")
            or words & {".", "--", ":/"}
            or (subcommand == "restore" and not given("--staged"))
        ):
            found.append(phrase("it throws away changes that are not committed"))
    elif subcommand == "branch" and ("D" in letters or (given("--delete") and given("--force"))):
        found.append(phrase("it removes a branch even when nothing else holds its commits"))
    elif (subcommand == "stash" and words & {"drop", "clear"}) or (
        subcommand == "reflog" and words & {"expire", "delete"}
    ):
        found.append(phrase("it removes work that nothing else holds"))
    elif subcommand in ("filter-branch", "filter-repo"):
        found.append(phrase("it rewrites the whole history"))
    elif (subcommand == "gc" and given("--prune")) or subcommand == "prune":
        found.append(phrase("it removes objects beyond recovery"))
    elif subcommand == "update-ref" and ("d" in letters or given("--delete")):
        found.append(phrase("it removes a branch or tag"))
    if any(word.startswith("ext::") for word in arguments):
        found.append("an `ext::` address runs a command")
    if given("--upload-pack", "--receive-pack") or (
        subcommand in ("clone", "fetch", "ls-remote") and "u" in letters and subcommand != "fetch"
    ):
        found.append(phrase("it names the program to run on the other side"))
    return found


GIT: dict[str, Program] = {"git": _git}
