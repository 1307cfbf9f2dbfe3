"""Programs that list, make, change and remove files."""

from __future__ import annotations

import re

from ferrule.core.phrases import phrase

from ..expansion import Loose
from ..finding import READS, RUNS, WRITES, Finding, Inner
from ..naming import names
from ..options import grammar, parse
from .table import Operands, Program, changes, reader, runs, writes

_OUTPUT = (WRITES, "writes its output to a file")
_RM = grammar("firRvdIPWx", "force recursive interactive? dir verbose one-file-system no-preserve-root preserve-root?")
_LONGEST_MODE = 64
_CHMOD = grammar("RvcfhHLP", "recursive verbose changes silent quiet reference= no-preserve-root preserve-root")
_WIDE = re.compile(
    r"/\*?|~/?\*?|\.\.?/?|\*|\.\*|\.\./.*|/[a-zA-Z0-9_]+/?\*?|\$HOME/?\*?|/home/[^/]+/?\*?|/root/?\*?|/Users/[^/]+/?\*?"
)
_OPEN_TO_ALL = re.compile(
    r"0*[0-7]*[2367]|(?:.*,)?[ugo]*[oa][ugoa]*[+=][rxXst]*w.*|=[rxXst]*w.*|(?:.*,)?ugo?a?[+=]rwx.*"
)
_SET_ID = re.compile(r"[2-7][0-7]{3}|0[2-7][0-7]{3}|.*[+=][rwxXt]*s.*")
_CLOSED_TO_ALL = re.compile(r"0{1,4}|a?[-=]rwx|a=|ugo=|-rwx|a-[rwx]+|ugo-[rwx]+")


def _rm(name: str, arguments: list[str]) -> Finding:
    parsed = parse(_RM, arguments)
    recursive = parsed.has("-r", "-R", "--recursive")
    dangers: list[str] = []
    if recursive and parsed.has("-f", "--force"):
        dangers.append(phrase("it removes folders with all that they hold, without asking"))
    elif recursive and any(wide(path) for path in parsed.operands):
        dangers.append(phrase("it removes a whole tree that holds much more than one project's files"))
    elif recursive and any(type(path) is Loose for path in parsed.operands):
        dangers.append(phrase("it removes folders with all that they hold, and which ones is only known at run time"))
    elif any(wide(path) for path in parsed.operands):
        dangers.append(phrase("it removes everything that stands in a folder"))
    if parsed.has("--no-preserve-root"):
        dangers.append(phrase("it would remove the root folder"))
    if parsed.loose.startswith(("$", '"$')):
        dangers.append(phrase("whether it removes whole folders is only known at run time"))
    return Finding(WRITES, f"`{name}` removes files", writes=parsed.operands, dangers=dangers)


def wide(path: str) -> bool:
    """Whether a path names a tree far wider than one project: the root, a home, all that is here."""
    return _WIDE.fullmatch(path) is not None


def _chmod(name: str, arguments: list[str]) -> Finding:
    parsed = parse(_CHMOD, [f"./{word}" if re.match(r"-[rwxXst]", word) else word for word in arguments])
    operands = list(parsed.operands)
    recursive = parsed.has("-R", "--recursive")
    mode = "" if parsed.has("--reference") or not operands else operands.pop(0).removeprefix("./")
    dangers: list[str] = []
    if type(mode) is Loose or len(mode) > _LONGEST_MODE:
        mode = ""
        dangers.append(phrase("which rights it gives is only known at run time"))
    if _SET_ID.fullmatch(mode):
        dangers.append(phrase("it lets a program run with its owner's rights"))
    elif _OPEN_TO_ALL.fullmatch(mode):
        dangers.append(phrase("it lets everybody on the machine change the files"))
    if recursive and (_CLOSED_TO_ALL.fullmatch(mode) or any(wide(path) for path in operands)):
        dangers.append(phrase("it changes the rights of a whole tree"))
    elif _CLOSED_TO_ALL.fullmatch(mode):
        dangers.append(phrase("it takes all rights away"))
    return Finding(WRITES, f"`{name}` changes who may use files", writes=operands, dangers=dangers)


def _chown(name: str, arguments: list[str]) -> Finding:
    parsed = parse(
        grammar("RvcfhHLP", "recursive verbose changes silent quiet reference= from= no-dereference"), arguments
    )
    dangers = [phrase("it changes who owns files")]
    return Finding(WRITES, f"`{name}` changes who owns files", writes=parsed.operands[1:], dangers=dangers)


def _dd(name: str, arguments: list[str]) -> Finding:
    reads = [word[3:] for word in arguments if word.startswith("if=")]
    written = [word[3:] for word in arguments if word.startswith("of=")]
    if len(arguments) == 1 and arguments[0] in ("--version", "--help"):
        return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
    return Finding(
        WRITES,
        f"`{name}` copies raw bytes",
        reads,
        written,
        dangers=[phrase("it copies raw bytes over whatever is there")],
    )


def _mv(name: str, arguments: list[str]) -> Finding:
    parsed = parse(
        grammar(
            "finuvbS:t:TZ",
            "force interactive? no-clobber update? verbose backup? suffix= target-directory= no-target-directory",
        ),
        arguments,
    )
    target = parsed.value("-t", "--target-directory")
    sources, last = (parsed.operands, target) if target else (parsed.operands[:-1], (parsed.operands or [""])[-1])
    dangers = [phrase("it throws files away")] if last.startswith("/dev/") else []
    if any(wide(source) for source in sources):
        dangers.append(phrase("it moves a whole tree away"))
    return Finding(WRITES, f"`{name}` moves files", sources, [*sources, last], dangers=dangers)


def _rsync(name: str, arguments: list[str]) -> Finding:
    hosts: list[str | None] = [
        word.partition(":")[0].rpartition("@")[2]
        for word in arguments
        if ":" in word and not word.startswith(("-", "/", "."))
    ]
    operands = [word for word in arguments if not word.startswith("-")]
    dangers = (
        [phrase("it removes what the source lacks")]
        if any(w.startswith(("--del", "--remove-source")) for w in arguments)
        else []
    )
    runs_code = any(w.startswith(("-e", "--rsh", "--rsync-path")) for w in arguments)
    effect = RUNS if runs_code or hosts else WRITES
    return Finding(effect, f"`{name}` copies trees", operands[:-1], operands[-1:], hosts, dangers)


_TESTS = frozenset(
    names(
        """
        -amin -anewer -atime -cmin -cnewer -context -ctime -fstype -gid -group -ilname -iname -inum -ipath -iregex
        -iwholename -links -lname -mmin -mtime -name -newer -path -perm -regex -samefile -size -type -uid -used -user
        -wholename -xtype -maxdepth -mindepth -regextype -printf -D -newermt -newerct -newerat -newermm
        """
    )
)
_FLAGS = frozenset(
    names(
        """
        -H -L -P -E -X -s -x -empty -executable -false -nogroup -nouser -readable -true -writable -depth -d -mount
        -xdev -noleaf -daystart -follow -warn -nowarn -ignore_readdir_race -noignore_readdir_race -print -print0 -ls
        -prune -quit -a -and -o -or -not ! ( ) , -help --help -version --version -O0 -O1 -O2 -O3
        """
    )
)
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FIND_WRITES = frozenset({"-fprint", "-fprint0", "-fls", "-fprintf"})


def _find(name: str, arguments: list[str]) -> Finding:
    finding = Finding(READS, f"`{name}` lists files", reads=[], writes=[], dangers=[], inner=[])
    paths, at, expression = list[str](), 0, False
    while at < len(arguments):
        word = arguments[at]
        at += 1
        if type(word) is Loose and word.option:
            return Finding(RUNS, f"`{word}` is only known at run time and may be an action of `{name}`")
        if word in _FIND_RUNS:
            at = _find_exec(arguments, at, finding)
            expression = True
        elif word == "-delete":
            finding.effect, finding.why = WRITES, f"`{name} -delete` removes what it finds"
            finding.dangers = [
                *finding.dangers,
                phrase("it removes all that it finds, folders and all, without asking"),
            ]
        elif word in _FIND_WRITES:
            finding.effect, finding.why = WRITES, f"`{name} {word}` writes a file"
            finding.writes = [*finding.writes, *arguments[at : at + 1]]
            at += 2 if word == "-fprintf" else 1
        elif word in _TESTS:
            at += 1
            expression = True
        elif word in _FLAGS:
            expression = expression or word not in ("-H", "-L", "-P")
        elif word == "-files0-from":
            finding.reads = [*finding.reads, *arguments[at : at + 1]]
            at += 1
        elif word.startswith("-") or expression:
            return Finding(
                RUNS,
                f"`{name} {word}` is an action that nobody described",
                paths,
                dangers=finding.dangers,
                inner=finding.inner,
            )
        else:
            paths.append(word)
    finding.reads = [*finding.reads, *(paths or ["."])]
    finding.writes = [*finding.writes, *paths] if finding.effect is WRITES and not finding.writes else finding.writes
    return finding


def _find_exec(arguments: list[str], at: int, finding: Finding) -> int:
    end = at
    while end < len(arguments) and arguments[end] != ";" and not (arguments[end] == "+" and arguments[end - 1] == "{}"):
        end += 1
    words: list[str] = [
        Loose(word, option=word == "{}" and False, many=False) if "{}" in word else word for word in arguments[at:end]
    ]
    finding.inner = [*finding.inner, Inner(words=words)]
    return end + 1


def _fd(name: str, arguments: list[str]) -> Finding:
    known = grammar(
        "HIuLsiagFpd:e:t:S:E:c:j:l0q1",
        "hidden no-ignore unrestricted follow case-sensitive ignore-case absolute-path glob fixed-strings"
        " full-path max-depth="
        " min-depth= exact-depth= extension= type= size= exclude= color= threads= list-details print0 quiet"
        " max-results="
        " changed-within= changed-before= owner= path-separator= base-directory= search-path="
        " strip-cwd-prefix? version help",
    )
    for at, word in enumerate(arguments):
        if word in ("-x", "-X", "--exec", "--exec-batch") and at + 1 < len(arguments):
            words: list[str] = [
                Loose(one, option=False) if "{" in one else one for one in arguments[at + 1 :] if one != ";"
            ]
            return Finding(READS, f"`{name}` lists files", inner=[Inner(words=[*words, Loose("{}", option=False)])])
    parsed = parse(known, arguments)
    if parsed.unknown or parsed.loose:
        return Finding(RUNS, f"`{name}` has an option that nobody described, and may run commands")
    return Finding(READS, f"`{name}` lists files", parsed.operands[1:] or ["."])


def _truncate(name: str, arguments: list[str]) -> Finding:
    parsed = parse(grammar("cor:s:", "no-create io-blocks reference= size="), arguments)
    return Finding(
        WRITES, f"`{name}` cuts files short", writes=parsed.operands, dangers=[phrase("it throws away what files hold")]
    )


def _file(name: str, arguments: list[str]) -> Finding:
    parsed = parse(grammar("e:f:F:m:P:", "separator= files-from= magic-file= exclude= parameter="), arguments)
    if any(re.match(r"-[A-Za-z]*C|--com", word) for word in parsed.unknown):
        return Finding(WRITES, f"`{name} -C` writes a compiled list")
    files = parsed.values("-f", "--files-from", "-m", "--magic-file")
    return Finding(READS, f"`{name}` tells what files are", [*parsed.operands, *files])


def _umask(name: str, arguments: list[str]) -> Finding:
    if all(word in ("-S", "-p") for word in arguments):
        return Finding(READS, f"`{name}` tells the rights of files made later")
    return Finding(WRITES, f"`{name}` changes the rights of files made later")


_LS = reader(
    "lists files",
    "I:w:T:D:",
    "ignore= hide= width= tabsize= block-size= color? time= time-style= sort= format= indicator-style= quoting-style=",
    open=True,
)
_PATHS = reader("works on names alone", "s:", "suffix=", open=True, operands=Operands.WORDS)
_COPIES = writes(
    "copies files",
    "abdfiHlLnPpRrsuvxTZS:t:g:m:o:",
    "archive backup? force interactive link dereference no-clobber no-dereference preserve? no-preserve="
    " parents recursive"
    " reflink? remove-destination sparse= symbolic-link suffix= target-directory= no-target-directory update? verbose"
    " one-file-system context? mode= owner= group=",
    last=True,
)

FILES: dict[str, Program] = {
    **dict.fromkeys(["ls", "dir", "vdir", "exa", "eza", "lsd", "ll"], _LS),
    "stat": reader("tells about files", "c:f:t:", "format= printf=", open=True),
    "file": _file,
    "du": reader(
        "adds up sizes",
        "d:B:t:X:",
        "max-depth= block-size= threshold= exclude= exclude-from= files0-from= time? time-style=",
        open=True,
    ),
    "df": reader("tells how full disks are", "B:t:x:", "block-size= type= exclude-type= output?", open=True),
    "tree": reader(
        "lists files",
        "adlfxL:RrtvcUshpugDFqNQiACSnP:I:H:T:JX",
        "noreport prune gitignore dirsfirst filesfirst sort= filelimit="
        " charset= du si inodes device timefmt= matchdirs ignore-case metafirst info version help fromfile",
        spoils={"-o": _OUTPUT, "-R": (WRITES, "may write pages into folders")},
    ),
    **dict.fromkeys(["basename", "dirname"], _PATHS),
    "realpath": reader("resolves a path", "", "relative-to= relative-base=", open=True),
    "readlink": reader("resolves a link", open=True),
    "pathchk": _PATHS,
    "namei": reader("lists the parts of a path", open=True),
    **dict.fromkeys(["lsattr", "getfacl", "getfattr", "getcap"], reader("tells about rights", "n:e:m:", open=True)),
    "find": _find,
    "gfind": _find,
    "fd": _fd,
    "fdfind": _fd,
    **dict.fromkeys(
        ["locate", "plocate", "mlocate"],
        reader(
            "looks names up",
            "bceiAl:n:r",
            "limit= regex regexp= count ignore-case existing basename",
            operands=Operands.WORDS,
        ),
    ),
    "rm": _rm,
    "grm": _rm,
    "unlink": writes("removes a file"),
    "rmdir": writes("removes empty folders", "pv", "parents verbose ignore-fail-on-non-empty"),
    "srm": writes("removes files for good", danger=phrase("it removes files beyond recovery")),
    "shred": writes(
        "overwrites files",
        "fn:s:uvxz",
        "force iterations= random-source= size= remove? verbose exact zero",
        danger=phrase("it destroys what files hold beyond recovery"),
    ),
    "wipe": writes("overwrites files", danger=phrase("it destroys what files hold beyond recovery")),
    "truncate": _truncate,
    "dd": _dd,
    "dcfldd": _dd,
    "mv": _mv,
    "cp": _COPIES,
    "gcp": _COPIES,
    "install": _COPIES,
    "ln": _COPIES,
    "rsync": _rsync,
    "touch": writes(
        "makes files or changes their times", "acfhmd:r:t:", "date= reference= time= no-create no-dereference"
    ),
    "mkdir": writes("makes folders", "pvm:Z", "parents verbose mode="),
    "mkfifo": writes("makes a pipe", "m:", "mode="),
    "mknod": writes("makes a device", "m:", "mode=", danger=phrase("it makes a device")),
    "mktemp": changes("makes a file"),
    "fallocate": writes("changes a file's size"),
    "rename": changes("renames files"),
    "link": writes("makes a link", last=True),
    "chmod": _chmod,
    "chown": _chown,
    "chgrp": _chown,
    "chattr": changes("changes what the file system allows", phrase("it can lock files or unlock protected ones")),
    "setfacl": changes("changes who may use files", phrase("it changes who may use files")),
    "setfattr": changes("changes attributes of files"),
    "setcap": changes(
        "gives a program rights of the administrator", phrase("it gives a program rights of the administrator")
    ),
    "umask": _umask,
    "xattr": changes("changes attributes of files"),
    "trash": writes("moves files to the bin"),
    "ldd": runs("may start the program that it looks at"),
}
