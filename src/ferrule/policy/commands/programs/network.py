"""Programs that reach other machines. None of them only reads: what is read can leave with them."""

from __future__ import annotations

import re

from ferrule.core.phrases import phrase

from ..expansion import Loose
from ..finding import READS, RUNS, Finding, Inner
from ..naming import names
from ..options import grammar, parse
from .table import Program, informs, runs

_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^/@\s]*@)?(\[[0-9a-fA-F:]+\]|[^/:?#\s]+)", re.IGNORECASE)
_CURL = grammar(
    "0123469aA:b:BcC:d:D:e:E:fF:gGhH:iIjJkK:lLm:MnNo:OpP:qQ:r:Rs" + "St:T:u:U:vVw:x:X:y:Y:z:Z#",
    "output= data= data-raw= data-binary= data-urlencode= form= header= request= user= user-agent= url="
    " config= upload-file="
    " proxy= max-time= connect-timeout= cookie= cookie-jar= write-out= cacert= cert= key= resolve= retry="
    " referer= json="
    " output-dir= interface= limit-rate= dump-header= range= netrc-file=",
)
_WGET = grammar(
    "VhbdqvnN:i:FB:t:O:ncST:w:Q:rkKl:pmE:HLD:A:R:I:X:P:e:U:o:a:4" + "6x",
    "output-document= input-file= directory-prefix= post-data= post-file= body-data= body-file= header="
    " user-agent= execute="
    " tries= timeout= output-file= method= use-askpass= level= accept= reject= user= password= quiet spider"
    " no-check-certificate",
)


def host_of(address: str) -> str | None:
    """The host in an address; None where it is only known at run time."""
    if type(address) is Loose and "://" in address.start:
        address = address.start if address.start.count("/") > 2 else ""
    elif type(address) is Loose:
        return None
    found = _URL.match(address)
    return found.group(1).strip("[]") if found is not None else None


def _curl(name: str, arguments: list[str]) -> Finding:
    if len(arguments) == 1 and arguments[0] in ("--version", "-V", "--help", "-h"):
        return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
    parsed = parse(_CURL, arguments)
    addresses = [*parsed.operands, *parsed.values("--url")]
    sent = parsed.values(
        "-d", "--data", "--data-binary", "--data-urlencode", "-F", "--form", "--json", "-H", "--header"
    )
    reads = [value.rpartition("@")[2].partition(";")[0] for value in sent if "@" in value]
    reads += parsed.values("-T", "--upload-file", "-K", "--config")
    reads += [address[7:] for address in addresses if address.startswith("file://")]
    written = parsed.values("-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar", "--output-dir")
    return Finding(
        RUNS, f"`{name}` reaches the network", reads, written, [host_of(address) for address in addresses] or [None]
    )


def _wget(name: str, arguments: list[str]) -> Finding:
    if len(arguments) == 1 and arguments[0] in ("--version", "-V", "--help", "-h"):
        return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
    parsed = parse(_WGET, arguments)
    written = parsed.values("-O", "--output-document", "-P", "--directory-prefix", "-o", "--output-file") or ["."]
    reads = parsed.values("--post-file", "--body-file", "-i", "--input-file")
    return Finding(
        RUNS,
        f"`{name}` reaches the network",
        reads,
        [w for w in written if w != "-"],
        [host_of(a) for a in parsed.operands] or [None],
    )


_SSH = grammar("46AaCfGgKkMNnqsTtVvXxYyB:b:c:D:E:e:F:I:i:J:L:l:m:O:o:P:p:Q:R:S:W:w:", permute=False)


def _ssh(name: str, arguments: list[str]) -> Finding:
    if arguments == ["-V"]:
        return Finding(READS, f"`{name} -V` tells about itself")
    parsed = parse(_SSH, arguments)
    host = host_of(parsed.operands[0]) if parsed.operands else None
    words = parsed.operands[1:]
    inner = [Inner(script=" ".join(words))] if words and not any(type(word) is Loose for word in words) else []
    dangers = (
        [phrase("it names a command for ssh to run here")]
        if any("command" in value.lower() for value in parsed.values("-o"))
        else []
    )
    return Finding(
        RUNS,
        f"`{name}` runs commands on another machine",
        parsed.values("-i", "-F"),
        hosts=[host],
        dangers=dangers,
        inner=inner,
    )


def _copies(name: str, arguments: list[str]) -> Finding:
    operands = [word for word in arguments if not word.startswith("-")]
    hosts = [host_of(word.partition(":")[0]) for word in operands if ":" in word]
    local = [word for word in operands if ":" not in word]
    written = operands[-1:] if operands and ":" not in operands[-1] else []
    return Finding(RUNS, f"`{name}` copies files to or from another machine", local, written, hosts or [None])


def _netcat(name: str, arguments: list[str]) -> Finding:
    letters = {
        letter for word in arguments if word.startswith("-") and not word.startswith("--") for letter in word[1:]
    }
    shell = letters & {"e", "c"} or any(
        word.lower().startswith(("exec", "system", "--exec", "--sh-exec"))
        or "exec:" in word.lower()
        or "system:" in word.lower()
        for word in arguments
    )
    dangers = [phrase("it hands a shell to another machine")] if shell else []
    if "l" in letters or "--listen" in arguments:
        dangers.append(phrase("it opens a door for other machines"))
    operands = [word for word in arguments if not word.startswith("-")]
    return Finding(
        RUNS, f"`{name}` talks to another machine", hosts=[host_of(operands[0]) if operands else None], dangers=dangers
    )


def _asks(name: str, arguments: list[str]) -> Finding:
    operands = [word for word in arguments if not word.startswith(("-", "+"))]
    return Finding(
        RUNS,
        f"`{name}` sends a name to other machines",
        hosts=[host_of(word.lstrip("@")) for word in operands] or [None],
    )


NETWORK: dict[str, Program] = {
    "curl": _curl,
    **dict.fromkeys(["wget", "wget2"], _wget),
    **dict.fromkeys(["ssh", "autossh", "mosh", "slogin"], _ssh),
    **dict.fromkeys(["scp", "sftp", "rcp"], _copies),
    **dict.fromkeys(["nc", "ncat", "netcat", "nc.openbsd", "nc.traditional", "socat"], _netcat),
    **dict.fromkeys(
        names(
            """
            dig host nslookup drill whois ping ping6 traceroute tracepath mtr resolvectl nmap telnet ftp lftp tftp
            http https httpie xh aria2c axel lynx w3m links elinks rclone openvpn websocat finger rsh rlogin smbclient
            masscan hping3 gh glab hub
            """
        ),
        informs("-V", "-v", "version", otherwise=_asks),
    ),
    **dict.fromkeys(["tcpdump", "tshark", "wireshark"], runs("listens to the network")),
    **dict.fromkeys(["sendmail", "mail", "mailx", "mutt", "swaks"], runs("sends mail")),
}
