"""Programs that start another program: what matters is the one within."""

from __future__ import annotations

import re

from ferrule.core.phrases import phrase

from ..expansion import Loose
from ..finding import READS, RUNS, WRITES, Finding, Inner
from ..naming import names
from ..options import grammar, parse
from .table import Program, hidden, runs, starts_anything, wraps

_OTHER_RIGHTS = phrase("it takes the rights of another user, often the administrator's")
_ENV = grammar(
    "i0u:C:S:vP:",
    "ignore-environment null unset= chdir= split-string= block-signal? default-signal? ignore-signal?"
    " list-signal-handling debug argv0= help version",
    permute=False,
)
_XARGS = grammar(
    "0rtxpoa:d:E:I:L:n:P:s:e?i?l?",
    "null no-run-if-empty verbose exit interactive open-tty arg-file= delimiter= eof? replace? max-lines?"
    " max-args= max-procs= max-chars="
    " process-slot-var= show-limits help version",
    permute=False,
)


def _env(name: str, arguments: list[str]) -> Finding:
    if arguments in (["--help"], ["--version"]):
        return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
    parsed = parse(_ENV, arguments)
    if parsed.unknown or parsed.loose:
        return starts_anything(name)
    split = parsed.value("-S", "--split-string")
    words = list(parsed.operands)
    if split is not None:
        inner = (
            [] if type(split) is Loose or re.search(r"[\\$'\"#]", split) else [Inner(words=[*split.split(), *words])]
        )
        return Finding(RUNS, f"`{name} -S` takes a text apart in ways of its own", inner=inner, wrapper=bool(inner))
    at = 0
    assigned: list[tuple[str, str | None]] = []
    while at < len(words) and "=" in words[at] and not words[at].startswith("="):
        word = words[at]
        if hidden([word]) or (isinstance(word, Loose) and "=" not in word.start):
            return starts_anything(name)
        assigned.append(((word.start if isinstance(word, Loose) else word).partition("=")[0], None))
        at += 1
    if parsed.has("-P"):
        return Finding(RUNS, f"`{name} -P` changes where programs are looked for")
    if at == len(words):
        return Finding(READS, f"`{name}` prints the environment")
    moves = parsed.value("-C", "--chdir")
    inner = [Inner(first=len(arguments) - len(words) + at)]
    return Finding(READS, f"`{name}` runs a command", inner=inner, wrapper=True, sets=assigned, moves=moves)


def _xargs(name: str, arguments: list[str]) -> Finding:
    parsed = parse(_XARGS, arguments)
    files = parsed.values("-a", "--arg-file")
    if hidden(arguments[: parsed.first]):
        return starts_anything(name)
    if parsed.unknown:
        return Finding(RUNS, f"`{name} {parsed.unknown[0]}` is an option that nobody described")
    if parsed.has("--help", "--version", "--show-limits"):
        return Finding(READS, f"`{name}` tells about itself")
    words = parsed.operands or ["echo"]
    replace = parsed.value("-I", "-i", "--replace") or ("{}" if parsed.has("-i", "--replace") else None)
    if replace is not None:
        filled: list[str] = [
            Loose(word, start=word.partition(replace)[0], option=word.startswith((replace, "-")))
            if replace in word
            else word
            for word in words
        ]
    else:
        filled = [*words, Loose("…", many=True)]
    return Finding(
        READS, f"`{name}` runs a command with words from its input", files, inner=[Inner(words=filled)], wrapper=True
    )


def _command(name: str, arguments: list[str]) -> Finding:
    at = 0
    while at < len(arguments) and arguments[at] in ("-p", "--"):
        at += 1
    if at < len(arguments) and re.fullmatch(r"-p?[vV]p?", arguments[at]):
        return Finding(READS, f"`{name} {arguments[at]}` tells what a name means")
    if at >= len(arguments):
        return Finding(READS, f"`{name}` does nothing by itself")
    if arguments[at].startswith("-"):
        return Finding(RUNS, f"`{name} {arguments[at]}` is not described")
    return Finding(READS, f"`{name}` runs a command", inner=[Inner(first=at)], wrapper=True)


def _exec(name: str, arguments: list[str]) -> Finding:
    parsed = parse(grammar("cla:", permute=False), arguments)
    if parsed.unknown or parsed.loose:
        return starts_anything(name)
    if not parsed.operands:
        return Finding(READS, f"`{name}` changes where this shell reads and writes")
    return Finding(READS, f"`{name}` runs a command", inner=[Inner(first=parsed.first)], wrapper=True)


def _sudo(name: str, arguments: list[str]) -> Finding:
    rules = grammar(
        "AbBEeHhiKklNnPSsVvC:D:g:p:R:r:T:t:U:u:c:a:L",
        "user= group= login shell preserve-env? non-interactive stdin chdir= close-from= prompt= set-home"
        " reset-timestamp list validate edit background host= other-user= command-timeout= version help",
        permute=False,
    )
    parsed = parse(rules, arguments)
    first = parsed.first
    while first < len(arguments) and re.match(r"[A-Za-z_]\w*=", arguments[first]):
        first += 1
    inner = [Inner(first=first)] if first < len(arguments) and not parsed.unknown else []
    return Finding(
        RUNS, f"`{name}` runs a command with other rights", dangers=[_OTHER_RIGHTS], inner=inner, wrapper=bool(inner)
    )


def _su(name: str, arguments: list[str]) -> Finding:
    parsed = parse(
        grammar(
            "lmpPfc:s:g:G:w:u:",
            "login command= shell= session-command= preserve-environment user= group= whitelist-environment=",
        ),
        arguments,
    )
    scripts = parsed.values("-c", "--command", "--session-command")
    inner = [Inner(script=script) for script in scripts if type(script) is not Loose]
    if name == "runuser" and not inner and parsed.has("-u") and parsed.operands:
        inner = [Inner(words=parsed.operands)]
    return Finding(
        RUNS, f"`{name}` runs a command with other rights", dangers=[_OTHER_RIGHTS], inner=inner, wrapper=bool(inner)
    )


def _watch(name: str, arguments: list[str]) -> Finding:
    parsed = parse(
        grammar(
            "bcCd?efgn:pq:rtwxs:",
            "beep color no-color differences? errexit chgexit interval= precise equexit= no-rerun no-title"
            " no-wrap exec shotsdir= help version",
            permute=False,
        ),
        arguments,
    )
    if parsed.unknown or hidden(arguments) or not parsed.operands:
        return starts_anything(name)
    script = None if parsed.has("-x", "--exec") else " ".join(parsed.operands)
    inner = Inner(first=parsed.first) if script is None else Inner(script=script)
    return Finding(READS, f"`{name}` runs a command again and again", inner=[inner], wrapper=True)


def _parallel(name: str, arguments: list[str]) -> Finding:
    words: list[str] = []
    for word in arguments:
        if word.startswith(":::"):
            break
        if words or (not word.startswith("-") and not re.fullmatch(r"\d+%?", word)):
            words.append(word)
    filled: list[str] = [Loose(word) if "{" in word else word for word in words]
    inner = (
        [Inner(script=words[0])]
        if len(words) == 1 and " " in words[0]
        else [Inner(words=[*filled, Loose("…", many=True)])]
        if words
        else []
    )
    return Finding(RUNS, f"`{name}` runs commands with words from its input", inner=inner)


def _flock(name: str, arguments: list[str]) -> Finding:
    parsed = parse(
        grammar(
            "sexnuw:E:oFc:v",
            "shared exclusive unlock nonblock nb timeout= wait= conflict-exit-code= close no-fork command= verbose",
            permute=False,
        ),
        arguments,
    )
    script = parsed.value("-c", "--command")
    operands = parsed.operands
    if operands[1:2] in (["-c"], ["--command"]):
        script = operands[2] if len(operands) > 2 else None
    inner = [Inner(script=script)] if script else [Inner(first=parsed.first + 1)] if len(operands) > 1 else []
    return Finding(WRITES, f"`{name}` makes a lock file", writes=operands[:1], inner=inner)


def _script(name: str, arguments: list[str]) -> Finding:
    parsed = parse(
        grammar("aefqc:t?I:O:B:T:m:o:E:", "append command= return flush quiet log-io= log-out= log-in= timing? force"),
        arguments,
    )
    inner = [Inner(script=value) for value in parsed.values("-c", "--command") if type(value) is not Loose]
    return Finding(
        RUNS,
        f"`{name}` starts a shell and writes down what it prints",
        writes=parsed.operands or ["typescript"],
        inner=inner,
    )


def _time(name: str, arguments: list[str]) -> Finding:
    parsed = parse(grammar("af:o:pvqh", "append format= output= portability verbose quiet", permute=False), arguments)
    inner = [Inner(first=parsed.first)] if parsed.operands else []
    if parsed.unknown or hidden(arguments[: parsed.first]):
        return starts_anything(name)
    written = parsed.values("-o", "--output")
    if written:
        return Finding(WRITES, f"`{name} -o` writes a file", writes=written, inner=inner)
    return Finding(READS, f"`{name}` measures a command", inner=inner, wrapper=bool(inner))


def _applets(name: str, arguments: list[str]) -> Finding:
    if not arguments or arguments[0].startswith("-"):
        return Finding(READS if arguments in ([], ["--list"], ["--help"]) else RUNS, f"`{name}` lists what it can do")
    return Finding(READS, f"`{name}` runs one of its programs", inner=[Inner(first=0)], wrapper=True)


def _by_id(name: str, arguments: list[str]) -> Finding:
    """`taskset`, `ionice` and `chrt` work on a running process with `-p`, or start a command."""
    if any(re.match(r"-\w*p|--pid", word) for word in arguments):
        return Finding(WRITES, f"`{name} -p` changes a running process")
    skip = {"taskset": 1, "chrt": 1, "ionice": 0}[name]
    rules = {
        "taskset": grammar("ac", "all-tasks cpu-list", permute=False),
        "chrt": grammar("bdfiorRvT:P:D:", "batch idle fifo other rr", permute=False),
        "ionice": grammar("c:n:t", "class= classdata= ignore", permute=False),
    }[name]
    parsed = parse(rules, arguments)
    first = parsed.first + skip
    if parsed.unknown or hidden(arguments[:first]) or first >= len(arguments):
        return starts_anything(name)
    return Finding(READS, f"`{name}` runs a command", inner=[Inner(first=first)], wrapper=True)


_TRACES = "follows a program as it runs, and can change it"
_APART = "runs a command in rooms of its own, with other rights"

WRAPPERS: dict[str, Program] = {
    "env": _env,
    "xargs": _xargs,
    "gxargs": _xargs,
    "command": _command,
    "builtin": _command,
    "exec": _exec,
    "nohup": wraps(),
    "nice": wraps("n:", "adjustment="),
    "timeout": wraps("k:s:vfp", "kill-after= signal= verbose foreground preserve-status", skip=1),
    "gtimeout": wraps("k:s:v", "kill-after= signal= verbose foreground preserve-status", skip=1),
    "stdbuf": wraps("i:o:e:", "input= output= error="),
    "setsid": wraps("cfw", "ctty fork wait"),
    "unbuffer": wraps("p"),
    "chronic": wraps("ev"),
    "caffeinate": wraps("dimsut:w:"),
    "time": _time,
    **dict.fromkeys(["taskset", "chrt", "ionice"], _by_id),
    "watch": _watch,
    "parallel": _parallel,
    "sem": _parallel,
    "entr": wraps("acdnprsxz", effect=RUNS, why="runs a command whenever files change"),
    "flock": _flock,
    "script": _script,
    **dict.fromkeys(names("sudo doas pkexec sudoedit gosu su-exec run0 please dzdo"), _sudo),
    **dict.fromkeys(["su", "runuser", "setpriv", "sg", "capsh"], _su),
    "chroot": wraps(
        "",
        "userspec= groups= skip-chdir",
        skip=1,
        effect=RUNS,
        why=_APART,
        danger=phrase("it makes another folder the root"),
    ),
    "unshare": wraps(
        "muinpUCTrcfS:G:R:w:",
        "mount uts ipc net pid user cgroup map-root-user fork mount-proc? root= map-current-user",
        effect=RUNS,
        why=_APART,
        danger=phrase("it changes what a command may do"),
    ),
    "nsenter": wraps(
        "at:m?u?i?n?p?U?C?r?w?FZS:G:",
        "all target= mount? uts? ipc? net? pid? user? cgroup? root? wd?",
        effect=RUNS,
        why=_APART,
        danger=phrase("it enters other rooms of the machine"),
    ),
    **dict.fromkeys(
        ["strace", "ltrace"],
        wraps(
            "fFqvxXtTrycCdkhVe:o:p:s:u:E:a:b:I:O:P:S:U:n:l:",
            "follow-forks output= trace= attach=",
            effect=RUNS,
            why=_TRACES,
        ),
    ),
    **dict.fromkeys(
        names(
            """
        valgrind perf rr hyperfine prlimit numactl cpulimit setarch linux32 linux64 xvfb-run dbus-run-session fakeroot
        eatmydata firejail bwrap proxychains proxychains4 torsocks torify systemd-inhibit rlwrap catchsegv cgexec
        doppler dotenv op aws-vault envdir chpst softlimit setuidgid daemonize start-stop-daemon run-parts
        annotate-output faketime tsocks sshpass vagrant-ssh with-contenv dumb-init tini s6-setuidgid execlineb retry
        ts
        """
        ),
        wraps(effect=RUNS, why="runs a command in a way that nobody described"),
    ),
    **dict.fromkeys(["busybox", "toybox"], _applets),
    "ld.so": runs("starts a program file"),
}
