"""A guess at what a command reaches: for the words of a question, and so that nothing is tried in vain."""

from __future__ import annotations

import re

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.policy.commands.parts import Guess, likely_name, names

_URL = lazy_pattern(r"(?:[a-z][a-z0-9+.-]*://)(?:[^/@\s]*@)?(\[[0-9a-fA-F:]+\]|[^/:?#\s\[\]]+)", re.IGNORECASE)
_HOST = lazy_pattern(r"(?:[^/@\s:]+@)?(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+)(?::.*|/.*)?")
_REMOTE = lazy_pattern(r"(?:[^/@\s:]+@)([^/@\s:]+):.*|([A-Za-z0-9.-]+\.[A-Za-z]{2,}):.*")
_COPIED = lazy_pattern(r"^([\w.-]{2,}):(?!//)")
_LOCAL_PATH = lazy_pattern(r"\.{1,2}(?:/.*)?|/.*|~.*|.*\.(?:whl|tar\.gz|zip|tgz)(?:\[.*\])?|\.\[.*\]")
_CURL_VALUED = names("""
    -A -b -c -C -d -D -e -E -F -H -K -m -o -P -Q -r -T -t -u -U -w -x -X -y -Y -z --data --header --output --user
    --request --form --cookie --max-time --connect-timeout --write-out --upload-file --data-raw --data-binary --json
    --post-file --post-data -O --output-document --retry --cacert --cert --key --resolve --proxy --user-agent
    --body-file
""")

# Programs that talk to the address they are given first.
_TALKS = names("""
    ssh autossh mosh slogin sftp telnet ftp lftp tftp ping ping6 traceroute tracepath mtr dig host nslookup drill whois
    nc ncat netcat nmap http https httpie xh finger rsh rlogin websocat lynx w3m links elinks
""")
_ALWAYS = names("""
    gh glab hub aws gcloud gsutil az doctl heroku fly flyctl vercel netlify kubectl oc helm eksctl s3cmd firebase
    wrangler supabase railway rclone aria2c axel twine sendmail mail mailx mutt swaks
""")
# The first words behind these that fetch or send something.
_VERBS: dict[str, frozenset[str]] = {
    name: frozenset(verbs.split())
    for names, verbs in (
        ("git", "clone fetch pull push ls-remote send-email"),
        ("pip pip3", "install download search index wheel"),
        ("uv", "add sync lock publish"),
        ("poetry pdm", "add install update lock publish"),
        ("pipx", "install upgrade run"),
        ("npm", "install i ci add update publish view search login whoami outdated audit"),
        ("pnpm", "install i add update publish outdated audit dlx"),
        ("yarn", "install add up upgrade publish outdated audit dlx"),
        ("bun", "install add update publish"),
        ("cargo", "install add update publish search fetch"),
        ("go", "get install"),
        ("gem", "install update push search fetch"),
        ("bundle", "install update outdated"),
        ("composer", "install update require create-project outdated"),
        ("brew", "install update upgrade fetch search"),
        ("apt apt-get dnf yum apk zypper", "install update upgrade"),
        ("docker podman nerdctl", "pull push login search"),
        ("terraform tofu", "init apply plan destroy"),
        ("conda mamba", "install create update search"),
        ("rustup", "update install toolchain"),
        ("mix", "deps.get"),
    )
    for name in names.split()
}
_OFFLINE = names("""
    --offline --no-index --help -h --version --dry-run --frozen-offline
""")
_TAKES_PACKAGES = frozenset({"pip", "pip3"})
HERE = frozenset({"localhost", "127.0.0.1", "::1", "[::1]", "0.0.0.0"})  # noqa: S104 - names of this machine, not bound to
"""In a box they mean the box itself, unless they are allowed."""


def reaches(words: list[str]) -> tuple[bool, list[str]]:
    """Whether these words are certain to need the network, and the hosts that they name."""
    name, arguments = likely_name(words), words[1:]
    if name == "uv" and arguments[:1] == ["pip"]:
        name, arguments = "pip", arguments[1:]
    elif re.fullmatch(r"python[0-9.]*", name) and arguments[:2] == ["-m", "pip"]:
        name, arguments = "pip", arguments[2:]
    if not _OFFLINE.isdisjoint(arguments) or not arguments:
        return False, []
    hosts = [found.group(1) for word in arguments if (found := _URL.match(word)) and not word.startswith("file://")]
    if name in ("curl", "wget", "wget2"):
        operands = [word for word in _operands(arguments, _CURL_VALUED) if not word.startswith("file://")]
        addresses = hosts or [host for word in operands if (host := _host(word))]
        return bool(addresses) or any(isinstance(word, Guess) for word in arguments), addresses
    if name in _TALKS:
        operands = _operands(arguments)[:1]
        return bool(operands), hosts or [host for word in operands if (host := _host(word.lstrip("@")))]
    if name in ("scp", "rsync", "rcp"):
        remote = [one for word in arguments if (one := _remote(word) or "".join(_COPIED.findall(word)))]
        return bool(remote), remote
    if name in _ALWAYS:
        return _operands(arguments)[:1] not in (["version"], ["help"], ["config"], ["completion"]), hosts
    if name in _VERBS:
        operands = _operands(arguments)
        return _fetches(name, operands), hosts or [one for word in operands[1:] if (one := _remote(word))]
    return False, hosts


def _fetches(name: str, operands: list[str]) -> bool:
    if not operands or operands[0] not in _VERBS[name]:
        return False
    rest = [word for word in operands[1:] if not isinstance(word, Guess)]
    if name == "git" and operands[0] in ("clone", "fetch", "pull", "push", "ls-remote"):
        return not (rest and _LOCAL_PATH.fullmatch(rest[0]))
    if name in _TAKES_PACKAGES:  # what lies here may need nothing else
        return not (rest and all(_LOCAL_PATH.fullmatch(word) for word in rest))
    return True


def _operands(arguments: list[str], valued: frozenset[str] = frozenset()) -> list[str]:
    found: list[str] = []
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word.startswith(("-", "+")) and len(word) > 1:
            skip = word in valued or word in ("-C", "--git-dir", "--prefix", "--cwd", "--directory")
        else:
            found.append(word)
    return found


def _host(word: str) -> str:
    if isinstance(word, Guess) and not re.match(r"[\w.-]+[/:]", word.start):
        return ""
    found = _HOST.fullmatch(word)
    return found.group(1).strip("[]") if found is not None else ""


def _remote(word: str) -> str:
    found = None if word.startswith("-") else _REMOTE.fullmatch(word)
    return (found.group(1) or found.group(2)) if found is not None else ""
