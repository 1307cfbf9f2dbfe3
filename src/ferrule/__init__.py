"""Ferrule: define tools from typed Python, show them to any model, run what it asks for safely and on the record.

Everything here is imported when first used, so that `import ferrule` costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ferrule._lazy import lazy_names
from ferrule._version import __version__

if TYPE_CHECKING:
    from ferrule.core.access import NOTHING, Mode, Touch, reads, writes
    from ferrule.core.call import CallInfo, Limits, RawCall
    from ferrule.core.context import Caller, Environment, Session, ToolContext
    from ferrule.core.description import Description, Example
    from ferrule.core.errors import DefinitionError, ErrorKind, StoppedError, ToolError
    from ferrule.core.events import CallEvent, Done, PartialOutput, Pending, Progress, Question
    from ferrule.core.function_tool import FunctionTool, RawTool, raw_tool, tool, tools_of
    from ferrule.core.plugin import Plugin
    from ferrule.core.problems import InvalidParamsError, Problem
    from ferrule.core.result import Attachment, ErrorInfo, Output, ToolResult
    from ferrule.core.tool import Invocation, Kind, Tool, ToolOptions
    from ferrule.pipeline.authorise import Policy
    from ferrule.pipeline.batch import composite
    from ferrule.pipeline.confirm import Answer, Choice
    from ferrule.pipeline.record import Recorder
    from ferrule.pipeline.run import Runtime
    from ferrule.pipeline.stages import CallRecord, Decision, Verdict
    from ferrule.policy.decide import RulePolicy
    from ferrule.registry.registry import NameTakenError, Registry, RegistryEvent

__all__ = [
    "NOTHING", "Answer", "Attachment", "CallEvent", "CallInfo", "CallRecord", "Caller", "Choice", "Decision",
    "DefinitionError", "Description", "Done", "Environment", "ErrorInfo", "ErrorKind", "Example", "FunctionTool",
    "InvalidParamsError", "Invocation", "Kind", "Limits", "Mode", "NameTakenError", "Output", "PartialOutput",
    "Pending", "Plugin", "Policy", "Problem", "Progress", "Question", "RawCall", "RawTool", "Recorder", "Registry",
    "RegistryEvent", "RulePolicy", "Runtime", "Session", "StoppedError", "Tool", "ToolContext", "ToolError",
    "ToolOptions", "ToolResult", "Touch", "Verdict", "__version__", "composite", "raw_tool", "reads", "tool",
    "tools_of", "writes",
]  # fmt: skip

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "core.access": ("NOTHING", "Mode", "Touch", "reads", "writes"),
        "core.call": ("CallInfo", "Limits", "RawCall"),
        "core.context": ("Caller", "Environment", "Session", "ToolContext"),
        "core.errors": ("DefinitionError", "ErrorKind", "StoppedError", "ToolError"),
        "core.events": ("CallEvent", "Done", "PartialOutput", "Pending", "Progress", "Question"),
        "core.function_tool": ("FunctionTool", "tool", "tools_of", "RawTool", "raw_tool"),
        "core.plugin": ("Plugin",),
        "core.problems": ("InvalidParamsError", "Problem"),
        "core.result": ("Attachment", "ErrorInfo", "Output", "ToolResult"),
        "core.description": ("Description", "Example"),
        "core.tool": ("Invocation", "Kind", "Tool", "ToolOptions"),
        "pipeline.authorise": ("Policy",),
        "pipeline.batch": ("composite",),
        "pipeline.confirm": ("Answer", "Choice"),
        "pipeline.stages": ("CallRecord", "Decision", "Verdict"),
        "pipeline.record": ("Recorder",),
        "pipeline.run": ("Runtime",),
        "policy.decide": ("RulePolicy",),
        "registry.registry": ("NameTakenError", "Registry", "RegistryEvent"),
    },
)
