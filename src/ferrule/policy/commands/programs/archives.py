"""Programs that pack and unpack: those that list what is inside only read."""

from __future__ import annotations

from ferrule.core.phrases import phrase

from ..finding import READS, RUNS, WRITES, Finding
from ..naming import names
from ..options import grammar, parse
from .table import Program, certain, changes, reader

_TAR = grammar(
    "Acdrtuxf:zjJaZvkKmpPwWC:X:T:I:F:SOhlg:b:N:V:sUi",
    "list extract get create append update catenate diff compare delete file= gzip bzip2 xz zstd lzma"
    " compress auto-compress"
    " verbose directory= exclude= exclude-from= files-from= wildcards no-wildcards strip-components= transform= xform="
    " to-stdout absolute-names numeric-owner full-time use-compress-program= to-command= checkpoint? checkpoint-action="
    " info-script= new-volume-script= rsh-command= rmt-command= force-local same-order occurrence?"
    " show-transformed-names"
    " quoting-style= remove-files overwrite keep-old-files test-label index-file= utc block-number ignore-zeros",
)
_TAR_RUNS = (
    "-T",
    "--files-from",
    "-I",
    "--use-compress-program",
    "--to-command",
    "--checkpoint-action",
    "--info-script",
    "--new-volume-script",
    "--rsh-command",
    "--rmt-command",
    "-F",
    "--checkpoint",
    "--index-file",
)


def _tar(name: str, arguments: list[str]) -> Finding:
    if arguments and not arguments[0].startswith("-"):  # the old style: `tar xzf a.tar`
        arguments = _dashed(arguments)
    parsed = parse(_TAR, arguments)
    archives = parsed.values("-f", "--file")
    if found := next((option for option, _ in parsed.options if option in _TAR_RUNS), None):
        return Finding(RUNS, f"`{name} {found}` runs a program", archives)
    if parsed.unknown or parsed.loose:
        return Finding(RUNS, f"`{name}` has an option that nobody described", archives)
    if any(":" in archive and not archive.startswith(("/", ".")) for archive in archives):
        return Finding(RUNS, f"`{name}` reaches another machine", hosts=[archives[0].partition(":")[0]])
    if parsed.has("-x", "--extract", "--get"):
        target = parsed.value("-C", "--directory") or "."
        if parsed.has("-O", "--to-stdout"):
            return Finding(READS, f"`{name}` prints what a packed file holds", archives)
        dangers = [phrase("it writes wherever the archive says")] if parsed.has("-P", "--absolute-names") else []
        return Finding(WRITES, f"`{name}` unpacks files", archives, [target], dangers=dangers)
    if parsed.has("-t", "--list", "-d", "--diff", "--compare") and not parsed.has(
        "-c", "-r", "-u", "-A", "--delete", "--create", "--append", "--update", "--remove-files"
    ):
        return Finding(READS, f"`{name}` lists what a packed file holds", archives)
    return Finding(WRITES, f"`{name}` packs files", parsed.operands, archives)


def _dashed(arguments: list[str]) -> list[str]:
    """Old-style letters take their values from the words that follow, in order."""
    letters, rest = arguments[0], list(arguments[1:])
    words: list[str] = []
    for letter in letters:
        words.append(f"-{letter}")
        if _TAR.short.get(letter) == ":" and rest:
            words.append(rest.pop(0))
    return words + rest


@certain
def _unzip(name: str, arguments: list[str]) -> Finding:
    letters = "".join(word[1:] for word in arguments if word.startswith("-") and not word.startswith("--"))
    operands = [word for word in arguments if not word.startswith("-")]
    if set(letters) & set("lvtpcZ") and not set(letters) & set("do"):
        return Finding(READS, f"`{name} -{letters}` looks into a packed file", operands[:1])
    return Finding(WRITES, f"`{name}` unpacks files", operands[:1], ["."])


@certain
def _gzip(name: str, arguments: list[str]) -> Finding:
    letters = {
        letter for word in arguments if word.startswith("-") and not word.startswith("--") for letter in word[1:]
    }
    longs = {word for word in arguments if word.startswith("--")}
    operands = [word for word in arguments if not word.startswith("-")]
    keeps = letters & set("clt") or longs & {"--stdout", "--to-stdout", "--list", "--test", "--version", "--help"}
    if (keeps or not operands) and "o" not in letters and not any(word.startswith("--o") for word in longs):
        return Finding(READS, f"`{name}` passes text on", operands)
    return Finding(WRITES, f"`{name}` replaces files", operands, operands)


@certain
def _seven(name: str, arguments: list[str]) -> Finding:
    if arguments[:1] in (["l"], ["t"]) and not any(word.startswith("-o") for word in arguments):
        return Finding(READS, f"`{name} {arguments[0]}` looks into a packed file", arguments[1:2])
    return Finding(WRITES, f"`{name}` packs or unpacks files", arguments[1:])


@certain
def _ar(name: str, arguments: list[str]) -> Finding:
    if arguments and arguments[0].lstrip("-") in ("t", "tv", "p"):
        return Finding(READS, f"`{name} t` looks into a library", arguments[1:2])
    return Finding(WRITES, f"`{name}` changes a library", writes=arguments[1:2])


def _cpio(name: str, arguments: list[str]) -> Finding:
    if arguments and all(word in ("-t", "-it", "-itv", "-tv", "--list", "--quiet", "-v") for word in arguments):
        return Finding(READS, f"`{name}` lists what a packed file holds")
    return Finding(WRITES, f"`{name}` packs or unpacks files")


ARCHIVES: dict[str, Program] = {
    **dict.fromkeys(["tar", "gtar", "bsdtar"], _tar),
    "unzip": _unzip,
    "zipinfo": reader("looks into a packed file", open=True),
    **dict.fromkeys(
        names("gzip gunzip pigz bzip2 bunzip2 xz unxz zstd unzstd lzma lz4"),
        _gzip,
    ),
    **dict.fromkeys(["7z", "7za", "7zr"], _seven),
    **dict.fromkeys(["unrar", "rar"], _seven),
    "ar": _ar,
    "cpio": _cpio,
    "zip": changes("packs files, and can run a command with `-TT`"),
}
