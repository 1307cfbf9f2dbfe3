"""`sed` and `awk`: small languages in which a letter is the difference between reading and running."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..expansion import Loose
from ..finding import READS, RUNS, WRITES, Finding
from ..options import grammar, parse

if TYPE_CHECKING:
    from .table import Program

_SED = grammar(
    "ne:f:Ersuzl:i?b",
    "quiet silent expression= file= regexp-extended in-place? line-length= posix separate unbuffered"
    " null-data zero-terminated"
    " sandbox debug binary help version follow-symlinks",
)
_ADDRESS = re.compile(
    r"[ \t]*(?:[0-9]+(?:~[0-9]+)?|\$|/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:\[:\w+:\]|[^\]\n])*\])*/[IM]*|[+~][0-9]+)[ \t]*"
)
# Within brackets the delimiter is a character like any other; a sed that disagrees finds an error and does nothing.
_BRACKET = re.compile(r"\[\^?\]?(?:\[:\w+:\]|[^\]\n])*\]")
_SIMPLE = frozenset("=dDgGhHnNpPxzF")


def _sed(name: str, arguments: list[str]) -> Finding:
    parsed = parse(_SED, arguments)
    operands = parsed.operands
    if parsed.has("--help", "--version"):
        return Finding(READS, f"`{name}` tells about itself")
    scripts = parsed.values("-e", "--expression")
    if not scripts and not parsed.has("-f", "--file"):
        scripts, operands = operands[:1], operands[1:]
    if parsed.has("-f", "--file"):
        return Finding(
            RUNS, f"`{name} -f` runs a script that lies in a file", [*operands, *parsed.values("-f", "--file")]
        )
    shaped = [word for word in arguments if not (isinstance(word, Loose) and word.shape)]
    if parsed.unknown or parse(_SED, shaped).loose:
        doubt = parsed.unknown[0] if parsed.unknown else parsed.loose
        return Finding(RUNS, f"`{name} {doubt}` is not described, and may change files", operands)
    if parsed.has("-i", "--in-place"):
        return Finding(WRITES, f"`{name} -i` changes files in place", operands, operands)
    scripts = [script.shape if isinstance(script, Loose) else script for script in scripts]
    if not all(scripts):
        return Finding(RUNS, f"the script of `{name}` is only known at run time", operands)
    doubt, reads = sed_script("\n".join(scripts))
    if doubt:
        return Finding(RUNS, f"the script of `{name}` {doubt}", operands)
    return Finding(READS, f"`{name}` edits text as it passes", [*operands, *reads])


def sed_script(script: str) -> tuple[str, list[str]]:
    """What in a sed script does more than edit text as it passes (empty for nothing), and the files that it reads."""
    at, reads, length = 0, list[str](), len(script)
    while at < length:
        if script[at] in " \t\n;{}":
            at += 1
            continue
        if script[at] == "#":
            at = _line_end(script, at)
            continue
        found = _ADDRESS.match(script, at)
        if found is not None:
            at = found.end()
            if script.startswith(",", at):
                second = _ADDRESS.match(script, at + 1)
                if second is None:
                    return "has an address that is not understood", reads
                at = second.end()
        while at < length and script[at] in " \t!":
            at += 1
        if at >= length:
            return "has an address without a command", reads
        command = script[at]
        at += 1
        if command in _SIMPLE or command in "{}":
            continue
        if command in "aic:btTv":
            at = _line_end(script, at) if command in "aic" else _label_end(script, at)
            while command in "aic" and at < length and script[at - 1] == "\\":
                at = _line_end(script, at + 1)
        elif command in "qQlL":
            while at < length and script[at] in " \t0123456789":
                at += 1
        elif command in "sy":
            doubt, at = _substitution(script, at, command)
            if doubt:
                return doubt, reads
        elif command in "rR":
            end = _line_end(script, at)
            reads.append(script[at:end].strip())
            at = end
        elif command in "wW":
            return "writes a file with `w`", reads
        elif command == "e":
            return "runs a command with `e`", reads
        else:
            return f"has the command `{command}`, which is not understood", reads
    return "", reads


def _substitution(script: str, at: int, command: str) -> tuple[str, int]:
    """`s` or `y` from behind its letter: why it is not harmless, and where it ends."""
    delimiter = script[at : at + 1]
    if not delimiter or delimiter in "\n\\" or delimiter.isalnum():
        return "has a substitution that is not understood", at
    at += 1
    for half in range(2):
        while True:
            here = script[at : at + 1]
            if not here:
                return "has a substitution that does not end", at
            if here == "\\":
                at += 2
            elif here == delimiter:
                at += 1
                break
            elif here == "[" and half == 0 and command == "s":
                bracket = _BRACKET.match(script, at)
                if bracket is None:
                    return "has a substitution that is not understood", at
                at = bracket.end()
            else:
                at += 1
    while command == "s" and at < len(script) and script[at] in "gpiImM0123456789we":
        if script[at] == "w":
            return "writes a file with `s///w`", at
        if script[at] == "e":
            return "runs a command with `s///e`", at
        at += 1
    while at < len(script) and script[at] in " \t":
        at += 1
    if at < len(script) and script[at] not in ";\n}#":
        return "has a substitution with flags that are not understood", at
    return "", at


def _line_end(script: str, at: int) -> int:
    end = script.find("\n", at)
    return len(script) if end < 0 else end


def _label_end(script: str, at: int) -> int:
    while at < len(script) and script[at] not in ";\n}":
        at += 1
    return at


_AWK = grammar(
    "F:v:",
    "field-separator= assign= posix traditional re-interval characters-as-bytes sandbox csv version help",
    permute=False,
)
_AWK_TOKEN = re.compile(
    r'(?P<text>"(?:[^"\\\n]|\\.)*")|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<number>[0-9.]+(?:[eE][+-]?[0-9]+)?)'
    r"|(?P<comment>#[^\n]*)|(?P<blank>[ \t\r]+|\\\n)|(?P<mark>\|\||>=|>>|[^A-Za-z0-9_])",
    re.DOTALL,
)
_AWK_PATTERN = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:[^\]\n])*\])*/")


def _awk(name: str, arguments: list[str]) -> Finding:
    parsed = parse(_AWK, arguments)
    if parsed.has("--version", "--help"):
        return Finding(READS, f"`{name}` tells about itself")
    if parsed.unknown:
        return Finding(RUNS, f"`{name} {parsed.unknown[0]}` runs a script from elsewhere, or is not described")
    script = next(iter(parsed.operands), "")
    script = script.shape if isinstance(script, Loose) else script
    if not script:
        return Finding(RUNS, f"the script of `{name}` is only known at run time")
    files = [word for word in parsed.operands[1:] if not re.match(r"[A-Za-z_]\w*=", word)]
    if doubt := awk_script(script):
        return Finding(RUNS, f"the script of `{name}` {doubt}", files)
    return Finding(READS, f"`{name}` picks from text as it passes", files)


def awk_script(script: str) -> str:
    """What in an awk script does more than pick from text as it passes; empty for nothing."""
    if found := re.search(r"system|getline|@|/inet|ARGV", script):
        return f"holds `{found.group()}`, which reaches beyond its input"
    if re.search(r"(?:\+\+|--|\blength)\s*/", script):
        return "has a `/` that may be a division or a pattern"
    at, depth, printing, value_before, closed = 0, 0, False, False, False
    while at < len(script):
        here = script[at]
        if here == "/" and not value_before:
            pattern = _AWK_PATTERN.match(script, at)
            if pattern is None:
                return "has a pattern that is not understood"
            at, value_before = pattern.end(), True
            continue
        if here == "/" and closed and re.search(r'["/]', script[at + 1 :]):
            return "has a `/` that may be a division or a pattern"
        token = _AWK_TOKEN.match(script, at)
        if token is None or here == "'":
            return "is not understood"
        at = token.end()
        kind, text = token.lastgroup, token.group()
        if kind in ("blank", "comment"):
            continue
        if kind == "name":
            closed = False
            printing, depth = (True, 0) if text in ("print", "printf") else (printing, depth)
            value_before = text not in ("print", "printf", "return", "in", "if", "while", "do", "else", "case")
            continue
        value_before, closed = kind in ("text", "number") or text in (")", "]", "$"), text == ")"
        if kind != "mark":
            continue
        if text == '"' or (text == "|" or (text == "&" and script.startswith("|", at))):
            return "pipes to a command" if text != '"' else "has a quote that never closes"
        depth += (text in "([") - (text in ")]")
        if text in (";", "\n", "}", "{"):
            printing = False
        elif text in (">", ">>") and printing and depth <= 0:
            return "writes a file with `>`"
    return ""


EDITING: dict[str, Program] = {
    **dict.fromkeys(["sed", "gsed"], _sed),
    **dict.fromkeys(["awk", "gawk", "mawk", "nawk", "original-awk"], _awk),
}
