"""Programs that print, search, cut and compare text."""

from __future__ import annotations

from ..finding import READS, RUNS, WRITES, Finding
from ..naming import names
from .table import Operands, Program, changes, describe, informs, reader, runs, writes

_THROWN_AWAY = ("/dev/null", "/dev/stderr", "/dev/stdout")
_OUTPUT = (WRITES, "writes its output to a file")

_GREP = reader(
    "searches text",
    "e:f:m:A:B:C:d:D:",
    "regexp= file= max-count= after-context= before-context= context= label= binary-files= devices= directories="
    " include= exclude= exclude-from= exclude-dir= color? colour? group-separator=",
    open=True,
    operands=Operands.PATTERN,
    files="-f --file",
)
_PRINTS = reader("prints files", open=True)
_SUMS = reader("prints checksums", "l:", "algorithm= length=", open=True)
_UNPACKS = reader("prints what a packed file holds", open=True, spoils={"-o": _OUTPUT})


def _tee(name: str, arguments: list[str]) -> Finding:
    files = [word for word in arguments if not word.startswith("-") and word not in _THROWN_AWAY]
    if files:
        return Finding(WRITES, f"`{name}` writes what passes to files", writes=files)
    return Finding(READS, f"`{name}` passes text on")


_PAGER = reader(
    "shows files",
    "niNSRFXEerMmsIgGqQfucCaAJwWdlp",
    "no-init quit-if-one-screen RAW-CONTROL-CHARS chop-long-lines LINE-NUMBERS",
)


def _pager(name: str, arguments: list[str]) -> Finding:
    """Without a terminal a pager only passes text on; but what follows a `+` it takes for a command of its own."""
    if any(word.startswith("+") for word in arguments):
        return Finding(RUNS, f"`{name} +…` runs commands of the pager, which can start programs")
    return describe(_PAGER, name, arguments)


def _jq(name: str, arguments: list[str]) -> Finding:
    """`jq` runs nothing and writes nothing; only which of its words are files needs care."""
    files: list[str] = []
    operands: list[str] = []
    filtered = False
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word in ("--arg", "--argjson"):
            at += 2
        elif word in ("--slurpfile", "--rawfile"):
            files += arguments[at + 2 : at + 3]
            at += 2
        elif word in ("-f", "--from-file"):
            files += arguments[at + 1 : at + 2]
            filtered, at = True, at + 1
        elif word in ("--args", "--jsonargs"):
            break
        elif word in ("--indent", "-L"):
            at += 1
        elif not word.startswith("-"):
            operands.append(word)
        at += 1
    return Finding(READS, f"`{name}` prints parts of JSON", [*files, *(operands if filtered else operands[1:])])


TEXT: dict[str, Program] = {
    **dict.fromkeys(["cat", "tac", "nl", "rev", "tsort", "look", "hexyl", "lolcat"], _PRINTS),
    "wc": reader("counts lines, words and bytes", "", "files0-from= total=", open=True, files="--files0-from"),
    "head": reader("prints the first lines", "n:c:", "lines= bytes=", open=True),
    "tail": reader(
        "prints the last lines", "n:c:s:", "lines= bytes= pid= sleep-interval= max-unchanged-stats=", open=True
    ),
    "cut": reader("prints columns", "b:c:d:f:", "bytes= characters= delimiter= fields= output-delimiter=", open=True),
    "paste": reader("joins lines", "d:", "delimiters=", open=True),
    "tr": reader("changes characters as they pass", open=True, operands=Operands.WORDS),
    "comm": reader("compares sorted files", "", "output-delimiter=", open=True),
    "join": reader("joins sorted files", "1:2:a:e:i:j:o:t:v:", open=True),
    "fold": reader("wraps lines", "w:", "width=", open=True),
    "fmt": reader("wraps paragraphs", "w:p:g:", "width= prefix= goal=", open=True),
    "expand": reader("changes tabs as they pass", "t:", "tabs=", open=True),
    "unexpand": reader("changes tabs as they pass", "t:", "tabs=", open=True),
    "column": reader("lines up columns", "c:s:o:t", "output-width= separator= output-separator=", open=True),
    "pr": reader("prints pages", open=True),
    "numfmt": reader("prints numbers", open=True, operands=Operands.WORDS),
    "factor": reader("prints factors", open=True, operands=Operands.WORDS),
    "seq": reader("prints numbers", "f:s:t:", "format= separator=", open=True, operands=Operands.WORDS),
    "yes": reader("prints a word again and again", open=True, operands=Operands.WORDS),
    "echo": reader("prints its words", open=True, operands=Operands.WORDS),
    "expr": reader("works out an expression", open=True, operands=Operands.WORDS),
    "bc": reader("works out sums", open=True),
    "cmp": reader("compares files", "i:n:", "ignore-initial= bytes=", open=True, most=None),
    "diff": reader(
        "compares files",
        "C:D:F:I:L:S:U:W:X:x:",
        "context? unified? label= exclude= exclude-from= ignore-matching-lines= width= starting-file="
        " from-file= to-file="
        " ifdef= color? palette= tabsize= show-function-line= horizon-lines=",
        open=True,
        files="--from-file --to-file -X --exclude-from",
    ),
    "colordiff": reader("compares files", open=True),
    "diffstat": reader("counts changes", "p:w:n:", spoils={"-o": _OUTPUT}, open=True),
    "sdiff": reader(
        "compares files",
        open=True,
        spoils={"-o": _OUTPUT, "--output": _OUTPUT, "--diff-program": (RUNS, "runs a program")},
    ),
    "diff3": reader("compares files", open=True, spoils={"--diff-program": (RUNS, "runs a program")}),
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "zgrep": _GREP,
    "bzgrep": _GREP,
    "xzgrep": _GREP,
    "rg": reader(
        "searches text",
        "e:f:g:t:T:m:A:B:C:j:M:r:d:E:aceFhHiIlLnNopPqsSuUvVwx0.",
        "regexp= file= glob= iglob= type= type-not= type-list type-add= type-clear= max-count= after-context="
        " before-context= context= threads= max-columns= max-columns-preview replace= max-depth= maxdepth="
        " max-filesize="
        " encoding= engine= color= colors= sort= sortr= path-separator= context-separator= field-match-separator="
        " field-context-separator= ignore-file= dfa-size-limit= regex-size-limit= hyperlink-format= generate="
        " text count fixed-strings with-filename no-filename ignore-case files-with-matches files-without-match"
        " line-number no-line-number only-matching pcre2 quiet case-sensitive smart-case unrestricted multiline"
        " multiline-dotall invert-match word-regexp line-regexp null null-data hidden no-hidden no-ignore no-ignore-dot"
        " no-ignore-exclude no-ignore-files no-ignore-global no-ignore-messages no-ignore-parent"
        " no-ignore-vcs no-messages"
        " no-config no-heading heading column no-column byte-offset count-matches crlf debug trace files follow"
        " glob-case-insensitive ignore-file-case-insensitive include-zero json line-buffered block-buffered"
        " mmap no-mmap"
        " no-pcre2-unicode no-unicode one-file-system passthru passthrough pretty print0 stats trim vimgrep"
        " version help"
        " pcre2-version auto-hybrid-regex binary no-binary no-require-git stop-on-nonmatch no-json no-stats no-trim"
        " no-pre no-search-zip no-follow no-text no-encoding",
        spoils={
            "--pre": (RUNS, "runs a program on every file"),
            "--hostname-bin": (RUNS, "runs a program"),
            "--search-zip": (RUNS, "runs unpacking programs"),
            "-z": (RUNS, "runs unpacking programs"),
        },
        operands=Operands.PATTERN,
        files="-f --file --ignore-file",
    ),
    "ag": reader(
        "searches text",
        "A:B:C:G:m:cfFghHilLnoQrRsSuUvwzaD0t",
        "depth= ignore= ignore-case hidden nocolor color nogroup"
        " noheading numbers nonumbers files-with-matches literal word-regexp count stats",
        operands=Operands.PATTERN,
    ),
    "sort": reader(
        "sorts lines",
        "bdfghiMnRrVcCmsuzk:t:S:",
        "ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort"
        " human-numeric-sort numeric-sort random-sort random-source= reverse sort= version-sort batch-size="
        " check? debug"
        " files0-from= key= merge stable buffer-size= field-separator= parallel= unique zero-terminated help version",
        spoils={
            "-o": _OUTPUT,
            "--output": _OUTPUT,
            "--compress-program": (RUNS, "runs a program"),
            "-T": (WRITES, "writes to a folder of its own choosing"),
            "--temporary-directory": (WRITES, "writes to a folder of its own choosing"),
        },
        files="--files0-from --random-source",
    ),
    "uniq": reader(
        "drops repeated lines",
        "cdDiuzf:s:w:",
        "count repeated all-repeated? skip-fields= group? ignore-case skip-chars= unique zero-terminated check-chars=",
        most=1,
    ),
    "shuf": reader(
        "shuffles lines",
        "ei:n:rz",
        "echo input-range= head-count= random-source= repeat zero-terminated",
        spoils={"-o": _OUTPUT, "--output": _OUTPUT},
    ),
    "iconv": reader(
        "changes an encoding as it passes",
        "f:t:lcs",
        "from-code= to-code= list silent verbose",
        spoils={"-o": _OUTPUT, "--output": _OUTPUT},
    ),
    "jq": _jq,
    "yq": reader(
        "prints parts of YAML",
        "o:p:rPnMCejcyi",
        "output-format= input-format= raw-output prettyPrint null-input no-colors colors"
        " exit-status inplace in-place indent= unwrapScalar? tojson",
        spoils={
            "-i": (WRITES, "changes files in place"),
            "--inplace": (WRITES, "changes files in place"),
            "--in-place": (WRITES, "changes files in place"),
        },
        operands=Operands.PATTERN,
    ),
    "xmllint": reader(
        "checks XML",
        "",
        "noout xpath= format nonet recover version huge pretty= html",
        spoils={"--output": _OUTPUT, "--shell": (RUNS, "starts a shell")},
    ),
    **dict.fromkeys(
        names("md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum md5 shasum crc32"),
        _SUMS,
    ),
    "base64": reader(
        "changes an encoding as it passes",
        "w:diD",
        "wrap= decode ignore-garbage",
        spoils={"-o": _OUTPUT, "--output": _OUTPUT},
    ),
    "base32": reader("changes an encoding as it passes", "w:", "wrap=", open=True),
    "basenc": reader("changes an encoding as it passes", "w:", "wrap=", open=True),
    "od": reader("prints bytes", "A:j:N:S:t:w:", open=True),
    "hexdump": reader("prints bytes", "e:f:n:s:", open=True, files="-f"),
    "hd": reader("prints bytes", "e:f:n:s:", open=True, files="-f"),
    "xxd": reader("prints bytes", "abc:Cdeg:il:n:o:ps:uvr", "", spoils={"-r": (WRITES, "writes bytes back")}, most=1),
    "strings": reader("prints text in a file", "n:e:t:", "bytes= encoding= radix=", open=True),
    **dict.fromkeys(["zcat", "gzcat", "bzcat", "xzcat", "zstdcat", "lz4cat", "lzcat"], _UNPACKS),
    "less": _pager,
    "more": _pager,
    "bat": reader(
        "shows files",
        "npPAl:r:H:",
        "plain number paging= style= language= line-range= color= theme= decorations="
        " show-all highlight-line= list-languages list-themes no-pager wrap= tabs= terminal-width=",
    ),
    "batcat": reader("shows files", "npPAl:r:", "plain number paging= style= language= line-range= color="),
    "ptx": runs("may write to its last operand"),
    "dc": runs("can run commands"),
    "tee": _tee,
    "sponge": writes("writes what passes to a file", "a"),
    "split": changes("writes pieces of a file"),
    "csplit": changes("writes pieces of a file"),
    "dos2unix": writes("changes files in place"),
    "unix2dos": writes("changes files in place"),
    "patch": changes("changes files as a patch says"),
    "shellcheck": reader(
        "checks a script", "s:e:f:S:xaC?", "shell= exclude= format= severity= external-sources color?"
    ),
    "fzf": informs(otherwise=runs("can run commands")),
}
