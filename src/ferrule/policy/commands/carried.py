"""Texts that a command hands to a program which may run them: code, here-documents, quoted words, variables.

In which language such a text is written is not known, so it is read as nothing but words: whatever stands between them,
`system("rm", "-rf", x)` and `!rm -rf x` hold the same ones. What is overlooked here opens nothing: a box holds it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ferrule.core.phrases import phrase
from ferrule.policy.commands.parts import Guess, names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PRINTERS = names("""
    echo printf cat tac tee head tail nl rev wc sort uniq cut tr paste comm column fold fmt grep egrep fgrep zgrep rg
    ag ack jq yq less more diff cmp git gh glab hub man info whatis apropos which whereis type hash help ls stat file
    touch mkdir cd test [ [[ : true false read unset export declare typeset local readonly notify-send say base64
    base32 xxd od hexdump sha256sum sha1sum md5sum cksum gzip gunzip bzip2 xz iconv code open xdg-open
""")
"""These show, compare or keep the texts that they are given, and run none of them."""
INTERPRETER = re.compile(
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
_WORD = re.compile(r"[\w./~*?$+=:%@-]+")
_ESCAPE = re.compile(r"\\[abefnrtv]")
_MOST_CHARACTERS, _MOST_STARTS, _FARTHEST = 64_000, 200, 20
_RUNS = re.compile(r"g?rm|rimraf|del-cli|chmod|dd|mkfs(?:\..+)?|mke2fs|shred|wipefs|sudo|doas|pkexec|setpriv|find")
_DESTROYS = re.compile(
    r"""rm_?tree|rm_rf|remove_tree|unlink|os\.remove\b|Deno\.remove|removedirs|rm_?dir|shutil\.move|rmSync|removeSync
    |rimraf|fs\.rm|FileUtils\.rm|remove_dir_all|del_dir_r|delete-?(?:directory|tree)|deleteDir|File\.delete
    |file\ delete\ -|Remove-Item|\brm\(.{0,99}\brecursive|\brm?d\ /s|mkfs|/dev/(?:sd|nvme|vd|mmcblk)|\breboot\(
    |["'(!`]\s*(?:/\w+)*/?(?:shutdown|reboot|poweroff|halt)\b|\bapp\w*\W.{0,99}\bto\ (?:restart|shut\ down)""",
    re.VERBOSE,
)
# Two searches for what must both be there: one pattern for both would look again from every first one.
_FORKS = re.compile(r"(?<![\w\"'])(?:pcntl_)?fork\b(?![\w\"'])"), re.compile(r"\b(?:while|loop|for|iter|until)\b")
_SPAWNS = (
    re.compile(r"spawn|execute\(|system\(|Popen"),
    re.compile(r"while\s*\(?\s*(?:1|true)|for\s*\(;;\)|loop\s*[{d]", re.IGNORECASE),
)
_OPENS = re.compile(r"chmod"), re.compile(r"\b0?o?[0-7]?[67]{2}[2367]\b|\b(?:438|511)\b|S_I(?:RWXO|WOTH)")
_TAKES_RIGHTS = re.compile(r"\bset[ug]id\b|\$[<>]\s*=\s*0|administrator\ privileges")
_REACHES = re.compile(r"socket|urllib|requests\.|http\.|https?://|/dev/tcp|fetch\(|Net::HTTP|IO::Socket")


def commands_in(text: str, starts: re.Pattern[str] = _RUNS) -> Iterator[list[str]]:
    """The words from each one on that may start a program of these names."""
    words = _WORD.findall(_ESCAPE.sub(" ", text[:_MOST_CHARACTERS]))
    names = [re.split("[/=]", word)[-1] for word in words]
    for at in [at for at, name in enumerate(names) if starts.fullmatch(name)][:_MOST_STARTS]:
        run = [names[at], *words[at + 1 : at + _FARTHEST]]
        if len(run) > 1 and (run[0] != "dd" or any(word.startswith(("if=", "of=")) for word in run)):
            yield run


def carried(name: str, arguments: Iterable[str], given: Iterable[str]) -> tuple[str, ...]:
    """The texts that may be run: words that hold more than one, and what the input is known to be."""
    if name in PRINTERS:
        return ()
    return (*(word for word in arguments if re.search(r"[\s(;!]", word)), *given)


def code_dangers(code: str) -> Iterator[str]:
    """What in the code that an interpreter is given destroys, takes rights or hands a shell to others."""
    if _DESTROYS.search(code):
        yield phrase("the code that it is given removes or destroys things")
    elif any(all(one.search(code) for one in both) for both in (_FORKS, _SPAWNS)):
        yield phrase("it may start processes endlessly")
    elif _TAKES_RIGHTS.search(code) or all(one.search(code) for one in _OPENS):
        yield phrase("the code that it is given takes other rights")
    elif re.search(r"dup2|pty\.spawn|/bin/(ba)?sh", code) and _REACHES.search(code):
        yield phrase("the code that it is given hands a shell to another machine")


def is_filled_in(word: str) -> bool:
    """Whether a word stands for whatever another command found."""
    return isinstance(word, Guess) and word in ("…", "{}")
