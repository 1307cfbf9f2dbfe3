"""Texts that a command hands to a program which may run them: code, here-documents, options, variables.

What a program starts is told from what is only spoken of: an interpreter has to call something that starts programs,
an editor to be told to, and most others run none of their words. In which language a text is written is not known, so
it is read as nothing but words: `system("rm", "-rf", x)` and `!rm -rf x` hold the same ones. What is overlooked here
opens nothing: a box holds it.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING
from unicodedata import normalize

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import phrase
from ferrule.policy.commands.parts import PRINTERS, Guess, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

INTERPRETER = lazy_pattern(
    "(?:{})-?[0-9.]*(?:\\.exe)?".format(
        "|".join(
            names("""
                python pypy ipython bpython perl ruby irb node nodejs deno bun tsx ts-node coffee php lua luajit tclsh
                wish expect Rscript R julia ghc ghci runghc scala groovy kotlin clojure erl elixir iex racket guile
                sbcl ocaml swift java jshell osascript pwsh powershell gdb lldb octave nu xonsh m4 gnuplot emacs cmd
            """)
        )
    )
)
_WORD = lazy_pattern(r"[\w./~*?$+=:%@-]+")
_SEVERAL = lazy_pattern(r"[\s(;!{|,]")
_ESCAPE = lazy_pattern(r"\\[abefnrtv]")
_ESCAPED = lazy_pattern(r"^!.*", re.MULTILINE)  # what many programs hand to a shell
_MOST_CHARACTERS, _MOST_STARTS, _FARTHEST = 64_000, 200, 20
_RUNS = lazy_pattern(r"g?rm|chmod|dd|mkfs(?:\..+)?|mke2fs|shred|wipefs|sudo|doas|pkexec|setpriv|find")
_BEGINS = lazy_pattern(
    r"(?:^|[\"'(!;&|`\n]|\bexec|\bspawn|\bshell|\bsystem|\bsh -c|[0-9;{}]e(?=\s))[ \t]{0,9}((?:/\w{1,20}){0,4}/?(?:"
    r"reboot|poweroff|halt|shutdown|telinit|su|init|chown|crontab|useradd|userdel|usermod|systemctl|pkill|kill|git|mv|curl"
    r"|wget|rimraf)\b[^\"'`;|&()\n]*)"
)
# What in a text starts programs, by the program that reads it; `None` where all of it may be run.
_ANY_START = lazy_pattern(
    r"system|syscmd|exec|popen|subprocess|spawn|shell|`|%x|qx|\brun\(|\bcall\(|\bcmd\(|command\W{0,3}[\"'(:.]"
    r"|process\w*\W{0,3}[\"'(:.]|!",
    re.IGNORECASE,
)
_STARTS: tuple[tuple[re.Pattern[str], re.Pattern[str] | None], ...] = (
    (lazy_pattern(r"[gmn]?awk"), lazy_pattern(r"system|getline|\|")),
    (
        lazy_pattern(r"g?sed"),
        lazy_pattern(r"(?:^|[;{}\n0-9$!])\s*e(?:\s|$)|[/|#,!@][gpiIm0-9]*e[gpiIm0-9]*(?:[\s;}]|$)"),
    ),
    (lazy_pattern(r"n?vim?|ex|ed|view"), lazy_pattern(r"!|system|execute")),
    (lazy_pattern(r"sqlite3|psql|mysql|mariadb"), lazy_pattern(r"\.sh(?:ell)?\b|\.system|\\!|\bsystem\b")),
    (
        lazy_pattern(
            r"g?make|g?tar|bsdtar|rsync|tmux|screen|ssh|scp|sftp|parallel|script|watch|entr|expect|ant|gradle|rake|just|bind"
            r"|complete|compgen|at|batch|concurrently|nodemon|pee|xonsh|nu|="
        ),
        None,
    ),
)
_NAMES_PROGRAM = lazy_pattern(
    r"(?:-[OPHKx]|\+:?!|--(?:open-files-in-pager|pager|pre|compress-program|html|extcmd|httpd|hostname-bin|\w+-cmd)=?)"
    r"(.*)"
)
_COMMAND_OPTION = lazy_pattern(
    r"(?:-[cCxEa]|-TT|-wrapper|--(?:command|exec|cmd|run|execute|filter|script-shell|entrypoint)(?:=|(?=$))"
    r"|scripts\.\w+=)(.*)",
    re.DOTALL,
)
RUNS_DOWNLOAD = phrase("it runs what was downloaded")
HOLDS_COMMAND = lazy_pattern(
    r"VISUAL|BROWSER|SHELL|ENV|PS\d|CC|CXX|LD|AR|MAKE|\w*(?:PAGER|EDITOR|_SSH|_DIFF|_CMD|_RSH|_SHELL|COMMAND|_ENV|ASKPASS"
    r"|LESSOPEN|LESSCLOSE|_PROGRAM)",
    re.IGNORECASE,
)
"""Variables that programs take a command from."""
_DESTROYS = lazy_pattern(
    r"""rm_?tree|rm_rf|remove_tree|unlink|os\.remove\b|Deno\.remove|removedirs|rm_?dir|shutil\.move|rmSync|removeSync
    |require\(.rimraf|fs\.rm|FileUtils\.rm|remove_entry|RemoveAll|remove(?:Item|DirectoryRecursive)|remove_dir_all
    |\bdelete\(.{0,99}["']rf|del_dir_r|delete-?(?:directory|tree)|deleteDir
    |File\.delete|file\ delete\ -|Remove-Item|\bri\ .{0,99}-r
    |(?:Stop|Restart)-Computer|\bkill\W+(?:-?1\W+9|9\W+-1)\b|\brm\(.{0,99}\brecursive|\brm?d\ /s|mkfs
    |/dev/(?:sd|nvme|vd|mmcblk|port|k?mem)|/proc/sysrq|\breboot\(|0xfee1dead
    |\bapp\w*\W.{0,99}\bto\ (?:restart|shut\ down)|:\(\)\s*\{""",
    re.VERBOSE,
)
_PIECES = lazy_pattern(r"""(["'])\s{0,9}[+.]\s{0,9}\1""")
# Two searches for what must both be there: one pattern for both would look again from every first one.
_FORKS = (
    lazy_pattern(r"(?<![\w\"'])(?:pcntl_)?fork\b(?![\w\"'])"),
    lazy_pattern(r"\b(?:while|loop|until|redo)\b|\bfor\s*\(;;|\biter\(|setInterval"),
)
_SPAWNS = (
    lazy_pattern(r"spawn|execute\(|system\(|[Pp]open"),
    lazy_pattern(r"while\s*\(?\s*(?:1|true)|for\s*\(;;\)|loop\s*[{d]", re.IGNORECASE),
)
_OPENS = (
    lazy_pattern(r"(?<!/)chmod|mkdir|setfperm|set-file-modes|-permissions"),
    lazy_pattern(r"\b0?o?[0-7]?[67]{2}[2367]\b|\b(?:438|511)\b|S_I(?:RWXO|WOTH|SUID|SGID)|rwxrwxrwx|[oa]=rwx"),
)
_TAKES_RIGHTS = lazy_pattern(r"\bumask\(0\)|\bos\.l?chown\(|\bset[ug]id\b|\$[<>]\s*=\s*0|administrator\ privileges")
_DECODES = lazy_pattern(
    r"\bchr\(\d+\)\s*[+.]|sprintf\(.%c|\bpack\(?\s*.H\*|fromCharCode|unhexlify|b(?:16|32|64|85)decode|fromhex|decode64"
    r"|\batob\(|[\"'](?:base64|hex)[\"']|rot_?13"
)
_RUNS_TEXT = lazy_pattern(
    r"system|\bexec|\beval\b|popen|subprocess|spawn|getattr|Function\(|__import__|\bqx\b", re.IGNORECASE
)
_LOADS_CODE = lazy_pattern(r"\b(?:curl|wget)\b[^|\n]{0,200}\|\s{0,9}(?:sudo )?(?:ba|z|da)?sh\b")
_REACHES = lazy_pattern(r"socket|urllib|requests\.|http\.|https?://|/dev/tcp|fetch\(|Net::HTTP|IO::Socket")


def commands_in(text: str) -> Iterator[list[str]]:
    """The commands that a text may start, each as its words."""
    text = _PIECES.sub("", _ESCAPE.sub(" ", text[:_MOST_CHARACTERS]))
    words = _WORD.findall(text)
    yield from bare_commands(words)
    for begun in list(_BEGINS.finditer(text))[:_MOST_STARTS]:
        run = _WORD.findall(begun[1])
        name = run[0] = run[0].rpartition("/")[2]
        if name not in ("su", "init") or "".join(run[1:2])[:1] in ("-", *"0123456"):
            yield run


def bare_commands(words: list[str]) -> Iterator[list[str]]:
    """The words from each one on that names a program which removes, takes rights or writes to disks."""
    names = [re.split("[/=]", word)[-1] for word in words]
    for at in [at for at, name in enumerate(names) if _RUNS.fullmatch(name)][:_MOST_STARTS]:
        run = [names[at], *(word for word in words[at + 1 : at + _FARTHEST] if word != "--")]
        if len(run) > 1 and (run[0] != "dd" or any(word.startswith(("if=", "of=")) for word in run)):
            yield run


def started(name: str, arguments: list[str], given: list[str], *, runs_input: bool) -> str:
    """All that a program may run of what it is given."""
    if name in PRINTERS:
        return "\n".join(_programs_named(name, arguments))
    if not _is_known(name):
        options = ((_COMMAND_OPTION.fullmatch(option), value) for option, value in pairwise([*arguments, ""]))
        texts = [found[1] or value for found, value in options if found is not None]
        return "\n".join((*texts, *_ESCAPED.findall("\n".join((*arguments, *given))[:_MOST_CHARACTERS])))
    starts = next((one for who, one in _STARTS if who.fullmatch(name)), _ANY_START)
    text = code_of(arguments, given if runs_input or not INTERPRETER.fullmatch(name) else ())
    text = "\n".join((*arguments, *given)) if name in ("sed", "gsed") else text
    return text if starts is None or starts.search(text) else ""


def _is_known(name: str) -> bool:
    return INTERPRETER.fullmatch(name) is not None or any(who.fullmatch(name) for who, _ in _STARTS)


def _programs_named(name: str, arguments: list[str]) -> Iterator[str]:
    """What options of a program that only shows things have it run."""
    for option, value in pairwise([*arguments, ""]):
        if (found := _NAMES_PROGRAM.fullmatch(option)) is not None:
            yield found[1] or value
        elif name == "git" and option == "-c":
            yield value.partition("=")[2]
        elif name == "git" and arguments[0] == "filter-branch" and " " in option:
            yield option
        elif name in ("gh", "glab") and arguments[:2] == ["alias", "set"]:
            yield value


def carried(name: str, arguments: list[str], given: list[str], *, runs_input: bool) -> str:
    """What a rule that forbids a command looks at besides: of a program that nobody knows all texts that it gets."""
    if name in PRINTERS or _is_known(name):
        return started(name, arguments, given, runs_input=runs_input)
    return code_of(arguments, given)


def code_of(arguments: Iterable[str], given: Iterable[str]) -> str:
    """The arguments that hold more than a word, and the input that is known."""
    return normalize("NFKC", "\n".join((*filter(_SEVERAL.search, arguments), *given)))


def code_dangers(code: str) -> Iterator[str]:
    """What in the code that an interpreter is given destroys, takes rights or hands a shell to others."""
    code = _PIECES.sub("", code)
    if _DESTROYS.search(code):
        yield phrase("the code that it is given removes or destroys things")
    elif any(all(one.search(code) for one in both) for both in (_FORKS, _SPAWNS)):
        yield phrase("it may start processes endlessly")
    elif _TAKES_RIGHTS.search(code) or all(one.search(code) for one in _OPENS):
        yield phrase("the code that it is given takes other rights")
    elif _LOADS_CODE.search(code):
        yield RUNS_DOWNLOAD
    elif _DECODES.search(code) and _RUNS_TEXT.search(code):
        yield phrase("it runs text that is only known at run time")
    elif re.search(r"dup2|pty\.spawn|/bin/(ba)?sh", code) and _REACHES.search(code):
        yield phrase("the code that it is given hands a shell to another machine")


def is_filled_in(word: str) -> bool:
    """Whether a word stands for whatever another command found."""
    return isinstance(word, Guess) and word in ("…", "{}")
