"""Code mode: one tool that runs a program of the model's, in which other tools are functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names

if TYPE_CHECKING:
    from ferrule.code.program import CodeLimits
    from ferrule.code.run_code import RunCode

__all__ = ["CodeLimits", "RunCode"]

__getattr__, __dir__ = lazy_names(__name__, {"code.program": ("CodeLimits",), "code.run_code": ("RunCode",)})
