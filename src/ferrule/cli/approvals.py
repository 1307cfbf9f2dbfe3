"""`ferrule approvals`: decide what the service's calls wait for, on its database or over HTTP."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ferrule.cli.options import PlainError, json_option
from ferrule.cli.output import write, write_json
from ferrule.cli.tenants import in_store, show_all, store_options
from ferrule.cli.words import _, said_of
from ferrule.service.vocabulary import APPROVAL_STATUSES

if TYPE_CHECKING:
    from collections.abc import Generator

    from ferrule.client import Client
    from ferrule.service.vocabulary import ApprovalDecision, ApprovalScope

KEY_VARIABLE = "FERRULE_API_KEY"
_SHOWN = ("id", "summary", "warning", "reason", "tool", "user", "call", "status", "decided_by", "decision_reason")


approvals_command = click.Group(
    "approvals",
    help=_("List, show and decide the approvals that calls of `ferrule serve` wait for."),
    epilog=_("Works on the service's database, or with --url on a running service, as the key in FERRULE_API_KEY."),
)


def _place_options(command: Any) -> Any:
    """Where the approvals are: the database, or a service by its URL."""
    url = click.option("--url", metavar="URL", help=_("Ask the service at this URL instead of its database."))
    return store_options(url(command))


def _decider_option(command: Any) -> Any:
    return click.option(
        "--as", "user", default="admin", show_default=True, help=_("The user who decides; with --url it is the key's.")
    )(command)


@approvals_command.command("list", help=_("List the approvals of a tenant, newest first."))
@click.option("--status", type=click.Choice(APPROVAL_STATUSES), default="pending", show_default=True)
@json_option
@_place_options
def list_command(database: str | None, tenant: str, url: str | None, status: str, as_json: bool = False) -> None:
    if url is not None:
        with _service(url) as client:
            tenant = client.me().tenant
            found = [one.model_dump(mode="json") for one in client.approvals(status=status)]
    else:
        with in_store(database, tenant) as (connection, _store):
            from ferrule.service.approvals import list_approvals
            from ferrule.service.documents import approval_document

            found = [approval_document(row, listed=True) for row in list_approvals(connection, tenant, status=status)]
    columns = ("id", "user", "summary", "created_at", "expires_at")
    nothing = _("There are no approvals with the status `{status}`.").format(status=status)
    show_all({"approvals": found}, columns, as_json, nothing, tenant)


@approvals_command.command("show", help=_("Show an approval: what would run, with which arguments, and why it asks."))
@click.argument("approval")
@json_option
@_place_options
def show_command(database: str | None, tenant: str, url: str | None, approval: str, as_json: bool = False) -> None:
    if url is not None:
        with _service(url) as client:
            document = client.approval(approval).model_dump(mode="json")
    else:
        with in_store(database, tenant) as (connection, _store):
            from ferrule.service.approvals import find_approval
            from ferrule.service.documents import approval_document

            row = find_approval(connection, tenant, approval)
            if row is None:
                raise PlainError(_no_such(approval))
            document = approval_document(row)
    _show(document, as_json)


@approvals_command.command("approve", help=_("Let a call run, with the arguments that `show` shows and no others."))
@click.argument("approval")
@click.option("--always", is_flag=True, help=_("Add the rule that `show` shows to the user's own."))
@click.option("--reason", default="", help=_("Why; it is kept with the decision."))
@json_option
@_decider_option
@_place_options
def approve_command(
    database: str | None, tenant: str, url: str | None, user: str, approval: str, always: bool, reason: str,
    as_json: bool = False,
) -> None:  # fmt: skip
    scope: ApprovalScope = "always" if always else "once"
    document = _decide(database, tenant, url, user, approval, "approve", scope, reason)
    _report(document, _("Approved: {summary}"), as_json)
    if always and document["scope"] != "always" and not as_json:
        write(_("No rule can cover this, so it was approved this once."), err=True)


@approvals_command.command("deny", help=_("Keep a call from running; the model is told why."))
@click.argument("approval")
@click.option("--reason", default="", help=_("Why; the model is told."))
@json_option
@_decider_option
@_place_options
def deny_command(
    database: str | None, tenant: str, url: str | None, user: str, approval: str, reason: str, as_json: bool = False
) -> None:
    document = _decide(database, tenant, url, user, approval, "deny", "once", reason)
    _report(document, _("Denied: {summary}"), as_json)


def _no_such(approval: str) -> str:
    return _("There is no approval `{approval}`. `ferrule approvals list` lists them.").format(approval=approval)


def _decide(
    database: str | None, tenant: str, url: str | None, user: str, approval: str,
    decision: ApprovalDecision, scope: ApprovalScope, reason: str,
) -> dict[str, Any]:  # fmt: skip
    if url is not None:
        with _service(url) as client:
            found = client.approval(approval)
            made = client.approve(found, scope=scope, reason=reason) if decision == "approve" else client.deny(
                found, reason=reason
            )  # fmt: skip
        return made.model_dump(mode="json")

    with in_store(database, tenant, writes=True) as (connection, store):
        from ferrule.policy import RulePolicy
        from ferrule.registry.registry import Registry
        from ferrule.service.access import Allowed
        from ferrule.service.approvals import ApprovalProblem, decide_approval
        from ferrule.service.directory import find_user, read_principal
        from ferrule.service.documents import approval_document

        find_user(connection, tenant, user)
        principal = read_principal(connection, tenant, user)
        if principal is None:
            raise PlainError(_("The user `{user}` or the tenant is switched off.").format(user=user))
        allowed = Allowed(principal, Registry(), RulePolicy([]), {})
        try:
            row = decide_approval(
                connection, store, principal, allowed, approval, decision=decision, args_hash=None, scope=scope,
                reason=reason,
            )  # fmt: skip
        except ApprovalProblem as problem:
            if problem.kind == "not_found":
                raise PlainError(_no_such(approval)) from None
            if problem.kind == "forbidden":
                words = _("The roles of `{user}` do not allow that decision. Name another user with --as.")
                raise PlainError(words.format(user=user)) from None
            raise PlainError(said_of(problem)) from None
    return approval_document(row)


@contextmanager
def _service(url: str) -> Generator[Client]:
    """A client of a running service; what it refuses is said in one line."""
    from ferrule.client import Client, ServiceError, UnreachableError

    key = os.environ.get(KEY_VARIABLE, "")
    if not key:
        words = _("--url needs an API key of the service in {variable}. `ferrule keys create` makes one.")
        raise PlainError(words.format(variable=KEY_VARIABLE))
    if not url.startswith(("http://", "https://")):
        raise PlainError(_("`{url}` is not a URL of a service. Write it as http://127.0.0.1:8760.").format(url=url))
    with Client(url, key) as client:
        try:
            yield client
        except ServiceError as error:
            raise PlainError(error.problem.detail) from None
        except UnreachableError as error:
            raise PlainError(said_of(error)) from None


def _show(document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        write_json(document)
        return
    for name in _SHOWN:
        if document[name]:
            write(f"{name.replace('_', ' ')}: {document[name]}")
    if document["rule"]:
        write(_("rule for --always: {rule}").format(rule=document["rule"]))
    write(_("created: {created}, expires: {expires}").format(
        created=document["created_at"], expires=document["expires_at"]
    ))  # fmt: skip
    write(_("arguments:"))
    write(json.dumps(document["arguments"], indent=2, ensure_ascii=False))
    if document["preview"]:
        write(document["preview"])
    if document["effects"]:
        write(_("effects when it was tried:"))
        write(json.dumps(document["effects"], indent=2, ensure_ascii=False))


def _report(document: dict[str, Any], words: str, as_json: bool) -> None:
    if as_json:
        write_json(document)
    else:
        write(words.format(summary=document["summary"]))
