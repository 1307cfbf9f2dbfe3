"""Tools that a model drafts for a tenant (M4): tried in a box, accepted as an approval, and run in a box at each call.

An accepted draft is an intent of its tenant: it is stored, versioned, listed, switched off and kept from others as
those are. Nothing of it is ever loaded in this process, before or after it was accepted.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from ferrule.builtin.boxed_draft import call_draft
from ferrule.builtin.draft_tool import DraftParams, DraftTool, Trial, plain_examples, shown_draft, tried
from ferrule.core.access import writes
from ferrule.core.call import CallInfo
from ferrule.core.errors import ErrorKind, ToolError
from ferrule.core.result import Output
from ferrule.plugins.drafts import DRAFT_TOOL, Draft, DraftProblem, read_draft
from ferrule.service.directory import DirectoryProblem
from ferrule.service.intent_handlers import HandlerError, HandlerOptions, IntentHandler
from ferrule.service.intents import IntentTool, tool_name
from ferrule.service.messages import IntentBody

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ferrule.core.context import Session, ToolContext
    from ferrule.core.tool import Kind
    from ferrule.registry.registry import Registry
    from ferrule.service.intent_handlers import IntentCall, KnownThings
    from ferrule.service.intents import IntentWorld

_LONGEST_NAME = 48
_LONGEST_DESCRIPTION = 2000


class DraftOptions(HandlerOptions):
    """A draft as it was accepted."""

    code: str
    examples: list[dict[str, Any]]


class DraftHandler(IntentHandler[DraftOptions]):
    """Runs a drafted tool: a process in a closed box for each call, without network, in the caller's own folder."""

    type = "draft"
    options = DraftOptions

    def kind(self, options: DraftOptions) -> Kind:
        return _read(options).kind

    def check(self, options: DraftOptions, parameters: Mapping[str, Any], known: KnownThings) -> None:
        raise HandlerError(f"A handler of type `draft` is made with `{DRAFT_TOOL}`, which tries it and asks.")

    async def run(self, options: DraftOptions, call: IntentCall) -> Any:
        draft = _read(options)
        return await call_draft(draft.name, draft.text, call.inputs, call.context.session, draft.kind, closed=True)


def _read(options: DraftOptions) -> Draft:
    try:
        return read_draft(options.code, options.examples)
    except DraftProblem as problem:
        raise HandlerError(str(problem)) from None


class TenantDraftTool(DraftTool):
    """Write a new tool that everyone in the tenant can call from then on, once it was approved.

    Use this when the same work will come up again and no tool does it, or when the user asks for a tool.

    Usage notes:
        - Every parameter and the result have a type; the docstring says in its first sentences what the tool does and
          when to use it, and describes each parameter under `Args:`.
        - `kind` is "readonly" if it changes nothing, "write" if it changes files, "execute" if it does more. It is
          checked: what a run changes is seen.
        - Only the standard library and installed packages can be imported. The tool runs in the caller's folder, in a
          box without network.
        - If the draft is not accepted the result says why; fix it and call this again, at most three times.
    """

    needs = frozenset({"tenant", "user"})

    def __init__(self, registry: Registry, world: IntentWorld) -> None:
        super().__init__(registry)
        self._world = world

    def describe(self, params: DraftParams, session: Session) -> CallInfo:
        draft = self._draft(params, session)
        return CallInfo(
            touches=writes("intent", draft.name),
            signature=f"{draft.name} {sha256(draft.text.encode()).hexdigest()[:16]}",
            summary=f"{DRAFT_TOOL} {draft.name}: {params.description}",
            asks_always=True,
        )

    async def run(self, params: DraftParams, context: ToolContext) -> Output[Any]:
        draft = self._draft(params, context.session)
        trial = await self._tried(draft, context.session)
        body = self._body(params, draft, trial)
        caller = context.caller
        try:
            made = await self._world.store(draft.name, body, caller.tenant or "", caller.user or "")
        except DirectoryProblem as problem:
            raise ToolError(f"The draft `{draft.name}` was not stored. {problem.message}") from None
        place = made["tool"]
        return Output(
            {"name": place, "version": str(made["version"]), "kind": draft.kind.value},
            llm_content=f"Accepted: version {made['version']} of `{place}` ({draft.kind}) can be called now.",
        )

    async def _tried(self, draft: Draft, session: Session) -> Trial:
        """Try it as the caller; raises `ToolError` where it cannot become a tool of the tenant."""
        allowed = await self._world.allowed()
        row = next((one for one in allowed.principal.intents if one.code == draft.name), None)
        if row is not None and IntentBody.model_validate_json(row.definition).handler.get("type") != DraftHandler.type:
            raise ToolError(
                f"There is an intent `{draft.name}` already, which is not a draft.",
                kind=ErrorKind.VALIDATION,
                suggestion="Give the function another name.",
            )
        return await tried(draft, session, closed=True)

    def _shown(self, draft: Draft, trial: Trial, session: Session) -> str:
        place = f"{tool_name(draft.name)}, for everyone in the tenant"
        return shown_draft(draft, trial, place, session, closed=True)

    def _draft(self, params: DraftParams, session: Session) -> Draft:
        draft = read_draft(params.code, plain_examples(params))
        if len(draft.name) > _LONGEST_NAME:
            raise ToolError(
                f"`{draft.name}` is too long a name: {_LONGEST_NAME} characters at most.", kind=ErrorKind.VALIDATION
            )
        return draft

    def _body(self, params: DraftParams, draft: Draft, trial: Trial) -> IntentBody:
        """The draft as an intent. What its process said of it is held to what every intent is held to."""
        described = draft.description or params.description
        options = {"code": draft.code, "examples": list(draft.examples)}
        try:
            body = IntentBody(
                description=str(described)[:_LONGEST_DESCRIPTION],
                parameters=trial.definition.get("inputSchema") or {},
                handler={"type": DraftHandler.type, **options},
            )
            tool = IntentTool(draft.name, 1, body, self._world)
            tool.lint()
        except (ValidationError, HandlerError, ValueError) as error:
            raise ToolError(f"The draft `{draft.name}` cannot be a tool here: {error}") from None
        if tool.fault:
            raise ToolError(f"The draft `{draft.name}` cannot be a tool here: {tool.fault}")
        return body
