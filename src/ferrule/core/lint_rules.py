"""The linter's rules and what it finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(slots=True, frozen=True)
class Finding:
    """One thing in a definition that a model, a provider or a person would stumble over."""

    rule: str
    severity: Severity
    where: str
    message: str
    suggestion: str

    def __str__(self) -> str:
        return f"{self.rule} {self.severity}: {self.where}: {self.message}. {self.suggestion}"


@dataclass(slots=True, frozen=True)
class Rule:
    """What a rule asks for, and how to meet it."""

    severity: Severity
    asks: str
    advice: str


RULES: dict[str, Rule] = {
    "F001": Rule(
        "error",
        "The name is accepted by every provider.",
        "Use letters, digits, _ and -, at most 64 of them, and no digit or - first.",
    ),
    "F002": Rule("warning", "The name is more than one letter.", "Write a verb and what it acts on."),
    "F003": Rule("warning", "The name begins with a verb.", "Say what it does: `get_weather`, not `weather`."),
    "F010": Rule("error", "There is a description.", "Say in a sentence what it does and when to use it."),
    "F011": Rule("warning", "The description says more than the name.", "Say what comes back and when to use it."),
    "F012": Rule(
        "warning",
        "The description has at least 20 characters.",
        "Say what it does, with what, and when to use it.",
    ),
    "F013": Rule("warning", "The description says when to use the tool.", "Add a sentence such as «Use it when …»."),
    "F014": Rule("error", "The description can be read.", "Until this is mended, no model is shown the tool."),
    "F020": Rule("error", "The parameters compile.", "Until this is mended, every call fails."),
    "F021": Rule(
        "warning",
        "The schema is of type object, as every provider asks.",
        'Write {"type": "object", "properties": …}.',
    ),
    "F022": Rule(
        "warning",
        "There are at most 15 parameters.",
        "Split the tool, or group what belongs together in an object.",
    ),
    "F023": Rule("warning", "Every parameter is described.", "Say what to put there, with its unit or form."),
    "F024": Rule("warning", "No parameter has a one-letter name.", "Write the word out."),
    "F025": Rule("warning", "A parameter's name says what it holds.", "Name what it is: `path`, `query`, `city`."),
    "F026": Rule(
        "warning",
        "Choices are different, not empty, and at most 100.",
        "List each allowed value once; where there are many, take a text and offer a tool to look it up.",
    ),
    "F027": Rule("error", "Examples fit the schema.", "A model copies examples: make it a call that works."),
    "F028": Rule(
        "warning",
        "Defaults have a JSON form.",
        "No model is told of this one: use a text, a number or a list, or None for «not given».",
    ),
    "F030": Rule(
        "error",
        "A tool named for a change does not claim to be read-only.",
        'It would run unasked. Declare kind="write" or kind="execute".',
    ),
    "F031": Rule(
        "warning",
        "A tool with effects says what it touches.",
        "Give it `touches`, so that other calls can run beside it and a person sees what it will change.",
    ),
}
