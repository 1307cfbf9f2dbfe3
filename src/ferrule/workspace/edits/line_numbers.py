"""Takes off line numbers that were pasted along with the lines, as Read prints them."""

from __future__ import annotations

import re

_NUMBERED = re.compile(r"[ \t]*(\d+)(?:[\t→](.*)|(\r?))", re.DOTALL)


def without_numbers(old: str, new: str) -> tuple[str, str] | None:
    """Both texts without line numbers; None unless every line of the old one has the number that comes next."""
    lines = _split(old)
    if lines is None:
        return None
    numbers = [number for number, _ in lines if number is not None]
    if len(numbers) != len(lines) or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        return None
    return _join(old, [text for _, text in lines]), _without(new)


def _without(new: str) -> str:
    lines = _split(new)
    return new if lines is None else _join(new, [text for _, text in lines])


def _split(text: str) -> list[tuple[int | None, str]] | None:
    """Number and rest of each line; None when no line has a number with its mark."""
    lines = text.split("\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    split: list[tuple[int | None, str]] = []
    marked = False
    for line in lines:
        match = _NUMBERED.fullmatch(line)
        if match is None or len(match[1]) > 9:
            split.append((None, line))
        else:
            marked = marked or match[2] is not None
            split.append((int(match[1]), match[2] or match[3] or ""))
    return split if marked else None


def _join(text: str, lines: list[str]) -> str:
    return "\n".join(lines) + ("\n" if text.endswith("\n") else "")
