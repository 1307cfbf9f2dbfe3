"""Programs that start another program: what they start is a part of its own.

Only options that take a value have to be known here, so that the command behind them is found. What is overlooked costs
a rule or a danger its look at the inner command; it opens nothing, since a box holds whatever runs.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from itertools import pairwise, zip_longest

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.policy.commands.find_words import started_by_find
from ferrule.policy.commands.parts import Guess, likely_name, names
from ferrule.policy.commands.words import is_assignment

SHELLS = names("sh bash dash ash rbash zsh fish csh tcsh ksh mksh ksh93")
FEEDERS = names("find gfind fd fdfind xargs gxargs parallel sem ssh autossh entr git")
"""These run what they were not asked for by name: a rule for `find` is none for what its `-exec` starts."""

# name: (short options that take a value, long ones, operands before the command)
_RUNNERS: dict[str, tuple[str, str, int]] = {
    "nice": ("n", "adjustment", 0),
    "time": ("fo", "format output", 0),
    "stdbuf": ("ioe", "input output error", 0),
    **dict.fromkeys(("timeout", "gtimeout"), ("ks", "kill-after signal", 1)),
    "ionice": ("cnpPu", "class classdata", 0),
    "chrt": ("TPD", "", 1),
    "exec": ("a", "", 0),
    "caffeinate": ("tw", "", 0),
    "sudo": ("ugpCDRTUrthac", "user group prompt chdir close-from host other-user command-timeout role type chroot", 0),
    "doas": ("uC", "", 0),
    "pkexec": ("", "user", 0),
    "run0": ("ugD", "user group chdir", 0),
    "dzdo": ("ugp", "", 0),
    "please": ("ug", "", 0),
    "runuser": ("ugGs", "user group shell", 0),
    "chroot": ("", "userspec groups", 1),
    "unshare": ("SGRwl", "root wd", 0),
    "nsenter": ("tSG", "target", 0),
    "strace": ("eopsuEabIOPSUn", "output trace attach", 0),
    "ltrace": ("eopsuEalnA", "output", 0),
    "flock": ("wE", "timeout wait conflict-exit-code", 1),
    **dict.fromkeys(
        ("xargs", "gxargs"), ("aAdEILnPs", "arg-file delimiter max-args max-procs max-chars process-slot-var", 0)
    ),
    "watch": ("nqs", "interval equexit shotsdir", 0),
    "ssh": ("BbcDEeFIiJLlmOopQRSWw", "", 1),
    "autossh": ("BbcDEeFIiJLlmOopQRSWwM", "", 1),
    **dict.fromkeys(
        names("""
            nohup setsid unbuffer chronic command builtin coproc setpriv busybox toybox entr
            valgrind rr prlimit numactl cpulimit setarch linux32 linux64 xvfb-run dbus-run-session fakeroot fakechroot
            proot eatmydata firejail bwrap proxychains proxychains4 torsocks torify systemd-inhibit rlwrap catchsegv
            cgexec doppler dotenv aws-vault envdir chpst softlimit daemonize annotate-output faketime sshpass dumb-init
            tini retry ts shx npx pnpx bunx uvx pipx direnv hyperfine
        """),
        ("", "", 0),
    ),
    **dict.fromkeys(names("taskset gosu su-exec setuidgid perf"), ("", "", 1)),
    "screen": ("cehpSsTt", "", 0),
}
_CONTAINERS = names("docker podman nerdctl kubectl oc docker-compose")
# The words after which these have a command of their own.
_RUN_WORDS = {
    **dict.fromkeys(names("uv poetry pipenv hatch pdm rye conda mamba micromamba pixi"), ("run",)),
    **dict.fromkeys(["npm", "pnpm", "yarn"], ("exec", "dlx", "x")),
    **dict.fromkeys(names("bundle mise asdf rbenv pyenv op"), ("exec", "run", "x")),
    **dict.fromkeys(_CONTAINERS, ("exec", "run")),
}
_VALUED_RUN_OPTIONS = names("""
    -e -u -w -v -p -n -c --env --user --workdir --volume --publish --name --namespace --container --env-file --network
    --mount --entrypoint --with --from --python --group --extra --project --directory --index --context
""")
_SHELL_VALUED = frozenset({"--rcfile", "--init-file", "-o", "+o", "-O", "+O"})


@dataclass(slots=True)
class Inner:
    """What a command starts: other words, or a text that a shell reads."""

    words: list[str] = field(default_factory=list[str])
    script: str = ""


@dataclass(slots=True)
class Unwrapped:
    """What the words of a command start besides its own program."""

    inner: list[Inner] = field(default_factory=list[Inner])
    stands_for_it: bool = False
    """Whether the program is nothing but a wrapper, so that the inner command stands in its place."""
    reads_input: bool = False
    """Whether it runs what it reads from its input."""
    unknown: bool = False
    """Whether what it starts is only known once it runs."""


def unwrap(words: list[str]) -> Unwrapped:
    """Look for the command within a command."""
    name, arguments = likely_name(words), words[1:]
    if name == "env":
        return _env(arguments)
    if name in SHELLS:
        return _shell(arguments)
    if name == "eval":
        text = arguments[1:] if arguments[:1] == ["--"] else arguments
        return _scripts([" ".join(text)] if text else [], unknown=_any_guess(text), stands=True)
    if name == "trap":
        scripts = [word for word in arguments if not word.startswith("-")][:1] if len(arguments) > 1 else []
        return _scripts(scripts, unknown=_any_guess(scripts))
    if name == "alias":
        return _scripts([word.partition("=")[2] for word in arguments if "=" in word])
    if name in ("su", "script", "nix-shell", "tmux"):
        scripts = _values(arguments, ("-c", "-qc", "--command", "--session-command", "--run"))
        if name == "tmux":
            scripts = [" ".join(word for word in arguments[1:] if word not in ("Enter", "C-m", "-d", "-h", "-v"))]
            scripts = [word for word in arguments if " " in word] or scripts
        return _scripts(scripts, unknown=_any_guess(scripts), stands=name == "su" and bool(scripts))
    if name in ("find", "gfind", "fd", "fdfind"):
        return Unwrapped([Inner(_filled(one)) for one in started_by_find(name, arguments)])
    if name in ("parallel", "sem"):
        return _parallel(arguments)
    if name == "git":
        return _git(arguments)
    if name in _RUN_WORDS:
        return _runs_behind(arguments, _RUN_WORDS[name], names_first=name in _CONTAINERS)
    if name in _RUNNERS:
        return _runner(name, arguments)
    return Unwrapped()


def wraps(name: str) -> bool:
    """Whether what this program starts is looked at for itself."""
    return (
        name in _RUNNERS or name in _RUN_WORDS or name in SHELLS or name in FEEDERS or name in ("env", "eval", "trap")
    )


def _runner(name: str, arguments: list[str]) -> Unwrapped:
    short, long, skip = _RUNNERS[name]
    if name == "command" and arguments and re.fullmatch(r"-p?[vV]p?", arguments[0]):
        return Unwrapped()
    at = _past_options(arguments, short, long.split())
    if name in ("sudo", "doas", "run0"):
        while at < len(arguments) and is_assignment(arguments[at]):
            at += 1
    if name == "coproc" and re.fullmatch(r"[A-Z_]+", "".join(arguments[at : at + 1])):
        at += 1 + (arguments[at + 1 : at + 2] == ["{"])
    while name in ("time", "coproc") and re.match(r"!$|[A-Za-z_]\w*(\[.*\])?\+?=", "".join(arguments[at : at + 1])):
        at += 1
    if name == "flock" and arguments[at + 1 : at + 2] in (["-c"], ["--command"]):
        return _scripts(arguments[at + 2 : at + 3])
    unknown = _any_guess(arguments[: at + skip])
    inner = arguments[at + skip :]
    if name in ("xargs", "gxargs"):
        inner = _filled([*(inner or ["echo"]), Guess("…")], _xargs_mark(arguments[:at]))
    elif name in ("ssh", "autossh", "watch") or (name == "hyperfine" and inner):
        scripts = inner if name == "hyperfine" else [" ".join(inner)] if inner else []
        return _scripts(scripts, unknown=_any_guess(inner) or unknown, stands=name == "watch")
    pure = name not in ("flock", "xvfb-run", "npx", "bunx", "uvx", "pipx", "direnv", "screen", "doppler")
    return Unwrapped([Inner(inner)] if inner else [], pure and bool(inner), unknown=unknown)


def _past_options(arguments: list[str], short: str, long: list[str]) -> int:
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word == "--":
            return at + 1
        if not word.startswith("-") or word == "-":
            return at
        at += 1
        if word.startswith("--"):
            name = word[2:]
            at += "=" not in name and any(one.startswith(name) for one in long)
        else:
            valued = next((index for index, letter in enumerate(word[1:], 1) if letter in short), None)
            at += valued == len(word) - 1
    return at


_SPLIT = lazy_pattern(r"-[a-zA-Z0]*S(.*)", re.DOTALL)


def _env(arguments: list[str]) -> Unwrapped:
    at = _past_options(arguments, "uCSP", ["unset", "chdir", "split-string", "argv0"])
    split = _values(arguments[:at], ("--split-string",))
    for word, following in zip_longest(arguments[:at], arguments[1 : at + 1], fillvalue=""):
        if (found := _SPLIT.fullmatch(word)) is not None:
            split.append(found[1] or following)
    unknown = _any_guess(arguments[:at])
    at += arguments[at : at + 1] == ["-"]
    while at < len(arguments) and "=" in arguments[at]:
        unknown = unknown or (isinstance(arguments[at], Guess) and "=" not in getattr(arguments[at], "start", ""))
        at += 1
    words = [*(" ".join(split).replace("\\_", " ").split()), *arguments[at:]]
    return Unwrapped([Inner(words)] if words else [], bool(words), unknown=unknown)


def _shell(arguments: list[str]) -> Unwrapped:
    at, command = 0, False
    while at < len(arguments) and arguments[at].startswith(("-", "+")) and arguments[at] not in ("-", "--"):
        word = arguments[at]
        if isinstance(word, Guess):
            return Unwrapped(unknown=True)
        at += 1 + (word in _SHELL_VALUED or (not word.startswith("--") and word.endswith("o")))
        command = command or (not word.startswith("--") and "c" in word[1:])
    at += arguments[at : at + 1] in (["--"], ["-"])
    if command:
        scripts = arguments[at : at + 1]
        return _scripts(scripts, unknown=not scripts or _any_guess(scripts), stands=bool(scripts))
    if "-n" in arguments[:at]:
        return Unwrapped()
    if isinstance("".join(arguments[at : at + 1]) and arguments[at], Guess) and not arguments[at].startswith("$"):
        return Unwrapped(unknown=True)
    only_tells = arguments[:1] in (["--version"], ["--help"], ["-n"])
    return Unwrapped(reads_input=not only_tells and (at >= len(arguments) or "-s" in arguments))


def _runs_behind(arguments: list[str], verbs: tuple[str, ...], *, names_first: bool) -> Unwrapped:
    """`uv run CMD`, `docker exec NAME CMD`, `npm exec -- CMD`: the command behind the verb."""
    at = next((index for index, word in enumerate(arguments[:4]) if word in verbs), None)
    if at is None:
        return Unwrapped()
    at += 1
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "--":
        at += 1 + (arguments[at] in _VALUED_RUN_OPTIONS)
    rest = arguments[at:]
    if "--" in rest:
        rest = rest[rest.index("--") + 1 :]
    elif names_first:
        rest = rest[1:]
    return Unwrapped([Inner(rest)] if rest else [])


def _git(arguments: list[str]) -> Unwrapped:
    """`git submodule foreach CMD`, `git bisect run CMD`, `git rebase --exec CMD`."""
    scripts = _values(arguments, ("-x", "--exec")) if "rebase" in arguments else []
    for at, verbs in enumerate(pairwise(arguments)):
        if verbs in (("submodule", "foreach"), ("bisect", "run")):
            rest = arguments[at + 2 :]
            rest = rest[_past_options(rest, "", []) :]
            scripts.append(shlex.join(rest) if len(rest) > 1 else "".join(rest))
    return _scripts(scripts, unknown=_any_guess(scripts))


_MOST_VALUES = 20


def _parallel(arguments: list[str]) -> Unwrapped:
    words: list[str] = []
    for word in arguments:
        if word.startswith(":::"):
            break
        if words or not (word.startswith("-") or re.fullmatch(r"\d+%?", word)):
            words.append(word)
    if len(words) == 1 and " " in words[0]:
        return _scripts(words)
    lists = any(word.startswith(":::") for word in arguments)
    values = [word for word in arguments[arguments.index(":::") + 1 :] if word != ":::"] if ":::" in arguments else []
    filled = [[word.replace("{}", value) for word in words] for value in values[:_MOST_VALUES] if words]
    runs = [_filled([*words, Guess("…")], "{"), *filled] if words else []
    return Unwrapped([Inner(run) for run in runs], reads_input=not words and not lists)


def _filled(words: list[str], mark: str = "{}") -> list[str]:
    """Words in which something is filled in when they run."""
    return [Guess(word, word.partition(mark)[0]) if mark and mark in word else word for word in words]


def _xargs_mark(options: list[str]) -> str:
    for at, word in enumerate(options):
        if word == "-I":
            return options[at + 1] if at + 1 < len(options) else ""
        if word.startswith("-I"):
            return word[2:]
    return "{}" if any(word in ("-i", "--replace") for word in options) else ""


def _scripts(scripts: list[str], *, unknown: bool = False, stands: bool = False) -> Unwrapped:
    return Unwrapped([Inner(script=one) for one in scripts if one], stands, unknown=unknown)


def _values(arguments: list[str], names: tuple[str, ...]) -> list[str]:
    found: list[str] = []
    for at, word in enumerate(arguments):
        if word in names and at + 1 < len(arguments):
            found.append(arguments[at + 1])
        elif any(word.startswith(f"{name}=") for name in names):
            found.append(word.partition("=")[2])
    return found


def _any_guess(words: list[str]) -> bool:
    return any(isinstance(word, Guess) for word in words)
