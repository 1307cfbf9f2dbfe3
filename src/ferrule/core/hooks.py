"""What a tool made without a class says of its calls: the methods that a class would override, as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ferrule.core.tool import Style, Tool, ToolOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ferrule.core.access import Touch, Touches
    from ferrule.core.context import Session
    from ferrule.core.problems import Problem


class HookedOptions(ToolOptions, total=False):
    """A tool's options and hooks. Each hook gets the parameters, or for `render` and `display` the value.

    `touches_in` gets the session too, which may be None while it is not known.
    """

    touches: Callable[[Any], Iterable[Touch]] | Touches
    touches_in: Callable[[Any, Session | None], Iterable[Touch]]
    signature: Callable[[Any], str]
    abstract_rule: Callable[[Any], str]
    check: Callable[[Any], Iterable[Problem]]
    render: Callable[[Any], str]
    display: Callable[[Any], str]


_HOOKS = ("touches", "touches_in", "signature", "abstract_rule", "check", "render", "display")


class HookedTool(Tool[Any]):
    """A tool whose say comes from hooks."""

    def _settle_with_hooks(self, name: str, options: Mapping[str, Any], style: Style) -> None:
        self._hooks: dict[str, Any] = {key: options[key] for key in _HOOKS if options.get(key) is not None}
        self._settle(name, {key: value for key, value in options.items() if key not in _HOOKS}, style)
        self.has_check = "check" in self._hooks
        self.has_touches = "touches" in self._hooks or "touches_in" in self._hooks
        self.has_signature = "signature" in self._hooks
        self.has_words = "render" in self._hooks or "display" in self._hooks

    def touches(self, params: Any) -> Touches:
        hook = self._hooks.get("touches")
        if hook is None:
            return super().touches(params)
        return tuple(cast("Iterable[Touch]", hook(params))) if callable(hook) else cast("Touches", hook)

    def touches_in(self, params: Any, session: Session | None) -> Touches:
        hook = self._hooks.get("touches_in")
        return tuple(hook(params, session)) if hook else self.touches(params)

    def signature(self, params: Any) -> str:
        hook = self._hooks.get("signature")
        return hook(params) if hook else super().signature(params)

    def abstract_rule(self, params: Any) -> str:
        hook = self._hooks.get("abstract_rule")
        return hook(params) if hook else super().abstract_rule(params)

    def check(self, params: Any) -> Iterable[Problem]:
        hook = self._hooks.get("check")
        return hook(params) if hook else ()

    def render(self, value: Any) -> str | None:
        hook = self._hooks.get("render")
        return hook(value) if hook else None

    def display(self, value: Any) -> str | None:
        hook = self._hooks.get("display")
        return hook(value) if hook else None
