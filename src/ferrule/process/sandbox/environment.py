"""The variables a sandboxed command gets: those known to be harmless, and what was given on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_KEPT = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR",
    "COLUMNS", "LINES", "TZ", "CI", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYENV_ROOT", "PYENV_VERSION",
    "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONUTF8", "NVM_DIR", "NODE_ENV", "VOLTA_HOME",
    "CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "GOPATH", "GOROOT", "GOFLAGS", "GOTOOLCHAIN", "JAVA_HOME",
    "M2_HOME", "GRADLE_HOME", "SDKMAN_DIR", "RBENV_ROOT", "GEM_HOME", "DOTNET_ROOT", "ASDF_DIR", "ASDF_DATA_DIR",
    "SOURCE_DATE_EPOCH", "MAKEFLAGS", "CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "PKG_CONFIG_PATH", "EDITOR",
    "PAGER", "GIT_PAGER", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL",
})  # fmt: skip
_KEPT_PREFIXES = ("LC_",)
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def clean_environment(environment: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """What of `environment` is passed on, with `given` over it. A list of secrets would never be complete."""
    kept = {name: value for name, value in environment.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)}
    kept.setdefault("PATH", _DEFAULT_PATH)
    return kept | dict(given)
