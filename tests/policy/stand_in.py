"""A small analyser and a tool that runs commands, so that rules are tested apart from how commands are understood."""

from __future__ import annotations

import shlex
from typing import Any

from ferrule import Session, Touch, tool
from ferrule.core.call import Invocation
from ferrule.policy.commands.parts import Analysis, Danger, Effect, Part
from ferrule.policy.decide import RulePolicy

READERS = {"ls", "cat", "grep", "rg", "head", "echo", "pwd", "wc"}
WRITERS = {"mkdir", "touch", "rm", "cp", "mv"}
GIT_READS = {"diff", "log", "status", "show"}
WRAPPERS = {"env", "nohup", "nice", "sudo", "ssh"}


def analyse(command: str, *, directory: str, home: str) -> Analysis:
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=";|&<>")
        lexer.whitespace_split = True
        tokens = list(lexer)
    except ValueError as error:
        return Analysis(command, unclear=(str(error),))
    parts: list[Part] = []
    dangers: list[Danger] = []
    piece: list[str] = []
    for token in [*tokens, ";"]:
        if token and set(token) <= set(";|&"):
            if piece:
                part = _part(piece, directory, home)
                parts.append(part)
                flags = {letter for word in part.words[1:] if word.startswith("-") for letter in word[1:]}
                if part.program == "rm" and {"r", "f"} <= flags:
                    dangers.append(Danger(part.text, "it removes folders with all in them"))
                if "sudo" in part.wrappers:
                    dangers.append(Danger(part.text, "it runs as another user"))
            piece = []
        else:
            piece.append(token)
    return Analysis(command, tuple(parts), tuple(dangers))


def _part(tokens: list[str], directory: str, home: str) -> Part:
    words: list[str] = []
    reads: list[str | None] = []
    writes: list[str | None] = []
    wrappers: list[str] = []
    rest = iter(tokens)
    for token in rest:
        if token in (">", ">>"):
            writes.append(_path(next(rest, ""), home))
        elif token == "<":
            reads.append(_path(next(rest, ""), home))
        elif not words and token in WRAPPERS:
            wrappers.append(token)
            if token == "ssh":
                next(rest, "")
        else:
            words.append(token)
    redirected = bool(writes)
    patterns = tuple(f"{directory}/{word}" for word in words[1:] if "*" in word)
    program = words[0] if words else ""
    named = [_path(word, home) for word in words[1:] if not word.startswith("-") and "*" not in word]
    effect, why = Effect.RUNS, f"`{program}` is not known"
    if program in READERS or (program == "git" and words[1:2] and words[1] in GIT_READS):
        effect, why = Effect.READS, f"`{program}` reads"
        if program in ("cat", "head", "wc", "ls", "rg"):
            reads += named
        elif program == "grep":
            reads += named[1:]
    elif program in WRITERS:
        effect, why = Effect.WRITES, f"`{program}` changes files"
        writes += named
    elif not words:
        effect, why = Effect.READS, "it starts nothing"
    if redirected and effect is Effect.READS:
        effect, why = Effect.WRITES, "a redirect writes a file"
    if "ssh" in wrappers:
        effect, why = Effect.RUNS, "it runs on another machine"
    fixed = not any("$" in word for word in words)
    text = " ".join(tokens[len(wrappers) + ("ssh" in wrappers) :])
    return Part(text, tuple(words), effect, why, tuple(reads), tuple(writes), (), fixed, tuple(wrappers), patterns)


def _path(word: str, home: str) -> str | None:
    if "$" in word:
        return None
    return f"{home}/{word[2:]}" if word.startswith("~/") else word


@tool(
    name="Bash",
    kind="execute",
    touches=lambda params: [Touch(f"command:{params.command}", write=True)],
    signature=lambda params: params.command,
)
def bash(command: str) -> str:
    """Run a command. Use this to test: nothing is run."""
    return f"ran {command}"


def policy(**options: Any) -> RulePolicy:
    return RulePolicy(analyser=analyse, **options)


def invoke(one: Any, session: Session, **arguments: Any) -> Invocation:
    invocation = one.build(arguments)
    invocation.session = session
    return invocation


def verdict(rules: RulePolicy, session: Session, one: Any, **arguments: Any) -> str:
    return rules.decide(invoke(one, session, **arguments), session).verdict.value


def on_command(rules: RulePolicy, session: Session, command: str) -> str:
    return verdict(rules, session, bash, command=command)
