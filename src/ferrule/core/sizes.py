"""Sizes in bytes as people read and write them: `6 GB`, `1.5 MB`."""

from __future__ import annotations

from ferrule.core.lazy_pattern import lazy_pattern

_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_MOST = 10**18  # what the kernel takes as a limit is a little more
_WRITTEN = lazy_pattern(r"(\d{1,15}(?:\.\d{1,3})?)\s*([kKmMgGtT]?[bB])")


def size_words(size: int) -> str:
    """A size in the largest unit that leaves a whole part."""
    unit, step = next((unit, step) for unit, step in reversed(_UNITS.items()) if size >= step or step == 1)
    number = size / step
    return f"{number:.1f} {unit}" if number < 10 and step > 1 else f"{number:,.0f} {unit}"


def read_size(text: str) -> int:
    """The bytes that such words stand for; raises ValueError where they are no size."""
    if (found := _WRITTEN.fullmatch(text.strip())) is None:
        raise ValueError(f"`{text}` is not a size such as `6 GB` or `500 MB`")
    size = int(float(found[1]) * next(step for unit, step in _UNITS.items() if unit.lower() == found[2].lower()))
    if size > _MOST:
        raise ValueError(f"`{text}` is more than {size_words(_MOST)}")
    return size
