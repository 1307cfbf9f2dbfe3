"""What travels between a caller and a worker: subjects, signed calls, results, and keys."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
import os
import re
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from pydantic_core import PydanticSerializationError, from_json, to_json, to_jsonable_python

from ferrule.core.errors import ErrorKind, MissingExtraError
from ferrule.core.phrases import phrase
from ferrule.core.result import Attachment, ErrorInfo, ToolResult, plainly

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    from ferrule.core.tool import Tool

logger = logging.getLogger("ferrule.remote")

PROTOCOL = 2
"""Raised when a message means something else than before; a worker refuses what it does not know."""
PIECE = 400_000
"""Bytes of one message at most; what is longer is parked in the bucket of claims, in pieces."""
LARGEST = 64_000_000
"""Bytes of arguments or of a result at most."""
_KEY_LENGTH = 56
_SIGNED_LENGTH = _KEY_LENGTH + 64
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")
_MOST_TOKEN = 120
"""The server makes a file of a consumer's name, which has a tenant's and a worker's in it, and takes 255 letters."""
POOL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class RemoteError(Exception):
    """Something about other machines that a person can mend; the message is a `Phrase` where it can be one."""


# Subjects


def subject_token(text: str | None) -> str:
    """A tenant's or a tool's name as one token of a subject; different names give different tokens."""
    if not text:
        return "_"
    if text == "_":
        return "=_"
    token = _UNSAFE.sub(lambda found: "=" + found[0].encode().hex() + "=", text)
    return token if len(token) <= _MOST_TOKEN else "==" + hash_of(text.encode())  # as it is, none begins with two


def require_pool(name: str) -> str:
    """The name of a pool, where it can be one."""
    if not POOL.fullmatch(name):
        raise RemoteError(
            phrase(
                "{name} cannot name a pool: use up to 64 letters, digits, `-` and `_`, the first a letter or digit.",
                name=repr(name),
            )
        )
    return name


def calls_stream(pool: str) -> str:
    return f"FERRULE_CALLS_{pool}"


def claims_bucket(pool: str) -> str:
    return f"ferrule_claims_{pool}"


# Keys. One ed25519 key both logs in to the server and signs calls.


class Nkey:
    """An nkey: who this program is to the server, and whose calls and workers it trusts."""

    def __init__(self, seed: str, trusted: Iterable[str] = ()) -> None:
        try:
            import nkeys  # pyright: ignore[reportMissingTypeStubs]
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        except ModuleNotFoundError:
            raise MissingExtraError("Calling tools on other machines", "remote") from None
        try:
            self.public: str = cast("Any", nkeys).from_seed(seed.encode()).public_key.decode()
            _, raw = cast("Any", nkeys).decode_seed(seed.encode())
            self._signer = Ed25519PrivateKey.from_private_bytes(bytes(raw))  # nkeys' own takes half as long again
        except Exception:  # noqa: BLE001 - the library raises whatever it meets; none of it may show the seed
            raise RemoteError(phrase("The key is not an nkey seed. A seed begins with `SU`.")) from None
        self.seed = seed
        self._trusted = {one: _verifier(one) for one in (self.public, *trusted)}

    def sign(self, payload: bytes) -> bytes:
        """A message that proves who sent it: the key, the signature, and what it says."""
        return self.public.encode() + self._signer.sign(payload) + payload

    def verify(self, data: bytes) -> str | None:
        """Whose message it is; None for one that nobody trusted has signed."""
        who = data[:_KEY_LENGTH].decode(errors="replace")
        verifier = self._trusted.get(who)
        if verifier is None:
            return None
        try:
            verifier.verify(data[_KEY_LENGTH:_SIGNED_LENGTH], unsigned(data))
        except Exception:  # noqa: BLE001 - whatever is wrong with it, it is no proof
            return None
        return who


def unsigned(data: bytes) -> bytes:
    """What a signed message says."""
    return data[_SIGNED_LENGTH:]


def _verifier(public: str) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        raw = base64.b32decode(public + "=" * (-len(public) % 8))
        if not public.startswith("U") or len(raw) != 35:
            raise ValueError(public)
        return Ed25519PublicKey.from_public_bytes(raw[1:33])
    except Exception:  # noqa: BLE001 - a text can be wrong in any way
        raise RemoteError(
            phrase("`remote.trusted`: {key} is not a public nkey. One begins with `U`.", key=repr(public))
        ) from None


def new_seed() -> str:
    try:
        import nkeys  # pyright: ignore[reportMissingTypeStubs]
    except ModuleNotFoundError:
        raise MissingExtraError("Making keys", "remote") from None
    return cast("Any", nkeys).encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER).decode()


def read_key(file: Path, trusted: Iterable[str] = ()) -> Nkey:
    """The key in a file, which holds the seed alone."""
    try:
        seed = file.read_text(encoding="ascii").strip()
    except OSError as error:
        raise RemoteError(
            phrase("The key file {file} could not be read: {why}.", file=file, why=error.strerror)
        ) from None
    except UnicodeDecodeError:
        raise RemoteError(phrase("The key is not an nkey seed. A seed begins with `SU`.")) from None
    return Nkey(seed, trusted)


def write_key(file: Path, seed: str) -> None:
    """Keep a seed where only its owner can read it."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(seed + "\n")


# Calls


@dataclass(slots=True)
class RemoteCall:
    """One call on its way to a worker, as it is signed. Times are seconds by the server's clock."""

    uid: str
    call_id: str
    tool: str
    version: str
    digest: str
    subject: str
    reply: str
    secret: str
    """What the worker proves its answers with: it travels with the call alone."""
    pool: str
    issued: float
    valid: float
    """Seconds after `issued` in which it may be started."""
    seconds: float
    idempotent: bool
    arguments: Any = None
    parked: int = 0
    """How many pieces the arguments are in, where they are too long for one message."""
    hashed: str = ""
    tenant: str | None = None
    user: str | None = None
    role: str | None = None
    session: str = ""
    workspace: str = ""
    directory: str = ""
    bound: bool = False
    """Whether it works on files or shells of the session's workspace."""
    tentative: bool = False
    reason: str = ""
    watched: bool = False
    model: str | None = None
    asks_model: bool = False
    config: dict[str, Any] = field(default_factory=dict[str, Any])
    state: dict[str, Any] = field(default_factory=dict[str, Any])
    unsent: list[str] | None = None
    """What else is in the session's state and does not travel; None where that is not said."""
    trace: dict[str, str] = field(default_factory=dict[str, str])
    protocol: int = PROTOCOL

    @property
    def key(self) -> str:
        """Of its claim. The server tells each change of it to the caller, at `reply`."""
        return self.reply.split(".", 2)[2]

    def pack(self) -> bytes:
        return _written(self)


_digests: WeakKeyDictionary[Tool[Any], str] = WeakKeyDictionary()
_KNOWN = frozenset(one.name for one in fields(RemoteCall))


def read_call(payload: bytes) -> RemoteCall:
    """A call as it came; raises `ValueError` where it is none of this version."""
    document = _read(payload)
    if not isinstance(document, dict):
        raise ValueError("it is not an object")  # noqa: TRY004 - said of a message, not of an argument
    told = cast("dict[str, Any]", document)
    if told.get("protocol") != PROTOCOL:
        raise ValueError(f"it has version {told.get('protocol')!r} of the protocol, and this worker speaks {PROTOCOL}")
    try:
        return RemoteCall(**(told if told.keys() <= _KNOWN else {name: told[name] for name in told.keys() & _KNOWN}))
    except TypeError as error:
        raise ValueError(str(error)) from None


def digest_of(tool: Tool[Any]) -> str:
    """What tells one definition of a tool from another: its name, version and schema."""
    if known := _digests.get(tool):
        return known
    told = json.dumps([tool.name, tool.version, tool.input_schema], sort_keys=True, default=str)
    own = hashlib.blake2b(told.encode(), digest_size=8).hexdigest()
    _digests[tool] = digest = getattr(tool, "offered_digest", "") or own
    return digest


def hash_of(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


# What goes back and forth while a call runs. Proven with the call's secret, which only its two ends know.


def seal(secret: str, document: dict[str, Any]) -> bytes:
    payload = _written(document)
    return _proof(secret, payload) + payload


def unseal(secret: str, data: bytes) -> dict[str, Any] | None:
    """What a message says; None where it does not come from the other end of the call, or cannot be read."""
    proof, payload = data[:32], data[32:]
    if not hmac.compare_digest(proof, _proof(secret, payload)):
        return None
    try:
        return _read(payload)
    except (ValueError, RecursionError) as error:
        logger.warning("What came from the other end of a call cannot be read: %s", error)
        return None


def _written(document: Any) -> bytes:
    """JSON of a document; half a pair of surrogates, which has no UTF-8, is escaped."""
    try:
        return to_json(document, fallback=plainly, inf_nan_mode="strings", bytes_mode="base64")
    except PydanticSerializationError:
        return json.dumps(plain(document)).encode()


def _read(payload: bytes) -> Any:
    """What `_written` wrote; also what the quick reader does not take: half a pair, and what is deeply nested."""
    try:
        return from_json(payload)
    except ValueError:
        return json.loads(payload)


def _proof(secret: str, payload: bytes) -> bytes:
    return hashlib.blake2b(payload, digest_size=32, key=secret.encode()).digest()  # a tenth of what HMAC takes


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    return to_jsonable_python(value, fallback=plainly, inf_nan_mode="strings", bytes_mode="base64")


def pack_result(result: ToolResult) -> dict[str, Any]:
    """A result as a document that `read_result` makes the same result of."""
    return {
        "success": result.success,
        "llm": result.llm_content,
        "display": result.display_content,
        "data": plain(result.data),
        "error": result.error.to_dict() if result.error is not None else None,
        "metadata": plain(result.metadata),
        "attachments": [
            {
                "media_type": one.media_type,
                "data": base64.b64encode(one.data).decode() if one.data is not None else None,
                "uri": one.uri,
                "name": one.name,
                "details": plain(one.details),
                "after": one.after,
            }
            for one in result.attachments
        ],
    }


def read_result(told: dict[str, Any], call_id: str, tool: str) -> ToolResult:
    """The result of a call, which whoever made it knows by its own id."""
    error = told["error"]
    attached: list[dict[str, Any]] = told["attachments"]
    for one in attached:
        one["data"] = None if one["data"] is None else base64.b64decode(one["data"])
    return ToolResult(
        call_id,
        tool,
        told["success"],
        told["llm"],
        told["display"],
        told["data"],
        ErrorInfo(ErrorKind(error["type"]), error["message"], error["details"], error["suggestion"]) if error else None,
        told["metadata"],
        [Attachment(**one) for one in attached],
    )
