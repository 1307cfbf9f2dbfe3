"""An OpenID Connect issuer for tests: it has keys, serves them, and signs whatever it is asked to."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import time
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

AUDIENCE = "ferrule-tests"


@cache
def rsa_key(number: int = 0) -> rsa.RSAPrivateKey:
    """Made once a run: that takes a while."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class Issuer:
    """Keys by id; what is `published` is what others get to see."""

    def __init__(self) -> None:
        self.url = ""
        self.keys: dict[str, tuple[Any, str]] = {
            "rsa": (rsa_key(), "RS256"),
            "ec": (ec.generate_private_key(ec.SECP256R1()), "ES256"),
            "ed": (ed25519.Ed25519PrivateKey.generate(), "EdDSA"),
        }
        self.published: list[str] = list(self.keys)
        self.failing = False
        self.asked: list[str] = []
        self.codes: dict[str, dict[str, str]] = {}
        """What a browser came with, by the code that it was given."""
        self.signs_in: dict[str, Any] = {}
        """Claims of whoever signs in next."""

    def public(self, name: str, **more: Any) -> dict[str, Any]:
        key, _ = self.keys[name]
        kinds = ((rsa.RSAPrivateKey, RSAAlgorithm), (ec.EllipticCurvePrivateKey, ECAlgorithm))
        form: Any = next((form for kind, form in kinds if isinstance(key, kind)), OKPAlgorithm)
        return {**json.loads(form.to_jwk(key.public_key())), "kid": name, "use": "sig", **more}

    def key_set(self) -> dict[str, Any]:
        return {"keys": [self.public(kid) for kid in self.published]}

    def claims(self, **claims: Any) -> dict[str, Any]:
        now = int(time())
        standard = {"iss": self.url, "aud": AUDIENCE, "sub": "u-1", "tenant": "default", "iat": now, "exp": now + 600}
        return {name: value for name, value in {**standard, **claims}.items() if value is not None}

    def token(self, kid: str = "rsa", /, *, header: Any = None, **claims: Any) -> str:
        """A token that is good, but for what is asked of it; a claim that is None is left out."""
        key, algorithm = self.keys[kid]
        return jwt.encode(self.claims(**claims), key, algorithm, headers={"kid": kid, **(header or {})})


@contextmanager
def issuing() -> Generator[Issuer]:
    """An issuer on a port of its own."""
    issuer = Issuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.asked.append(self.path)
            if self.path.startswith("/authorize?"):
                self._authorize(dict(parse_qsl(urlsplit(self.path).query)))
                return
            documents = {
                "/.well-known/openid-configuration": {
                    "issuer": issuer.url,
                    "jwks_uri": f"{issuer.url}/keys",
                    "authorization_endpoint": f"{issuer.url}/authorize",
                    "token_endpoint": f"{issuer.url}/token",
                },
                "/keys": issuer.key_set(),
            }
            found = None if issuer.failing else documents.get(self.path)
            self.send_response(200 if found is not None else 500)
            self.end_headers()
            self.wfile.write(json.dumps(found).encode())

        def _authorize(self, asked: dict[str, str]) -> None:
            """Somebody signs in without a word, and goes back with a code."""
            code = f"code-{len(issuer.codes)}"
            issuer.codes[code] = asked
            self.send_response(302)
            self.send_header(
                "Location", f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"
            )
            self.end_headers()

        def do_POST(self) -> None:
            form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
            asked = issuer.codes.pop(form["code"], {})
            digest = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
            good = asked.get("code_challenge") == digest.rstrip("=") and asked["redirect_uri"] == form["redirect_uri"]
            self.send_response(200 if good else 400)
            self.end_headers()
            identity = issuer.token(nonce=asked.get("nonce"), **issuer.signs_in)
            self.wfile.write(json.dumps({"access_token": "opaque", "id_token": identity}).encode())

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
