"""Where a provider is reached, and what went wrong there: a `ModelFault` with words for a person.

Providers say the same things in many ways: by status, by a code in the body, or in the message alone. Where a try may
be repeated, the error comes inside `TryAgain`.
"""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ferrule.core.model import ModelError, ModelFault
from ferrule.core.phrases import Phrase, glued, joined, phrase
from ferrule.core.secrets import REDACTED, redact_text
from ferrule.core.shown_text import flattened

if TYPE_CHECKING:
    from collections.abc import Mapping


_SHORTEST_KEY = 4  # shorter ones stand in ordinary words


def host_of(url: str) -> str:
    """The machine that an address names; `?` for what is no address."""
    try:
        return urlsplit(url).hostname or "?"
    except ValueError:
        return "?"


@dataclass(slots=True, frozen=True)
class Endpoint:
    """One provider's address. `label` is its name for people, `key_from` says where the key was found."""

    provider: str
    label: str
    base_url: str
    key: str = field(default="", repr=False)
    key_from: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def host(self) -> str:
        """The machine alone; a whole address may hold a secret."""
        return host_of(self.base_url)

    @property
    def is_local(self) -> bool:
        """Whether it is this machine, which no proxy reaches."""
        from ferrule.core.http_fetch import is_local

        return is_local(self.host)

    def url(self, path: str) -> str:
        return f"{self.base_url.rstrip('/')}/{path.lstrip('/')}"

    def clean(self, text: str) -> str:
        """Words that came from outside, without this endpoint's key and what else looks like a secret."""
        if isinstance(text, Phrase):
            return text.mapped(self.clean)
        for secret in (self.key, *self.headers.values()):
            if len(secret) >= _SHORTEST_KEY:
                text = text.replace(secret, REDACTED)
        return redact_text(text)


# When to try again, and after how long: what the server asks for, else a back-off with full jitter.


@dataclass(slots=True, frozen=True)
class Tries:
    """How often, and how long between: up to `first` seconds, doubled each time, at most `longest`.

    A server that asks for more than `patience` seconds is not waited for.
    """

    most: int = 5
    first: float = 1.0
    longest: float = 30.0
    patience: float = 90.0

    def wait(self, attempt: int, asked: float | None, jitter: float | None = None) -> float | None:
        """Seconds before the try after `attempt`; None when there is none. `jitter` is between 0 and 1."""
        if attempt >= self.most:
            return None
        jitter = random.random() if jitter is None else jitter  # noqa: S311 - spreads load, protects nothing
        if asked is not None:
            # Never sooner than asked, and not all clients in the same instant.
            return None if asked > self.patience else asked + jitter * min(1.0, 0.1 * asked)
        return jitter * min(self.longest, self.first * 2 ** (attempt - 1))


PATIENT = Tries()


def wait_asked(headers: Mapping[str, str], body: bytes = b"", now: datetime | None = None) -> float | None:
    """Seconds a server asks to wait: `retry-after-ms`, `Retry-After` in seconds or as a date, or Google's RetryInfo."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        seconds = _number(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    if written := headers.get("retry-after"):
        from email.utils import parsedate_to_datetime

        try:
            when = parsedate_to_datetime(written)
        except ValueError:
            return _from_body(body)
        when = when if when.tzinfo else when.replace(tzinfo=UTC)
        return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())
    return _from_body(body)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None  # `nan` is neither


def _from_body(body: bytes) -> float | None:
    if b"RetryInfo" not in body:
        return None
    try:
        loaded: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    from ferrule.dialects.payload import an_item, items, words

    first = next(iter(items(loaded)), an_item(loaded))  # Gemini's own stream wraps even its errors
    for detail in items(an_item(first.get("error")).get("details")):
        delay = words(detail.get("retryDelay"))
        if delay.endswith("s"):
            return _number(delay[:-1])
    return None


_MAY_PASS = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
_MOST_WORDS = 400

_NO_MONEY = re.compile(
    r"insufficient[_ ](?:quota|balance|credit|funds)|credit balance|out of credits?|exceeded your current quota"
    r"|billing[_ ](?:hard[_ ]limit|not[_ ]active)|payment required|arrear|recharge|余额不足|欠费",
    re.IGNORECASE,
)
# The free tier of Gemini calls a limit that passes «your current quota» too; it says when to come back.
_PASSES = re.compile(r"retry in|try again in|per[_ -]?(?:minute|day|second)|RetryInfo", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"context[_ ](?:length|window|size)|maximum context|prompt is too long|too many (?:input )?tokens|input is too long"
    r"|input token count|exceed_context_size|request_too_large|longer than the (?:model|maximum)|reduce the length",
    re.IGNORECASE,
)
_BAD_KEY = re.compile(
    r"api[_ ]key[_ ](?:not valid|invalid)|invalid (?:api|x-api|authentication)[_ -]?key|incorrect api key"
    r"|invalid_api_key|API_KEY_INVALID|authentication_error|unauthorized|no auth credentials",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model[_ ]not[_ ]found|no such model|model .{0,120}(?:not found|does not exist|is not (?:a valid|supported))"
    r"|unknown model|invalid model|not a valid model|models?/.{0,120} is not found",
    re.IGNORECASE,
)
_NO_TOOLS = re.compile(
    r"does not support (?:tools|function)|tool(?:s| use| calling)? (?:is|are) not supported"
    r"|no endpoints found that support tool|--jinja",
    re.IGNORECASE,
)
# Codes and types that stand for a status where only a body tells.
_STATUS_OF = {
    "overloaded_error": 529, "rate_limit_error": 429, "rate_limit_exceeded": 429, "api_error": 500, "server_error": 500,
    "internal_error": 500, "internal_server_error": 500, "timeout_error": 504, "authentication_error": 401,
    "permission_error": 403, "not_found_error": 404, "request_too_large": 413, "billing_error": 402,
    "invalid_request_error": 400, "engine_overloaded_error": 503, "service_unavailable": 503, "UNAVAILABLE": 503,
    "RESOURCE_EXHAUSTED": 429, "INTERNAL": 500, "DEADLINE_EXCEEDED": 504, "vector_store_timeout": 504,
}  # fmt: skip


class TryAgain(Exception):  # noqa: N818 - not the end of it
    """A try that failed in a way that allows another one. `after` is how long the server asks to wait."""

    def __init__(self, error: ModelError, after: float | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.after = after


class Faults:
    """Makes the errors of one model at one endpoint."""

    def __init__(self, endpoint: Endpoint, model: str) -> None:
        self._endpoint = endpoint
        self._model = model

    def from_status(self, status: int, headers: Mapping[str, str], body: bytes) -> ModelError | TryAgain:
        """The error behind an answer that is no success."""
        said, code = self._said(body)
        return self._judge(status, said, code, wait_asked(headers, body), headers.get("x-should-retry", ""))

    def from_body(self, error: Any) -> ModelError | TryAgain:
        """The error in a body or a stream that began as a success."""
        raw = json.dumps(error, default=str).encode()
        said, code = self._said(raw)
        from ferrule.dialects.payload import an_item

        item = an_item(error)
        item = an_item(item.get("error")) or item
        number = item.get("code") or item.get("status")
        status = number if isinstance(number, int) and 400 <= number < 600 else _STATUS_OF.get(code, 500)
        return self._judge(status, said, code, None, "")

    def garbled(self, what: str) -> TryAgain:
        """An answer that cannot be read; another try may bring a better one."""
        return TryAgain(
            self._error(
                ModelFault.GARBLED,
                phrase("{who} sent an answer that cannot be read: {what}.", who=self._who, what=what),
                phrase(
                    "If it happens again, check that the address of {label} is right and speaks this form.",
                    label=self._endpoint.label,
                ),
            )
        )

    def broken(self, what: str) -> TryAgain:
        """No connection, or one that ended too soon."""
        suggestion = phrase("Check the network and any proxy (HTTPS_PROXY), then try again.")
        if self._endpoint.is_local:
            suggestion = phrase(
                "Check that {label} is running on this machine and has loaded the model.", label=self._endpoint.label
            )
        return TryAgain(
            self._error(ModelFault.UNREACHABLE, phrase("{who}: {what}.", who=self._who, what=what), suggestion)
        )

    def no_connection(self, why: str) -> ModelError | TryAgain:
        """Nobody answered. Another try helps on the way to a far server, not where nothing listens or is trusted."""
        label = self._endpoint.label
        if "CERTIFICATE_VERIFY_FAILED" in why:
            message = phrase("{who} shows a certificate that this machine does not trust.", who=self._who)
            suggestion = phrase("If a proxy of your organisation is in between, name its certificate: SSL_CERT_FILE=…")
            return self._error(ModelFault.UNREACHABLE, message, suggestion)
        if self._endpoint.is_local:
            message = phrase(
                "{label} is not running on this machine, or not at this address ({host}).",
                label=label,
                host=self._endpoint.host,
            )
            return self._error(
                ModelFault.UNREACHABLE,
                message,
                phrase("Start {label}, or choose another model: `ferrule models`.", label=label),
            )
        return self.broken(
            phrase("no connection could be made ({why})", why=flattened(why, _MOST_WORDS))
            if why
            else phrase("no connection could be made")
        )

    def bad_address(self) -> ModelError:
        message = phrase("The address of {label} is not a web address.", label=self._endpoint.label)
        return self._error(
            ModelFault.REFUSED, message, phrase("Set a `base_url` that begins with https:// or http://.")
        )

    def bad_header(self) -> ModelError:
        where = self._endpoint.key_from or phrase("the headers in the settings")
        message = phrase(
            "{where} cannot be sent to {label}: it contains characters that no key has.",
            where=where,
            label=self._endpoint.label,
        )
        return self._error(
            ModelFault.KEY, message, phrase("Set it again; a word or a line break may have been copied with it.")
        )

    def bad_environment(self, why: str) -> ModelError:
        message = phrase(
            "The proxy or the certificates that the environment names cannot be used: {why}",
            why=flattened(why, _MOST_WORDS),
        )
        suggestion = phrase(
            "Check HTTPS_PROXY, ALL_PROXY and SSL_CERT_FILE; for a SOCKS proxy: pip install 'httpx2[socks]'."
        )
        return self._error(ModelFault.UNREACHABLE, message, suggestion)

    def page(self) -> ModelError:
        """A web page where an answer was expected: a proxy's, or a wrong address."""
        return self._error(
            ModelFault.GARBLED,
            phrase("{who} answered with a web page, not as a model does.", who=self._who),
            phrase(
                "Check the address of {label} (`base_url`), and that no proxy or login page is in between.",
                label=self._endpoint.label,
            ),
        )

    # Judging

    def _judge(self, status: int, said: str, code: str, after: float | None, retry: str) -> ModelError | TryAgain:
        label, text = self._endpoint.label, f"{said} {code}"
        quoted = phrase(": {said}", said=said) if said else phrase(".")
        about = {"label": label, "model": self._model, "status": status, "quoted": quoted}
        if status == 402 or (_NO_MONEY.search(text) and not (status == 429 and _PASSES.search(said))):
            return self._error(
                ModelFault.MONEY,
                phrase("{label} says that there is no credit left ({status}){quoted}", **about),
                phrase(
                    "Add credit to your account at {label}, or choose another model: `ferrule models`.", label=label
                ),
                status,
            )
        if status == 401 or (status in (400, 403) and _BAD_KEY.search(text)):
            where = self._endpoint.key_from
            which = phrase("the key from {where}", where=where) if where else phrase("a request without a key")
            suggestion = phrase("Check {where}: it may be mistyped, expired or for another service.", where=where)
            if not where:
                suggestion = phrase(
                    "Give a key for {label}; `ferrule models` says where it is looked for.", label=label
                )
            message = phrase("{label} did not accept {which} ({status}){quoted}", which=which, **about)
            return self._error(ModelFault.KEY, message, suggestion, status)
        if status == 413 or (status in (400, 422, 500) and _TOO_LONG.search(text)):
            return self._error(
                ModelFault.TOO_LONG,
                phrase("The conversation is too long for {model} ({status}){quoted}", **about),
                phrase("Make it shorter (/compact or /clear in a chat), or choose a model with a larger context."),
                status,
            )
        if status in (400, 404, 422) and (_NO_MODEL.search(text) or status == 404):
            suggestion = phrase("`ferrule models` lists what {label} offers.", label=label)
            if not said:
                suggestion = joined(" ", [suggestion, phrase("If you set its address yourself, check that, too.")])
            elif self._endpoint.provider == "ollama":
                suggestion = phrase("Fetch it first: ollama pull {model}", model=self._model)
            message = phrase("{label} has no model `{model}` ({status}){quoted}", **about)
            return self._error(ModelFault.NOT_FOUND, message, suggestion, status)
        if status in _MAY_PASS or status >= 500 or retry == "true":
            fault, what = ModelFault.BUSY, phrase("{label} is overloaded", label=label)
            suggestion = phrase("Wait a little and try again, or choose another model: `ferrule models`.")
            if status in (409, 429):
                what = phrase("{label} is getting too many requests", label=label)
            elif status not in (503, 529):
                fault, what = ModelFault.UNREACHABLE, phrase("{label} failed to answer", label=label)
                suggestion = phrase("Try again later; the problem is on the side of {label}.", label=label)
            error = self._error(fault, phrase("{what} ({status}){quoted}", what=what, **about), suggestion, status)
            return error if retry == "false" else TryAgain(error, after)
        if status == 403:
            return self._error(
                ModelFault.REFUSED,
                phrase("{label} does not allow this request (403){quoted}", **about),
                phrase("The key may lack access to this model, or the model is not offered where you are."),
                status,
            )
        if 300 <= status < 400:
            return self._error(
                ModelFault.REFUSED,
                phrase(
                    "{label} redirects the request ({status}), which is not followed: the key would be sent along.",
                    **about,
                ),
                phrase("Set the right `base_url` for {label}.", label=label),
                status,
            )
        suggestion = phrase("Choose another model (`ferrule models`), or change what is asked for.")
        if _NO_TOOLS.search(text):
            suggestion = phrase(
                "{model} cannot call tools as it is served. Choose another model: `ferrule models`.", model=self._model
            )
        return self._error(
            ModelFault.REFUSED,
            phrase("{label} does not accept the request ({status}){quoted}", **about),
            suggestion,
            status,
        )

    # Words

    @property
    def _who(self) -> str:
        return f"{self._endpoint.label} ({self._endpoint.host})"

    def _error(self, fault: ModelFault, message: str, suggestion: str, status: int | None = None) -> ModelError:
        if not message.endswith((".", "?", "!", "。")):
            message = glued(message, phrase("."))
        return ModelError(fault, self._endpoint.clean(message), suggestion=suggestion, status=status)

    def _said(self, body: bytes) -> tuple[str, str]:
        """The provider's own words, short and on one line, and the code that goes with them."""
        try:
            loaded: Any = json.loads(body)
        except (ValueError, RecursionError):
            text = body[:4096].decode("utf-8", "replace")
            return ("", "") if text.lstrip()[:1] == "<" else (flattened(text, _MOST_WORDS), "")
        from ferrule.dialects.payload import an_item, items, words

        item = next(iter(items(loaded)), an_item(loaded))  # Gemini's own stream wraps even its errors
        error = item.get("error")
        if isinstance(error, str):
            return flattened(error, _MOST_WORDS), words(item.get("code"))
        inner = an_item(error) or item
        said = words(inner.get("message")) or words(inner.get("detail"))
        detail = an_item(an_item(inner.get("metadata")).get("raw")) or an_item(inner.get("metadata"))
        said = words(detail.get("raw")) or said  # OpenRouter hides the real words of who it asked
        if not said and inner:
            said = json.dumps(inner, ensure_ascii=False, default=str)
        code = words(inner.get("code")) or words(inner.get("type")) or words(inner.get("status"))
        return flattened(said, _MOST_WORDS), code
