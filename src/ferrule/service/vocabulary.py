"""The words that a service's messages, store, forms and commands share. It imports no validator, so that a command's
help is quick.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Finished: TypeAlias = Literal["succeeded", "failed", "cancelled", "expired", "lost"]
Status: TypeAlias = Literal["queued", "awaiting_approval", "awaiting_result", "running", Finished]
"""How far a call is."""
STATUSES: tuple[Status, ...] = get_args(Status)
FINISHED: frozenset[str] = frozenset(get_args(Finished))

ApprovalStatus: TypeAlias = Literal["pending", "approved", "denied", "expired", "cancelled"]
APPROVAL_STATUSES: tuple[ApprovalStatus, ...] = get_args(ApprovalStatus)
ApprovalDecision: TypeAlias = Literal["approve", "deny"]
ApprovalScope: TypeAlias = Literal["once", "always"]

Scope: TypeAlias = Literal["tools", "calls", "approvals", "admin"]
"""What a key is for."""
SCOPES: tuple[Scope, ...] = get_args(Scope)
TOKEN_KEY = "oidc"  # noqa: S105 - no password
"""Stands for the key of a call that was made with a token of an issuer; the token's scopes are kept with the call."""

ADMIN = "Admin"
"""The name that rules about administration have in front of their brackets."""
AREAS = (
    "tenants", "users", "roles", "keys", "tools", "calls", "audit", "usage", "metrics", "approve own", "approve others",
    "intents", "cache", "drafts", "plugins",
)  # fmt: skip
"""What can be in the brackets: `Admin(keys)`, `Admin(approve *)`; `Admin` alone is all of it."""
