"""/tools, /model and /mode: what the model may call, which model it is, and how much runs without asking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.cli.chatting.text_rows import cut
from ferrule.cli.words import _
from ferrule.core.tool import description_of
from ferrule.pipeline.authorise import Mode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.cli.chatting.chat import Chat


async def tools(chat: Chat, _rest: str) -> None:
    """Each with its kind, as the mode leaves them."""
    shown = chat.assistant.agent.tools.tools()
    widest = max((len(tool.name) for tool in shown), default=0)
    for tool in sorted(shown, key=lambda one: one.name.lower()):
        line = f"  {tool.name:<{widest}}  {tool.kind.value:<8}  {description_of(tool).short}"
        chat.rows([cut(line, chat.screen.width)])


async def model(chat: Chat, rest: str) -> None:
    """The one in use, or another one from the next turn on."""
    if rest:
        await chat.assistant.use_model(rest)
    chat.say(_("The model is {name}.").format(name=chat.assistant.agent.model.name))


def _modes() -> dict[str, str]:
    return {
        Mode.DEFAULT: _("reading runs, the rest asks"),
        Mode.PLAN: _("only what reads runs; the rest is refused"),
        Mode.ACCEPT_EDITS: _("files in the workspace are changed without asking"),
        Mode.DONT_ASK: _("what would ask is refused"),
        Mode.BYPASS: _("all runs but what is denied, dangerous or asked about by a rule"),
    }


def modes(_chat: Chat) -> Sequence[str]:
    return [mode.value for mode in Mode]


async def mode(chat: Chat, rest: str) -> None:
    """How much runs without asking, from the next call on."""
    policy: Any = chat.assistant.app.runtime.policy
    known = _modes()
    if rest in known:
        policy.mode = Mode(rest)
    elif rest:
        chat.say(_("There is no mode `{name}`.").format(name=rest), "warned")
    for name, about in known.items():
        mark = "›" if name == policy.mode else " "
        chat.say(f"{mark} {name:<13}{about}")
