"""What a tool made without a class says of its calls: the methods that a class would override, as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.core.errors import DefinitionError
from ferrule.core.tool import Style, Tool, ToolOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ferrule.core.access import Touch, Touches
    from ferrule.core.context import Session
    from ferrule.core.errors import ToolError
    from ferrule.core.problems import Problem


class HookedOptions(ToolOptions, total=False):
    """A tool's options and hooks. Each hook gets the parameters, or for `render` and `display` the value.

    Those that end in `_in` get the session too, which may be None while it is not known.
    """

    touches: Callable[[Any], Iterable[Touch]] | Touches
    touches_in: Callable[[Any, Session | None], Iterable[Touch]]
    only_reads: Callable[[Any], bool]
    refusal_in: Callable[[Any, Session], ToolError | None]
    signature: Callable[[Any], str]
    signature_in: Callable[[Any, Session | None], str]
    abstract_rule: Callable[[Any], str]
    abstract_rule_in: Callable[[Any, Session | None], str]
    check: Callable[[Any], Iterable[Problem] | None]
    render: Callable[[Any], str | None]
    display: Callable[[Any], str | None]


_HOOKS = (
    "touches", "touches_in", "only_reads", "refusal_in", "signature", "signature_in", "abstract_rule",
    "abstract_rule_in", "check", "render", "display",
)  # fmt: skip


class HookedTool(Tool[Any]):
    """A tool whose say comes from hooks."""

    def _settle_with_hooks(self, name: str, options: Mapping[str, Any], style: Style) -> None:
        self._hooks: dict[str, Any] = {key: options[key] for key in _HOOKS if options.get(key) is not None}
        self._settle(name, {key: value for key, value in options.items() if key not in _HOOKS}, style)
        for key, hook in self._hooks.items():
            if not callable(hook) and key != "touches":
                raise DefinitionError(f"`{name}`: {key} must be a function, not {hook!r}.")
        self.has_check = "check" in self._hooks
        self.has_touches = "touches" in self._hooks or "touches_in" in self._hooks
        self.has_signature = "signature" in self._hooks
        self.has_render = "render" in self._hooks
        self.has_words = self.has_render or "display" in self._hooks

    def touches(self, params: Any) -> Touches:
        hook = self._hooks.get("touches")
        if hook is None:
            return super().touches(params)
        return tuple(cast("Iterable[Touch]", hook(params))) if callable(hook) else cast("Touches", hook)

    def touches_in(self, params: Any, session: Session | None) -> Touches:
        hook = self._hooks.get("touches_in")
        return tuple(hook(params, session)) if hook else self.touches(params)

    def only_reads(self, params: Any) -> bool:
        hook = self._hooks.get("only_reads")
        return bool(hook(params)) if hook else False

    def refusal_in(self, params: Any, session: Session) -> ToolError | None:
        hook = self._hooks.get("refusal_in")
        return hook(params, session) if hook else None

    def signature(self, params: Any) -> str:
        if hook := self._hooks.get("signature"):
            return hook(params)
        return self.signature_in(params, None) if "signature_in" in self._hooks else super().signature(params)

    def signature_in(self, params: Any, session: Session | None) -> str:
        hook = self._hooks.get("signature_in")
        return hook(params, session) if hook else self.signature(params)

    def abstract_rule(self, params: Any) -> str:
        if hook := self._hooks.get("abstract_rule"):
            return hook(params)
        with_session = "abstract_rule_in" in self._hooks
        return self.abstract_rule_in(params, None) if with_session else super().abstract_rule(params)

    def abstract_rule_in(self, params: Any, session: Session | None) -> str:
        hook = self._hooks.get("abstract_rule_in")
        return hook(params, session) if hook else self.abstract_rule(params)

    def check(self, params: Any) -> Iterable[Problem] | None:
        hook = self._hooks.get("check")
        return hook(params) if hook else ()

    def render(self, value: Any) -> str | None:
        hook = self._hooks.get("render")
        return hook(value) if hook else None

    def display(self, value: Any) -> str | None:
        hook = self._hooks.get("display")
        return hook(value) if hook else None
