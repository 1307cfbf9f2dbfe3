"""What a program or a user puts before and after calls: hooks in Python, or as programs of their own."""

from ferrule.pipeline.hooks import Hook, HookReply
from ferrule.policy.program_hook import program_hook

__all__ = ["Hook", "HookReply", "program_hook"]
