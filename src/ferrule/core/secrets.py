"""Secrets, found and taken out: by the name they stand under and by the shape they have.

Two functions: `redact_value` for arguments (any JSON-like value), `redact_text` for words (an error, a
command, a log line). Both only ever replace; they cannot prove that nothing secret is left. Every pattern is
linear in the length of the text, and is compiled when a text first contains what it looks for.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from ferrule.core.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

REDACTED = "[redacted]"

# A value that is deeper or larger than this is cut, so that a hostile one cannot exhaust the stack or the
# memory.
MAX_DEPTH = 64
MAX_PARTS = 100_000
TOO_DEEP = "[nested too deep]"
TOO_LARGE = "[too large]"

# Names. A key is compared as words (`X-Api-Key`, `apiKey` and `API_KEY` are all "api key") and as one flat
# word.

_SECRET_WORDS = frozenset({
    "password", "passwd", "passphrase", "passcode", "pwd", "secret", "secrets", "cookie", "cookies",
    "credential", "credentials", "authorization", "authorisation", "bearer", "jwt", "otp", "pin", "cvv",
})  # fmt: skip
# Only as the last word: `access_token` is a secret, `token_count` and `tokenizer` are not.
_SECRET_LAST_WORDS = frozenset({"token", "auth"})
# Only for what is not a number: `max_tokens: 4096` is no secret, `tokens: ["a1b2"]` may be.
_SECRET_UNLESS_NUMBER = frozenset({"tokens"})
_SECRET_ANYWHERE = (
    "password", "passwd", "passphrase", "apikey", "accesskey", "privatekey", "secretkey", "signingkey",
    "encryptionkey", "accountkey", "sshkey", "accesstoken", "refreshtoken", "authtoken", "bearertoken",
    "sessiontoken", "idtoken", "clientsecret", "credential", "connectionstring", "proxyauthorization",
    "setcookie", "密码", "密碼", "口令", "密钥", "密鑰", "令牌",
)  # fmt: skip
_WORD = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")


def is_secret_name(name: str, *, number: bool = False) -> bool:
    """Whether what stands under this name is a secret; `number` says that it is a number."""
    found = _secrecy(name if len(name) <= 128 else name[:64] + name[-64:])
    return found == "always" or (found == "unless number" and not number)


@lru_cache(maxsize=2048)
def _secrecy(name: str) -> str:
    words = [word.lower() for word in _WORD.findall(name)]
    flat = "".join(words)
    if not _SECRET_WORDS.isdisjoint(words) or any(part in flat for part in _SECRET_ANYWHERE):
        return "always"
    if words and words[-1] in _SECRET_LAST_WORDS:
        return "always"
    return "unless number" if words and words[-1] in _SECRET_UNLESS_NUMBER else "never"


# Shapes. Each has words that must be there before its pattern is worth trying; most texts stop at that.

_TOKENS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("sk-", "pk-"), r"[sp]k-[A-Za-z0-9_\-]{16,}+"),
    (("sk_", "rk_"), r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}+"),
    (("gh",), r"gh[pousr]_[A-Za-z0-9]{20,}+|github_pat_[A-Za-z0-9_]{20,}+"),
    (("glpat-",), r"glpat-[A-Za-z0-9_\-]{16,}+"),
    # The secret half of an AWS pair has no mark of its own, so it is taken where it follows the id.
    (("AKIA", "ASIA"), r"A[KS]IA[A-Z0-9]{16}(?![A-Z0-9])(?:[\s:,;\"']{1,4}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+]))?"),
    (("xox", "xapp-"), r"(?:xox[abeoprs]|xapp)-[A-Za-z0-9\-]{10,}+"),
    (("AIza",), r"AIza[A-Za-z0-9_\-]{30,}+"),
    (("ya29.",), r"ya29\.[A-Za-z0-9_\-]{20,}+"),
    (("hf_", "npm_"), r"(?:hf|npm)_[A-Za-z0-9]{30,}+"),
    (("pypi-",), r"pypi-[A-Za-z0-9_\-]{30,}+"),
    (("SG.",), r"SG\.[A-Za-z0-9_\-]{16,}+\.[A-Za-z0-9_\-]{16,}+"),
    (("eyJ",), r"eyJ[A-Za-z0-9_\-]{6,}+\.[A-Za-z0-9_\-]{4,}+(?:\.[A-Za-z0-9_\-]*+)?"),
)
_GIVEN = r"(?!\[redacted\])(?:'[^']*+'?|\"[^\"]*+\"?|[^\s'\";&|]++)"
_PRINTED = r"((?:echo|printf)\s+(?:-n\s+)?"
# Words after which a password stands.
_BEFORE_PASSWORD: tuple[tuple[tuple[str, ...], str], ...] = (
    (("htpasswd",), r"htpasswd\s+-\w*b\w*\s+\S{1,256}+\s+\S{1,128}+\s+"),
    (("vault",), r"vault\s+login\s+(?!-)"),
    (("from-literal",), r"--from-literal[ =][^\s=]{1,128}+="),
    (("pass:",), r"pass:(?=\S)"),
)
# Programs that are given a password after a flag that means something else to other programs: the program, the flag.
_OF_PROGRAMS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("mysql", "mariadb"), r"(?:mysql|mariadb)[\w-]{0,20}+", r"-p"),
    (("7z",), r"7z\w?", r"-p"),
    (("login",), r"login", r"-p[ =]{0,2}(?![\s-])"),
    (("sshpass", "twine"), r"(?:sshpass|twine)", r"-p[ =]{0,2}(?![\s-])"),
    (("mongo",), r"mongo\w{0,10}+", r"-p[ =]{0,2}(?![\s-])"),
    (("zip",), r"(?:un)?zip", r"-P\s{0,2}(?![\s-])"),
    (("redis-cli",), r"redis-cli", r"-a\s{0,2}(?![\s-])"),
    (("ldap",), r"ldap\w{1,10}+", r"-w\s{0,2}(?![\s-])"),
    (("smbclient", "rpcclient"), r"(?:smb|rpc)client", r"-U\s{0,2}[^\s%]{1,128}+%"),
    (("curl",), r"curl", r"-b\s{0,2}(?![\s-])"),
    (("secret",), r"secrets?\s+set", r"(?:-b|--body|--value)[ =]{1,2}"),
)
_MOST_BETWEEN = 150
"""Characters between a program and its flag."""
_SHAPES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    # Not `\b`: in Chinese no space comes before a token, and what comes is a letter to `\b`.
    *((hints, f"(?<![A-Za-z0-9])(?:{pattern})", REDACTED) for hints, pattern in _TOKENS),
    (
        # A key block that was cut off is still a key: without its end line it goes on to the end of the text.
        ("-----BEGIN",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[^-]{0,9}-{5}(?:(?!-{5}END)[\s\S])*+(?:-{5}END [A-Z ]*-{5})?",
        REDACTED,
    ),
    (
        ("earer", "EARER", "asic", "ASIC"),
        r"(?i)(?<![a-z0-9])(bearer|basic)(\s{1,4})[a-z0-9_\-.~+/]{8,}+=*+",
        rf"\1\2{REDACTED}",
    ),
    (("://",), r"(://[^\s/:@\"']{0,256}+:)(?!\[redacted\]@)[^\s/\"']{1,512}@", rf"\1{REDACTED}@"),
    (
        ("chpasswd",),
        _PRINTED
        + r"[\"']?[^\s:\"']{1,64}+:)(?!\[redacted\])[^\s\"'|]{1,256}+(?=[\"']?\s{0,4}\|\s{0,4}(?:sudo )?chpasswd)",
        rf"\1{REDACTED}",
    ),
    (
        ("-stdin", "--with-token", "sudo -S", "passphrase-fd"),
        rf"{_PRINTED}){_GIVEN}(?=\s{{0,4}}\|[^\n|]{{0,200}}?(?:-stdin|--with-token|passphrase-fd|sudo\s-S))",
        rf"\1{REDACTED}",
    ),
    *((hints, rf"(?<![\w.-])({before}){_GIVEN}", rf"\1{REDACTED}") for hints, before in _BEFORE_PASSWORD),
    (
        ("-u", "--user"),
        r"(?<!\S)((?:-u|--user)[ =]{0,3}[\"']?[^\s:\"'\[]{1,128}+:)(?!\[redacted\])[^\s\"']{1,512}+",
        rf"\1{REDACTED}",
    ),
)
_SHORT = 256


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


_SHAPE_HINTS = tuple(hint for shape in (*_SHAPES, *_OF_PROGRAMS) for hint in shape[0])


@lru_cache(maxsize=1)
def _any_hint() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, _SHAPE_HINTS)))


def _redact_shapes(text: str) -> str:
    # One pattern with every hint is quickest for the short texts that most are, the loop for long ones.
    if len(text) < _SHORT and not _any_hint().search(text):
        return text
    # Programs first: what the others take out may be the name of one.
    for hints, program, flag in _OF_PROGRAMS:
        for hint in hints:
            if hint in text:
                text = _redact_given(
                    text, _compiled(rf"(?<![\w.-])(?P<program>{program})\s|(?:\s|(?<=\s))(?P<flag>{flag})|[\n;&|]")
                )
                break
    for hints, pattern, replacement in _SHAPES:
        for hint in hints:
            if hint in text:
                text = _compiled(pattern).sub(replacement, text)
                break
    return text


def _redact_given(text: str, part: re.Pattern[str]) -> str:
    """Take out what each flag of a program is given. The text is looked at once, however often the program is named."""
    out, copied, position, reach = list[str](), 0, 0, -1
    while found := part.search(text, position):
        position = found.end()
        if found["program"] is not None:
            reach = position + _MOST_BETWEEN
        elif found["flag"] is None:
            reach = -1
        elif found.start() <= reach and (given := _compiled(_GIVEN).match(text, position)):
            out += (text[copied:position], REDACTED)
            copied = position = given.end()
            reach += max(0, position - given.start() - len(REDACTED))  # a long value keeps no later one out of reach
    return "".join((*out, text[copied:])) if out else text


# Names in text: `"password": "…"`, `password=…`, `--token …`, `Authorization: …`, also when JSON is broken.

_NAME_HINTS = (
    "passw", "passphrase", "passcode", "pwd", "secret", "token", "cookie", "credential", "auth", "key",
    "bearer", "jwt", "otp", "pin", "cvv", "connection", "密", "口令", "令牌",
)  # fmt: skip
_NAMED = (
    r"(?<![\w.\-])"
    r"(?:(?P<flag>--[\w.\-]{1,128}+)\s{1,3}(?=[^\s\-])"
    r"|(?:config|configure|secret|variable)\s{1,3}set\s{1,3}(?P<set>[\w./:\-]{1,128}+)\s{1,3}(?=[^\s\-])"
    r"|(?P<name>[\w.\-]{1,128}+)(?:\\{0,8}[\"'])?\s{0,8}(?:=>|[:=])\s{0,8})"
)
# In quotes, in the escaped quotes of JSON inside a string, or as a bare word, which may hold a comma or a
# bracket but not end in one: `login(token=abc)`.
_QUOTED = r"\[redacted\]|\"(?:[^\"\\]|\\.)*+\"?|'(?:[^'\\]|\\.)*+'?|\\{1,8}[\"'][^\"']*+[\"']?"
_VALUE = _QUOTED + r"|(?:[^\s,;&\"'<>)}\]\\]|\\(?![\"'\\])|\\\\|[,)}\]](?=[^\s,;)}\]\"'\\]))++"
_LINE_VALUE = _QUOTED + r"|(?:[^\r\n\"'\\]|\\(?![\"'\\])|\\\\)++"
_JSON_INSIDE = r"[\[{]\s{0,64}[\"'{\[\d\\]"
_HEADER = lazy_pattern(r"(?i)auth|cookie")


def may_hold_secret(text: str) -> bool:
    """Whether JSON text is worth looking into: False only where `redact_value` would change nothing.

    Anything escaped may be anything.
    """
    if "\\" in text or (_any_hint().search(text) if len(text) < _SHORT else any(hint in text for hint in _SHAPE_HINTS)):
        return True
    lowered = text.lower()
    for hint in _WORD_HINTS:  # noqa: SIM110 - on the way of every record; `any` costs twice as much
        if hint in lowered:
            return True
    return False


# One whole word of each secret name, so that `pass_word` and `api key` are found as `password` and `apikey` are.
_WORD_HINTS = (
    "pass", "pwd", "secret", "token", "cookie", "cred", "auth", "key", "bearer", "jwt", "otp", "pin", "cvv", "conn",
    "密", "口令", "令牌",
)  # fmt: skip


def redact_text(text: str) -> str:
    """The same words without the secrets that can be recognised in them."""
    return _redact_names(_redact_shapes(text))


def _redact_names(text: str) -> str:
    if not (":" in text or "=" in text or "--" in text or " set " in text):
        return text
    lowered = text.lower()
    if not any(hint in lowered for hint in _NAME_HINTS):
        return text
    named, out, copied, position = _compiled(_NAMED), list[str](), 0, 0
    while found := named.search(text, position):
        position = found.end()
        name = found["flag"] or found["set"] or found["name"]
        if not is_secret_name(name, number=text[position : position + 1].isdigit()):
            continue
        end = _end_of_value(text, position, line=bool(_HEADER.search(name)))
        if end > position:
            out += (text[copied:position], _in_place_of(text[position:end]))
            copied = position = end
    return "".join((*out, text[copied:])) if out else text


def _end_of_value(text: str, start: int, *, line: bool) -> int:
    """Where the value that begins at `start` ends; a list or object that is broken goes on to the end."""
    if text.startswith(REDACTED, start):
        return start
    if _compiled(_JSON_INSIDE).match(text, start):
        import json

        try:
            return json.JSONDecoder().raw_decode(text, start)[1]
        except (ValueError, RecursionError):
            return len(text)
    value = _compiled(_LINE_VALUE if line else _VALUE).match(text, start)
    return value.end() if value else start


def _in_place_of(value: str) -> str:
    """Keep the quotes, so that what was JSON stays JSON."""
    bare = value.lstrip("\\")
    if bare[:1] in ('"', "'"):
        quote = value[: len(value) - len(bare) + 1]
        return f"{quote}{REDACTED}{quote}"
    return f'"{REDACTED}"' if value[0] in "[{" else REDACTED


# Values


def redact_value(value: Any) -> Any:
    """A copy made of plain JSON values, without the secrets that can be recognised in it.

    A string that is itself JSON is looked into. What is nested deeper than `MAX_DEPTH` or has more than
    `MAX_PARTS` parts is cut there, which also ends a value that contains itself.
    """
    left = MAX_PARTS

    def plain(value: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if value is None or isinstance(value, (int, float)):
            # JSON has no infinity, and Python refuses to write out a number of many thousand digits.
            if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
                return str(value)
            return TOO_LARGE if isinstance(value, int) and value.bit_length() > 4096 else value
        if left < 0:
            return TOO_LARGE
        if isinstance(value, str):
            return _redact_string(value, depth, plain)
        if isinstance(value, (bytes, bytearray)):
            return _redact_string(bytes(value).decode("utf-8", "replace"), depth, plain)
        if depth >= MAX_DEPTH:
            return TOO_DEEP
        if hasattr(value, "items"):
            return mapping(cast("Mapping[Any, Any]", value), depth)
        if isinstance(value, (list, tuple, set, frozenset)):
            return sequence(cast("Sequence[Any]", value), depth)
        return redact_text(str(value))

    def mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, item in value.items():
            if left < 0:
                out[TOO_LARGE] = None
                break
            name = key if isinstance(key, str) else str(key)
            number = isinstance(item, (int, float))
            hidden = is_secret_name(name, number=number)
            # Keys repeat from call to call, so what was made of a short one is remembered.
            out[_redact_short_key(name) if len(name) <= 64 else redact_text(name)] = (
                REDACTED if hidden else plain(item, depth + 1)
            )
        return out

    def sequence(value: Sequence[Any], depth: int) -> list[Any]:
        out: list[Any] = []
        for item in value:
            out.append(plain(item, depth + 1))
            if left < 0:
                break
        return out

    return plain(value, 0)


_redact_short_key = lru_cache(maxsize=2048)(redact_text)


def _redact_string(text: str, depth: int, plain: Callable[[Any, int], Any]) -> str:
    if depth < MAX_DEPTH and text.lstrip()[:1] in ("{", "[", '"'):
        import json

        try:
            loaded: Any = json.loads(text)
        except (ValueError, RecursionError):
            return redact_text(text)
        redacted = plain(loaded, depth + 1)
        if redacted != loaded:
            return json.dumps(redacted, ensure_ascii=False)
    return redact_text(text)
