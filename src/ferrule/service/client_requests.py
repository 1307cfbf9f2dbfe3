"""What `ferrule.client` sends and reads, for both of its clients: requests, answers, errors and events."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

from ferrule.service.messages import (
    LONGEST_WAIT,
    ApprovalRecord,
    Batch,
    NewApiKey,
    ProblemDetails,
    RequestAnswer,
    StoredCall,
    TenantRole,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import httpx2

_M = TypeVar("_M", bound=BaseModel)


class ServiceError(Exception):
    """The service refused a request; `problem` says why. A tool's own failure is a call and raises nothing."""

    def __init__(self, problem: ProblemDetails, retry_after: float | None, call: str | None) -> None:
        super().__init__(f"{problem.detail} ({problem.status} {problem.code}, request {problem.request_id})")
        self.problem = problem
        self.status = problem.status
        self.code = problem.code
        self.retry_after = retry_after
        self.call = call
        """The call that this is about, where there is one: of the first request with the same key."""


class Unreachable(Exception):  # noqa: N818 - reads as what it says
    """The service did not answer."""


class NoContent(BaseModel):
    """The body of an answer that has none."""


@dataclass(slots=True, frozen=True)
class ApiRequest(Generic[_M]):
    """One request, whoever sends it."""

    method: str
    path: str
    answer: type[_M]
    body: Mapping[str, Any] | None = None
    query: Mapping[str, Any] = field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def sent(self) -> dict[str, Any]:
        """As httpx takes it."""
        query = {name: value for name, value in self.query.items() if value is not None}
        return {"params": query or None, "json": self.body, "headers": dict(self.headers)}

    @property
    def can_be_repeated(self) -> bool:
        return self.method in ("GET", "PUT", "DELETE") or "Idempotency-Key" in self.headers

    def read(self, response: httpx2.Response) -> _M:
        if response.status_code >= 400:
            raise error_of(response.status_code, response.content, response.headers)
        return self.answer.model_validate_json(response.content or b"{}")


def error_of(status: int, content: bytes, headers: Mapping[str, str]) -> ServiceError:
    document: dict[str, Any] = {}
    try:
        document = json.loads(content)
        problem = ProblemDetails.model_validate(document)
    except ValueError:  # something between here and the service answered
        problem = ProblemDetails(
            type="about:blank", title="Error", status=status, detail=f"The answer was {status}.", code="foreign",
            request_id=headers.get("x-request-id", "-"),
        )  # fmt: skip
    after = headers.get("retry-after", "")
    return ServiceError(problem, float(after) if after.isdigit() else None, document.get("call"))


# Requests


def given(**given: Any) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def call_request(
    tool: str, arguments: Mapping[str, Any] | str | None, *, version: str | None, session: str | None,
    timeout: float | None, metadata: Mapping[str, str] | None, key: str | None, wait: float | None,
) -> ApiRequest[StoredCall]:  # fmt: skip
    body = given(
        tool=tool, arguments=arguments if arguments is not None else {}, version=version, session=session,
        timeout=timeout, metadata=dict(metadata) if metadata else None,
    )  # fmt: skip
    return ApiRequest("POST", "/v1/calls", StoredCall, body, headers=request_headers(key, wait))


def batch_request(
    calls: Sequence[Mapping[str, Any]], session: str | None, key: str | None, wait: float | None
) -> ApiRequest[Batch]:
    body = given(calls=[dict(one) for one in calls], session=session)
    return ApiRequest("POST", "/v1/calls/batch", Batch, body, headers=request_headers(key, wait))


def words_request(
    text: str | None, intent: str | None, inputs: Mapping[str, Any] | None = None, *, session: str | None,
    locale: str = "", time_zone: str | None = None, cache: bool = True, key: str | None, wait: float | None,
) -> ApiRequest[RequestAnswer]:  # fmt: skip
    body = given(
        text=text, intent=intent, inputs=dict(inputs) if inputs else None, session=session, locale=locale or None,
        time_zone=time_zone, cache=None if cache else False,
    )  # fmt: skip
    return ApiRequest("POST", "/v1/requests", RequestAnswer, body, headers=request_headers(key, wait))


def request_headers(key: str | None, wait: float | None) -> dict[str, str]:
    seconds = LONGEST_WAIT if wait is None else min(max(wait, 0.0), LONGEST_WAIT)
    return {"Idempotency-Key": key or uuid.uuid4().hex, "Prefer": f"wait={seconds:g}"}


def decision_request(approval: ApprovalRecord, decision: str, scope: str, reason: str) -> ApiRequest[ApprovalRecord]:
    body = {"decision": decision, "args_hash": approval.args_hash, "scope": scope, "reason": reason}
    return ApiRequest("POST", f"/v1/approvals/{approval.id}/decision", ApprovalRecord, body)


def key_request(
    user: str, name: str, scopes: Sequence[str] | None, expires_in: float | None, limits: Mapping[str, Any] | None,
    tenant: str | None,
) -> ApiRequest[NewApiKey]:  # fmt: skip
    body = given(
        user=user, name=name, scopes=list(scopes) if scopes is not None else None, expires_in=expires_in,
        limits=dict(limits) if limits else None, tenant=tenant,
    )  # fmt: skip
    return ApiRequest("POST", "/v1/keys", NewApiKey, body)


def role_request(
    name: str, mode: str | None, allow: Sequence[str], ask: Sequence[str], deny: Sequence[str]
) -> ApiRequest[TenantRole]:
    body = {"mode": mode, "allow": list(allow), "ask": list(ask), "deny": list(deny)}
    return ApiRequest("PUT", f"/v1/roles/{name}", TenantRole, body)


def seconds_left(until: float | None) -> float:
    return LONGEST_WAIT if until is None else min(LONGEST_WAIT, max(0.0, until - monotonic()))


class EventLines(Generic[_M]):
    """Puts the lines of a stream together to events."""

    def __init__(self, form: type[_M], last: str = "") -> None:
        self._form = form
        self._data: list[str] = []
        self.last = last
        """The id that came last, also where no event came with it."""

    def add(self, line: str) -> _M | None:
        """The event that this line ends, if it does."""
        if line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))
        elif line.startswith("id:"):
            self.last = line[3:].strip()
        elif not line and self._data:
            data, self._data = "\n".join(self._data), []
            return self._form.model_validate_json(data)
        return None


def resumed(last: str) -> dict[str, str]:
    """The head of a request for events after one."""
    return {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}


def stream_of(request: ApiRequest[StoredCall] | None, call: str, after: int) -> tuple[str, str, dict[str, Any]]:
    if request is not None:
        sent = request.sent
        sent["headers"]["Accept"] = "text/event-stream"
        return request.method, request.path, sent
    headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
    return "GET", f"/v1/calls/{call}/events", {"headers": headers}
