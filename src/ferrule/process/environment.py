"""The environment that commands see: what programs need to work, and no secret of the person who started Ferrule.

An allow-list, because a secret can stand under any name. What programs load code from (`LD_PRELOAD`, `BASH_ENV`,
`PYTHONSTARTUP`, …) is not on it. Whoever wants more for a command says so in `extra`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ferrule.core.secrets import is_secret_name, may_hold_secret, redact_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_PASSED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HOSTNAME", "COLUMNS", "LINES",
    "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_DATA_DIRS", "XDG_CONFIG_DIRS",
    "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "NVM_DIR", "NVM_BIN", "VOLTA_HOME", "FNM_DIR",
    "JAVA_HOME", "GOPATH", "GOROOT", "GOBIN", "CARGO_HOME", "RUSTUP_HOME", "GEM_HOME", "RBENV_ROOT", "DOTNET_ROOT",
    "ANDROID_HOME", "ANDROID_SDK_ROOT", "BUN_INSTALL", "DENO_DIR", "PNPM_HOME", "SDKMAN_DIR", "UV_CACHE_DIR",
    "PIP_CACHE_DIR", "PKG_CONFIG_PATH", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "MAKEFLAGS", "SOURCE_DATE_EPOCH",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "NIX_SSL_CERT_FILE",
    "NO_PROXY", "no_proxy", "WSL_DISTRO_NAME",
})  # fmt: skip
_PROXIES = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "FTP_PROXY"})

# Programs that would page, colour or ask do neither: nobody is at a terminal.
_QUIET = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "PYTHONUNBUFFERED": "1",
}
_USUAL_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def clean_environment(
    extra: Mapping[str, str] | None = None, *, inherited: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What of Ferrule's own environment (or of `inherited`) a command may see, with `extra` over it."""
    source = os.environ if inherited is None else inherited
    kept = {name: value for name, value in source.items() if _may_pass(name, value)}
    kept.setdefault("PATH", _USUAL_PATH)
    if not any(name in kept for name in ("LANG", "LC_ALL", "LC_CTYPE")):
        kept["LANG"] = "C.UTF-8"
    return kept | _QUIET | dict(extra or {})


def _may_pass(name: str, value: str) -> bool:
    if name.upper() in _PROXIES:
        return not _has_credentials(value)
    if name not in _PASSED and not name.startswith("LC_"):
        return False
    return not is_secret_name(name) and not _holds_secret(value)


def _holds_secret(value: str) -> bool:
    return may_hold_secret(value) and redact_text(value) != value


def _has_credentials(address: str) -> bool:
    try:
        parts = urlsplit(address if "//" in address else f"//{address}")
    except ValueError:
        return True
    return parts.username is not None or parts.password is not None
