"""What bash itself does: its builtins, and other shells."""

from __future__ import annotations

import re

from ferrule.core.phrases import phrase

from ..expansion import Loose
from ..finding import READS, RUNS, WRITES, Finding, Inner
from ..naming import names
from ..options import grammar, parse
from .table import Describe, Operands, Program, certain, informs, reader, runs

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = reader("is part of the shell", open=True, operands=Operands.WORDS)
_SET_HARMLESS = frozenset(
    names(
        """
        allexport braceexpand errexit errtrace functrace hashall interactive-comments keyword monitor noclobber noexec
        noglob nolog notify nounset onecmd physical pipefail verbose xtrace vi emacs
        """
    )
) - {"keyword", "onecmd"}


def _sets(name: str, words: list[str], why: str) -> Finding:
    """Words that name variables, perhaps with a value."""
    found: list[tuple[str, str | None]] = []
    for word in words:
        variable, equals, value = word.partition("=")
        if type(word) is Loose:
            variable = word.start.partition("=")[0] if "=" in word.start else ""
        variable = variable.removesuffix("+")
        if not _NAME.fullmatch(variable):
            return Finding(RUNS, f"`{name}` sets a variable whose name is not plain, which can run code")
        found.append(
            (
                variable,
                value if equals and type(word) is not Loose and not word.partition("=")[0].endswith("+") else None,
            )
        )
    return Finding(READS, why, sets=found)


def _declare(name: str, arguments: list[str]) -> Finding:
    options = [word for word in arguments if word.startswith(("-", "+"))]
    if any(type(word) is Loose and word.option for word in arguments):
        return Finding(RUNS, f"`{name}` sets a variable whose name is only known at run time")
    letters = {letter for word in options for letter in word[1:]}
    if letters & set("fn") and not (letters <= set("Ffp")):
        return Finding(RUNS, f"`{name}` changes functions, or lets one name stand for another")
    if "p" in letters and not any("=" in word for word in arguments):
        return Finding(READS, f"`{name} -p` prints variables")
    if letters & set("ulc"):
        return Finding(RUNS, f"`{name}` makes a variable change what it is given")
    if "i" in letters:
        return Finding(RUNS, f"`{name} -i` makes a variable work out sums, which can run code")
    return _sets(
        name, [word for word in arguments if not word.startswith(("-", "+"))], f"`{name}` sets variables of this shell"
    )


def _read(name: str, arguments: list[str]) -> Finding:
    parsed = parse(grammar("ersa:d:i:n:N:p:t:u:"), arguments)
    if parsed.unknown or parsed.loose:
        return Finding(RUNS, f"`{name}` sets a variable whose name is only known at run time")
    return _sets(name, [*parsed.operands, *parsed.values("-a")], f"`{name}` reads a line into variables")


def _mapfile(name: str, arguments: list[str]) -> Finding:
    parsed = parse(grammar("tC:c:d:n:O:s:u:"), arguments)
    if parsed.unknown or parsed.loose or parsed.has("-C"):
        return Finding(RUNS, f"`{name} -C` runs a command for every line")
    return _sets(name, parsed.operands, f"`{name}` reads lines into a variable")


def _printf(name: str, arguments: list[str]) -> Finding:
    if (
        arguments[:1] == ["-v"]
        or (arguments and arguments[0].startswith("-v"))
        or (arguments and type(arguments[0]) is Loose and arguments[0].option)
    ):
        target = arguments[1:2] if arguments[0] == "-v" else [arguments[0][2:]]
        return _sets(name, target, f"`{name} -v` sets a variable")
    return Finding(READS, f"`{name}` prints its words")


def _test(name: str, arguments: list[str]) -> Finding:
    for at, word in enumerate(arguments):
        if word in ("-v", "-R") and at + 1 < len(arguments) and not _NAME.fullmatch(arguments[at + 1]):
            return Finding(RUNS, f"`{name} -v` looks at a variable whose name is not plain, which can run code")
        if type(word) is Loose and word.many and word.option and not word.known and at == 0 and len(arguments) > 2:
            return Finding(RUNS, f"`{word}` is only known at run time and may make `{name}` run code")
    return Finding(READS, f"`{name}` tests a condition")


def _unset(name: str, arguments: list[str]) -> Finding:
    words = [word for word in arguments if word not in ("-v", "-f")]
    if "-f" in arguments or "-n" in arguments:
        return Finding(RUNS, f"`{name} -f` takes functions away")
    return _sets(name, words, f"`{name}` forgets variables")


def _unless(option: str, why: str) -> Describe:
    """A builtin that is harmless without this one option."""

    def describe_unless(name: str, arguments: list[str]) -> Finding:
        if any(word.startswith(option) or (type(word) is Loose and word.option) for word in arguments):
            return Finding(RUNS, f"`{name} {option}` {why}")
        return Finding(READS, f"`{name}` is part of the shell")

    return describe_unless


def _getopts(name: str, arguments: list[str]) -> Finding:
    return _sets(name, [*arguments[1:2], "OPTARG"], f"`{name}` takes arguments apart")


def _let(name: str, arguments: list[str]) -> Finding:
    found: list[tuple[str, str | None]] = []
    for word in arguments:
        plain = re.fullmatch(r"([A-Za-z_]\w*)\s*[-+*/%]?=\s*-?\d+|([A-Za-z_]\w*)(?:\+\+|--)", word)
        if plain is None or type(word) is Loose:
            return Finding(RUNS, f"`{name}` works out sums, which can run code")
        found.append((plain.group(1) or plain.group(2), None))
    return Finding(READS, f"`{name}` counts", sets=found)


def _cd(name: str, arguments: list[str]) -> Finding:
    operands = [word for word in arguments if not re.fullmatch(r"-[LPe@n]+|--", word)]
    if name == "popd" or (operands and (type(operands[0]) is Loose or re.match(r"[-+]", operands[0]))):
        return Finding(READS, f"`{name}` changes the folder", moves="")
    return Finding(READS, f"`{name}` changes the folder", moves=operands[0] if operands else "~")


def _set(name: str, arguments: list[str]) -> Finding:
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word in ("--", "-") or not word.startswith(("-", "+")):
            break
        if type(word) is Loose:
            return Finding(RUNS, f"`{name}` gets options that are only known at run time")
        if word.endswith("o"):
            at += 1
            if at < len(arguments) and arguments[at] not in _SET_HARMLESS:
                return Finding(RUNS, f"`{name} -o {arguments[at]}` changes how the shell reads commands")
        if not set(word[1:]) <= set("abefhmnuvxBCETPo"):
            return Finding(RUNS, f"`{name} {word}` changes how the shell reads commands")
        at += 1
    return Finding(READS, f"`{name}` changes options of this shell")


def _eval(name: str, arguments: list[str]) -> Finding:
    words = arguments[1:] if arguments[:1] == ["--"] else arguments
    if any(type(word) is Loose for word in words):
        return Finding(
            RUNS,
            f"`{name}` runs text that is only known at run time",
            dangers=[phrase("it runs text that is only known at run time")],
            unclear=f"what `{name}` runs is only known at run time",
        )
    return Finding(
        READS,
        f"`{name}` runs its words as a command",
        inner=[Inner(script=" ".join(words), here=True)] if words else [],
        wrapper=bool(words),
    )


@certain
def _trap(name: str, arguments: list[str]) -> Finding:
    words = arguments[1:] if arguments[:1] == ["--"] else arguments
    if not words or words[0] in ("-l", "-p", "-") or len(words) == 1:
        return Finding(READS, f"`{name}` lists or resets handlers")
    if type(words[0]) is Loose:
        return Finding(
            RUNS,
            f"`{name}` runs text that is only known at run time",
            unclear=f"what `{name}` runs is only known at run time",
        )
    if not set(words[1:]) <= {"EXIT", "0", "INT", "TERM", "HUP", "QUIT", "SIGINT", "SIGTERM", "SIGHUP", "SIGEXIT"}:
        return Finding(RUNS, f"`{name}` runs a command between the others", inner=[Inner(script=words[0])])
    return Finding(READS, f"`{name}` runs a command later", inner=[Inner(script=words[0])] if words[0] else [])


def _source(name: str, arguments: list[str]) -> Finding:
    return Finding(RUNS, f"`{name}` runs the commands of a file", arguments[:1])


def _alias(name: str, arguments: list[str]) -> Finding:
    if not arguments or arguments == ["-p"]:
        return Finding(READS, f"`{name}` lists aliases")
    return Finding(RUNS, f"`{name}` changes what names mean in later commands")


def _history(name: str, arguments: list[str]) -> Finding:
    if not arguments or (len(arguments) == 1 and arguments[0].isdigit()):
        return Finding(READS, f"`{name}` lists earlier commands")
    return Finding(WRITES, f"`{name}` changes the list of earlier commands", dangers=[phrase("it hides what was done")])


@certain
def _shopt(name: str, arguments: list[str]) -> Finding:
    if all(word in ("-p", "-q", "-o") or not word.startswith("-") for word in arguments):
        return Finding(READS, f"`{name}` lists options of this shell")
    if all(word in ("-s", "nullglob", "globstar", "dotglob", "nocaseglob", "failglob") for word in arguments):
        return Finding(READS, f"`{name}` changes how patterns find files")
    return Finding(RUNS, f"`{name}` changes how the shell reads commands")


@certain
def _completes(name: str, arguments: list[str]) -> Finding:
    if (
        name == "compgen"
        and arguments
        and re.fullmatch(r"-[abcdefgjksuv]+|-A", arguments[0])
        and not any(re.match(r"-\w*[CFW]", w) for w in arguments)
    ):
        return Finding(READS, f"`{name}` lists names")
    return Finding(RUNS, f"`{name}` can run commands and functions")


@certain
def _hash(name: str, arguments: list[str]) -> Finding:
    if all(word in ("-r", "-l", "-t") or not word.startswith("-") for word in arguments):
        return Finding(READS, f"`{name}` remembers where programs are")
    return Finding(
        RUNS,
        f"`{name} -p` changes which program a name starts",
        dangers=[phrase("it changes which program a name starts")],
    )


def _ulimit(name: str, arguments: list[str]) -> Finding:
    if all(word.startswith("-") for word in arguments):
        return Finding(READS, f"`{name}` lists limits")
    return Finding(WRITES, f"`{name}` changes limits of this shell")


@certain
def _fc(name: str, arguments: list[str]) -> Finding:
    if any(re.match(r"-\w*l", word) for word in arguments) and not any(
        re.match(r"-\w*[es]", word) for word in arguments
    ):
        return Finding(READS, f"`{name} -l` lists earlier commands")
    return Finding(RUNS, f"`{name}` runs earlier commands again")


_SHELL_VALUED = frozenset({"--rcfile", "--init-file", "-o", "+o", "-O", "+O"})
_SHELL_LONG = frozenset({"--login", "--noprofile", "--norc", "--posix", "--restricted", "--noediting", "--verbose"})


def _shell(name: str, arguments: list[str]) -> Finding:
    at, command = 0, False
    if len(arguments) == 1 and arguments[0] in ("--version", "--help"):
        return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
    if arguments[:1] == ["-n"] and len(arguments) == 2 and type(arguments[1]) is not Loose:
        return Finding(READS, f"`{name} -n` checks a script without running it", arguments[1:])
    effect, why = READS, f"`{name} -c` runs a command"
    while at < len(arguments):
        word = arguments[at]
        if type(word) is Loose and word.option:
            return Finding(
                RUNS,
                f"what `{name}` runs is only known at run time",
                dangers=["what the shell runs is only known at run time"],
                unclear=f"what `{name}` runs is only known at run time",
            )
        if word in ("--", "-"):
            at += 1
            break
        if not word.startswith(("-", "+")):
            break
        at += 1
        if word in _SHELL_VALUED:
            if word in ("--rcfile", "--init-file"):
                effect, why = RUNS, f"`{name} {word}` runs a file first"
            at += 1
            continue
        if word.startswith("--"):
            if word not in _SHELL_LONG:
                effect, why = RUNS, f"`{name} {word}` is an option that nobody described"
            continue
        command = command or "c" in word[1:]
        if not set(word[1:]) <= set("clexufvhBCo"):
            effect, why = RUNS, f"`{name} {word}` is more than a plain command"
        if word.endswith("o"):
            at += 1
    if name in ("zsh", "fish", "csh", "tcsh", "ksh", "mksh", "ksh93", "elvish"):
        effect, why = RUNS, f"`{name}` reads commands in ways of its own"
    if not command:
        if at < len(arguments) and "-s" not in arguments:
            return Finding(RUNS, f"`{name}` runs the commands of a file", arguments[at : at + 1])
        return Finding(RUNS, f"`{name}` runs what it reads", from_input=True)
    if at >= len(arguments) or type(arguments[at]) is Loose:
        return Finding(
            RUNS,
            f"what `{name} -c` runs is only known at run time",
            dangers=["what the shell runs is only known at run time"],
            unclear=f"what `{name}` runs is only known at run time",
        )
    return Finding(effect, why, inner=[Inner(script=arguments[at])], wrapper=True)


SHELL: dict[str, Program] = {
    **dict.fromkeys(
        names(
            """
        : true false pwd exit logout return break continue shift bg fg disown help caller times
        """
        ),
        _WORDS,
    ),
    "jobs": _unless("-x", "runs a command"),
    "wait": _unless("-p", "sets a variable whose name may run code"),
    "getopts": _getopts,
    **dict.fromkeys(["declare", "typeset", "local", "export", "readonly"], _declare),
    "read": _read,
    **dict.fromkeys(["mapfile", "readarray"], _mapfile),
    "printf": _printf,
    **dict.fromkeys(["test", "["], _test),
    "unset": _unset,
    "let": _let,
    **dict.fromkeys(["cd", "chdir", "pushd", "popd"], _cd),
    "set": _set,
    "eval": _eval,
    "trap": _trap,
    **dict.fromkeys(["source", "."], _source),
    "alias": _alias,
    "unalias": runs("changes what names mean in later commands"),
    "history": _history,
    "shopt": _shopt,
    **dict.fromkeys(["compgen", "complete", "compopt"], _completes),
    "hash": _hash,
    "ulimit": _ulimit,
    "fc": _fc,
    "enable": informs(
        "-a",
        "-n",
        "-p",
        otherwise=runs(
            "changes which commands the shell has, and can load code", phrase("it can load code into the shell")
        ),
    ),
    "bind": informs("-l", "-p", "-P", "-v", "-V", "-s", "-S", otherwise=runs("ties keys to commands")),
    **dict.fromkeys(names("sh bash dash ash rbash zsh fish csh tcsh ksh mksh ksh93 elvish"), _shell),
}
