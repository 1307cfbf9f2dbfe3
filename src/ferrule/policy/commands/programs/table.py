"""How a program is described: the options that keep it reading, those that spoil it, and what its operands are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from ..expansion import Loose
from ..finding import READS, RUNS, WRITES, Finding, Inner
from ..options import Grammar, Parsed, grammar, parse

if TYPE_CHECKING:
    from ..parts import Effect


class Operands(Enum):
    """What the operands of a program are."""

    FILES = "files that it reads"
    PATTERN = "a pattern, then files that it reads"
    WORDS = "neither files nor hosts"
    NONE = "none: with any operand it does something else"


@dataclass(slots=True, frozen=True)
class Reader:
    """A program that only reads, as long as no option spoils it.

    An `open` one has no other harmful options than those in `spoils`; of any other, an unknown option could be harmful.
    """

    does: str
    grammar: Grammar
    open: bool
    spoils: Mapping[str, tuple[Effect, str]]
    operands: Operands
    most: int | None
    files: frozenset[str]
    """Options whose value is a file that it reads."""


Describe: TypeAlias = Callable[[str, list[str]], Finding]
Program: TypeAlias = Reader | Describe


def reader(
    does: str,
    short: str = "",
    long: str = "",
    *,
    open: bool = False,  # noqa: A002 - it is the word for it
    spoils: Mapping[str, tuple[Effect, str]] | None = None,
    operands: Operands = Operands.FILES,
    most: int | None = None,
    files: str = "",
    digits: bool = True,
) -> Reader:
    """Describe a program that reads. `short` and `long` are as for `grammar`.

    `spoils` adds to them what they lack; one that writes is taken to name the file.
    """
    spoils = spoils or {}
    for option, (effect, _) in spoils.items():
        if option.startswith("--") and option[2:] not in {name.rstrip("=?") for name in long.split()}:
            long += f" {option[2:]}{'=' if effect is WRITES else '?'}"
        elif not option.startswith("--") and option[1] not in short:
            short += f"{option[1]}{':' if effect is WRITES else ''}"
    return Reader(does, grammar(short, long, digits=digits), open, spoils, operands, most, frozenset(files.split()))


def describe(program: Program, name: str, arguments: list[str]) -> Finding:
    """What `name` would do with these arguments."""
    if not isinstance(program, Reader):
        return program(name, arguments)
    if not arguments:
        return Finding(READS, f"`{name}` {program.does}")
    parsed = parse(program.grammar, arguments)
    if (spoiled := _spoiled(program, name, parsed)) is not None:
        return spoiled
    if not program.open:
        if parsed.unknown:
            return Finding(RUNS, f"`{name} {parsed.unknown[0]}` is an option that nobody described")
        if parsed.loose:
            return Finding(RUNS, f"`{parsed.loose}` is only known at run time and may be an option of `{name}`")
    operands = parsed.operands
    if program.most is not None and len(operands) > program.most:
        return Finding(WRITES, f"`{name}` writes to its last operand", operands[:-1], operands[-1:])
    if program.operands is Operands.NONE and operands:
        return Finding(WRITES, f"`{name} {operands[0]}` changes a setting")
    reads: list[str] = []
    if program.operands is Operands.FILES:
        reads = operands
    elif program.operands is Operands.PATTERN:
        reads = operands if parsed.has("-e", "-f", "--regexp", "--file", "--files") else operands[1:]
    if program.files:
        reads = [*reads, *(value for option, value in parsed.options if value is not None and option in program.files)]
    return Finding(READS, f"`{name}` {program.does}", reads)


def _spoiled(program: Reader, name: str, parsed: Parsed) -> Finding | None:
    spoils = program.spoils
    if not spoils:
        return None
    for option, value in parsed.options:
        if option in spoils:
            effect, why = spoils[option]
            writes = [value] if value and effect is WRITES else []
            return Finding(effect, f"`{name} {option}` {why}", parsed.operands, writes)
    for word in parsed.unknown:
        if word.startswith("--"):
            written = word.partition("=")[0]
            found = next((option for option in spoils if option.startswith(written)), None)
        else:
            found = next((option for option in spoils if not option.startswith("--") and option[1] in word), None)
        if found is not None:
            effect, why = spoils[found]
            return Finding(effect, f"`{name} {found}` {why}", parsed.operands)
    if parsed.loose:
        return Finding(RUNS, f"`{parsed.loose}` is only known at run time and may be an option of `{name}`")
    return None


def runs(why: str, danger: str = "") -> Describe:
    """A program that may do anything."""
    dangers = (danger,) if danger else ()

    def describe_runs(name: str, arguments: list[str]) -> Finding:
        return Finding(RUNS, f"`{name}` {why}", dangers=dangers)

    return describe_runs


def writes(why: str, short: str = "", long: str = "", *, last: bool = False, danger: str = "") -> Describe:
    """A program that changes its operands, or with `last` only the last of them."""
    rules = grammar(short, long)
    dangers = (danger,) if danger else ()

    def describe_writes(name: str, arguments: list[str]) -> Finding:
        parsed = parse(rules, arguments)
        operands = parsed.operands
        read = operands[:-1] if last else []
        written = operands[-1:] if last else operands
        target = parsed.value("-t", "--target-directory") if last else None
        if target is not None:
            read, written = operands, [target]
        return Finding(WRITES, f"`{name}` {why}", read, written, dangers=dangers)

    return describe_writes


def changes(why: str, danger: str = "") -> Describe:
    """A program that changes the machine rather than files that it names."""
    dangers = (danger,) if danger else ()

    def describe_changes(name: str, arguments: list[str]) -> Finding:
        return Finding(WRITES, f"`{name}` {why}", dangers=dangers)

    return describe_changes


def subcommands(
    table: Mapping[str, Program], *, globals_short: str = "", globals_long: str = "", otherwise: Describe | None = None
) -> Describe:
    """A program whose first operand says what it does; `table` may have entries of two words."""
    rules = grammar(globals_short, globals_long, permute=False)
    unknown = otherwise or runs("may do anything with this subcommand")

    def describe_subcommand(name: str, arguments: list[str]) -> Finding:
        parsed = parse(rules, arguments)
        operands = parsed.operands
        if parsed.unknown or parsed.loose or not operands:
            return unknown(name, arguments)
        two = " ".join(operands[:2])
        if two in table:
            return describe(table[two], f"{name} {two}", operands[2:])
        if operands[0] in table:
            return describe(table[operands[0]], f"{name} {operands[0]}", operands[1:])
        return unknown(name, arguments)

    return describe_subcommand


def informs(*flags: str, otherwise: Describe) -> Describe:
    """A program that only tells about itself when given one of these flags alone."""
    known = frozenset((*flags, "--version"))

    def describe_informs(name: str, arguments: list[str]) -> Finding:
        if len(arguments) == 1 and arguments[0] in known:
            return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
        return otherwise(name, arguments)

    return describe_informs


def certain(program: Describe) -> Describe:
    """A program judged by its words: where one of them may turn out to be an option, it may do anything."""

    def describe_certain(name: str, arguments: list[str]) -> Finding:
        loose = next((word for word in arguments if type(word) is Loose and word.option), None)
        finding = program(name, arguments)
        if loose is not None and finding.effect is READS:
            return Finding(RUNS, f"`{loose}` is only known at run time and may be an option of `{name}`")
        return finding

    return describe_certain


def hidden(words: list[str]) -> bool:
    """Whether words before a wrapper's command may turn out to be options, or more or fewer words."""
    return any(type(word) is Loose and (word.option or word.many) for word in words)


def starts_anything(name: str) -> Finding:
    """A wrapper whose words hide what it starts."""
    why = f"what `{name}` starts is only known at run time"
    return Finding(RUNS, why, unclear=why)


def wraps(
    short: str = "", long: str = "", *, skip: int = 0, effect: Effect = READS, why: str = "", danger: str = ""
) -> Describe:
    """A program that starts the command which follows its options and `skip` operands."""
    rules = grammar(short, long, permute=False, digits=True)
    dangers = (danger,) if danger else ()

    def describe_wrapper(name: str, arguments: list[str]) -> Finding:
        parsed = parse(rules, arguments)
        first = parsed.first + skip
        if hidden(arguments[:first]):
            return starts_anything(name)
        said = f"`{name}` {why}" if why else f"`{name}` runs a command"
        if parsed.unknown:
            return Finding(RUNS, f"`{name} {parsed.unknown[0]}` is an option that nobody described", dangers=dangers)
        if first >= len(arguments):
            return Finding(RUNS if effect is not READS else WRITES, said, dangers=dangers)
        return Finding(effect, said, dangers=dangers, inner=[Inner(first=first)], wrapper=True)

    return describe_wrapper
