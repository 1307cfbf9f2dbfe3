"""What a program gives to go on with a paused turn, checked before the turn is claimed: a slip uses up no state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ferrule.agent.turn_log import TurnStateError, given_form
from ferrule.core.errors import StoppedError
from ferrule.core.nearest import nearest
from ferrule.core.phrases import phrase
from ferrule.core.secrets import redact_text
from ferrule.pipeline.confirm import Answer, Choice
from ferrule.pipeline.format import fitted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ferrule.agent.agent_events import WaitingCall
    from ferrule.core.context import Caller
    from ferrule.registry.registry import ToolSource

_CHOICES = ("once", "always", "no")


def check_caller(kept: Mapping[str, Any], caller: Caller) -> None:
    """Raise `TurnStateError` unless the turn belongs to this session's user."""
    if (kept.get("tenant"), kept.get("user")) != (caller.tenant, caller.user):
        raise TurnStateError(
            phrase("The turn belongs to another user than this session."),
            phrase("Resume it in a session with the caller that it was begun with."),
        )


def checked(
    waiting: Sequence[WaitingCall], answers: Mapping[str, Answer | str], results: Mapping[str, Any], tools: ToolSource
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Answers and results as entries keep them; raises `ValueError` for what the turn does not wait for."""
    for name, given in (("answers", answers), ("results", results)):
        if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`{name}` is a dict, by the ids of the calls that wait, not {given!r}.")
    by_id = {one.id: one for one in waiting}
    given_answers: dict[str, Any] = {}
    given_results: dict[str, Any] = {}
    for call_id, said in answers.items():
        one = _find(by_id, call_id, "approval")
        answer = said if isinstance(said, Answer) else Answer(_choice(said, call_id))
        given_answers[call_id] = [one.bound_to, _choice(answer.choice, call_id).value, redact_text(answer.reason)]
    for call_id, value in results.items():
        one = _find(by_id, call_id, "result")
        tool = tools.get(one.tool)
        try:
            given_results[call_id] = form = given_form(value)
            if "value" in form and tool is not None and tool.checks_output:
                fitted(tool, form["value"])
        except StoppedError as stopped:
            raise ValueError(f"The result for `{call_id}` does not fit: {stopped.message}") from None
        except UnicodeEncodeError as error:
            raise ValueError(f"The result for `{call_id}` has text that is not valid Unicode: {error}.") from None
    return given_answers, given_results


def _find(waiting: Mapping[str, WaitingCall], call_id: str, kind: str) -> WaitingCall:
    one = waiting.get(call_id)
    if one is None:
        close = nearest(str(call_id), waiting, most=1)
        meant = f" Did you mean `{close[0]}`?" if close else ""
        what = f"It waits for {', '.join(f'`{name}`' for name in waiting)}." if waiting else "It waits for nothing."
        raise ValueError(f"The turn does not wait for a call `{call_id}`. {what}{meant}")
    if one.kind != kind:
        where = "`answers`" if one.kind == "approval" else "`results`"
        article = "an" if one.kind == "approval" else "a"
        raise ValueError(f"`{call_id}` ({one.tool}) waits for {article} {one.kind}: give it in {where}.")
    return one


def _choice(said: object, call_id: str) -> Choice:
    if said in _CHOICES:
        return Choice(said)
    raise ValueError(f'The answer for `{call_id}` is "once", "always" or "no", not {said!r}.')
