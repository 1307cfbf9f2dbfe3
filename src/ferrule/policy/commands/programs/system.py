"""Programs that tell about the machine, or change it."""

from __future__ import annotations

import re

from ferrule.core.phrases import phrase

from ..expansion import Loose
from ..finding import READS, RUNS, WRITES, Finding
from ..naming import names
from ..options import grammar, parse
from .table import Describe, Operands, Program, certain, changes, describe, informs, reader, runs, subcommands

_TELLS = reader("tells about the machine", open=True, operands=Operands.WORDS)
_STATE = phrase("it changes how the whole machine works")
_STOPS = phrase("it stops or restarts the machine")
_DISKS = phrase("it can destroy everything on a disk")
_PEOPLE = phrase("it changes who may use the machine")


def _date(name: str, arguments: list[str]) -> Finding:
    parsed = parse(
        grammar(
            "d:f:r:uRI?jnv:s:z:",
            "date= file= reference= utc universal iso-8601? rfc-3339= rfc-email set= debug help version resolution",
        ),
        arguments,
    )
    sets = parsed.has("-s", "--set") or any(not word.startswith("+") for word in parsed.operands)
    if parsed.has("-j") or (parsed.has("-v", "-f", "-r") and not parsed.has("-s", "--set")):
        sets = False  # the BSD form works on a given time
    if sets or parsed.unknown or parsed.loose:
        return Finding(WRITES, f"`{name}` may set the clock")
    return Finding(READS, f"`{name}` tells the time", parsed.values("--file"))


def _kill(name: str, arguments: list[str]) -> Finding:
    if arguments[:1] in (["-l"], ["-L"], ["--list"], ["--table"]):
        return Finding(READS, f"`{name} -l` lists signals")
    if arguments[:1] == ["-0"] and all(type(word) is not Loose for word in arguments):
        return Finding(READS, f"`{name} -0` looks whether a process is there")
    targets = [word for word in arguments[1:] if word.startswith("-")] + [
        word for word in arguments if word in ("0", "1")
    ]
    dangers = (
        [phrase("it ends every process that it can")] if any(re.fullmatch(r"-1|0|1", word) for word in targets) else []
    )
    return Finding(WRITES, f"`{name}` ends processes", dangers=dangers)


@certain
def _hostname(name: str, arguments: list[str]) -> Finding:
    if all(word.startswith("-") and not word.startswith(("-F", "--file", "-b")) for word in arguments):
        return Finding(READS, f"`{name}` tells the machine's name")
    return Finding(WRITES, f"`{name}` changes the machine's name", dangers=[_STATE])


@certain
def _ip(name: str, arguments: list[str]) -> Finding:
    operands = [word for word in arguments if not word.startswith("-")]
    plain = all(
        re.fullmatch(
            r"-(4|6|0|s|d|o|br|brief|c|color|j|json|p|pretty|details|stats|statistics|h|human|oneline)(=\w+)?", w
        )
        for w in arguments
        if w.startswith("-")
    )
    objects = ("addr", "address", "a", "link", "l", "route", "r", "ro", "neigh", "n", "rule", "maddr")
    shows = len(operands) == 1 or operands[1:2] in (["show"], ["list"], ["ls"], ["s"], ["get"])
    if plain and operands and operands[0] in objects and shows:
        return Finding(READS, f"`{name}` tells about the network")
    return Finding(WRITES, f"`{name}` changes the network", dangers=[_STATE])


@certain
def _ifconfig(name: str, arguments: list[str]) -> Finding:
    if len(arguments) <= 1 and not any(word.startswith("-") and word != "-a" for word in arguments):
        return Finding(READS, f"`{name}` tells about the network")
    return Finding(WRITES, f"`{name}` changes the network", dangers=[_STATE])


@certain
def _sysctl(name: str, arguments: list[str]) -> Finding:
    if arguments and not any("=" in word or re.match(r"-(-|\w*[wpf])", word) for word in arguments):
        return Finding(READS, f"`{name}` tells settings of the kernel")
    return Finding(WRITES, f"`{name}` changes the kernel's settings", dangers=[_STATE])


def _mount(name: str, arguments: list[str]) -> Finding:
    if not arguments or arguments in (["-l"], ["--version"], ["--help"]):
        return Finding(READS, f"`{name}` lists what is mounted")
    return Finding(WRITES, f"`{name}` changes what is mounted", dangers=[_STATE])


_SYSTEMCTL = grammar(
    "t:p:n:aqlHM",
    "type= property= lines= all quiet full no-pager user system state= output= no-legend plain failed"
    " value recursive reverse with-dependencies version help",
)
_SYSTEMCTL_READS = frozenset(
    names(
        """
        status show cat list-units list-unit-files list-timers list-sockets list-jobs list-dependencies is-active
        is-enabled is-failed is-system-running get-default show-environment list-machines
        """
    )
)
_POWER = frozenset(
    names(
        """
        poweroff reboot halt kexec suspend hibernate hybrid-sleep soft-reboot rescue emergency default isolate
        """
    )
)


def _systemctl(name: str, arguments: list[str]) -> Finding:
    parsed = parse(_SYSTEMCTL, arguments)
    verb = next(iter(parsed.operands), "list-units")
    if verb in _SYSTEMCTL_READS and not parsed.unknown and not parsed.loose and not parsed.has("-H", "-M"):
        return Finding(READS, f"`{name} {verb}` tells about services")
    danger = _STOPS if verb in _POWER else phrase("it starts, stops or changes services of the machine")
    return Finding(WRITES, f"`{name} {verb}` changes services", dangers=[danger])


_JOURNALCTL = reader(
    "shows the log",
    "u:n:p:o:S:U:t:g:kb?faerxqNF:mcD:",
    "unit= lines= priority= output= since= until= identifier= grep= dmesg"
    " boot? follow no-pager reverse all catalog quiet user system utc no-tail no-hostname list-boots"
    " disk-usage header fields"
    " field= output-fields= merge case-sensitive? user-unit= cursor= after-cursor= facility= version help"
    " pager-end no-full full",
    operands=Operands.WORDS,
)


def _crontab(name: str, arguments: list[str]) -> Finding:
    if arguments == ["-l"]:
        return Finding(READS, f"`{name} -l` lists timed commands")
    return Finding(
        RUNS,
        f"`{name}` changes commands that run by themselves",
        dangers=[phrase("it changes commands that run by themselves")],
    )


@certain
def _firewall(name: str, arguments: list[str]) -> Finding:
    letters = [word for word in arguments if word.startswith("-") or word in ("status", "list", "show")]
    allowed = {
        "-L",
        "-S",
        "-n",
        "-v",
        "--list",
        "--list-rules",
        "-t",
        "--line-numbers",
        "-nL",
        "-Ln",
        "-vL",
        "-nvL",
        "-Lnv",
        "status",
        "list",
    }
    if letters and all(word in allowed for word in letters) and not ({"flush", "delete", "add"} & set(arguments)):
        return Finding(READS, f"`{name}` lists the firewall's rules")
    return Finding(
        WRITES, f"`{name}` changes the firewall", dangers=[phrase("it changes what the firewall lets through")]
    )


def _ps(name: str, arguments: list[str]) -> Finding:
    if arguments and re.fullmatch(r"[A-Za-z]*e[A-Za-z]*", arguments[0]):
        return Finding(RUNS, f"`{name} {arguments[0]}` shows the environment of processes, with its secrets")
    return Finding(READS, f"`{name}` lists processes")


def _top(name: str, arguments: list[str]) -> Finding:
    if any(re.match(r"-\w*b", word) for word in arguments):
        return Finding(READS, f"`{name} -b` lists processes")
    return Finding(RUNS, f"`{name}` waits for keys, and can end processes")


_MAN = reader("shows help", "fkaw", "whatis apropos where path all", operands=Operands.WORDS)


def _man(name: str, arguments: list[str]) -> Finding:
    if any("/" in word for word in arguments):
        return Finding(RUNS, f"`{name}` formats a page that anybody may have written")
    return describe(_MAN, name, arguments)


def _lists_only(*flags: str, otherwise: Describe) -> Describe:
    """A program that changes the machine, except with one of these flags and nothing else but names."""

    @certain
    def describe_lists(name: str, arguments: list[str]) -> Finding:
        options = [word for word in arguments if word.startswith("-")]
        if options and all(word in flags for word in options) and len(arguments) <= 2:
            return Finding(READS, f"`{name} {options[0]}` only lists")
        return otherwise(name, arguments)

    return describe_lists


@certain
def _getent(name: str, arguments: list[str]) -> Finding:
    if arguments[:1] and arguments[0] in ("passwd", "group", "services", "protocols", "shells"):
        return Finding(READS, f"`{name}` looks a name up")
    return Finding(RUNS, f"`{name}` may ask other machines", hosts=[None])


def _init(name: str, arguments: list[str]) -> Finding:
    return Finding(WRITES, f"`{name}` changes how the machine runs", dangers=[_STOPS])


_SIMPLE_TELLING = names(
    """
    uname arch nproc lscpu lsblk lsusb lspci lsmod lsns lsipc lsmem lslocks findmnt uptime free vmstat iostat mpstat
    w who whoami id groups users last lastb tty logname hostid getconf locale printenv pgrep pidof
    pstree pmap pwdx cal ncal sw_vers modinfo tput clear sleep nproc lsb_release numastat ipcs dirs
    type which whereis apropos whatis acpi cpuid getenforce sestatus dircolors
    """
)

_CHANGES_MACHINE = changes("changes how the machine works", _STATE)

SYSTEM: dict[str, Program] = {
    **dict.fromkeys(_SIMPLE_TELLING, _TELLS),
    "date": _date,
    "gdate": _date,
    "kill": _kill,
    "hostname": _hostname,
    "ip": _ip,
    "ifconfig": _ifconfig,
    "sysctl": _sysctl,
    "mount": _mount,
    "systemctl": _systemctl,
    "journalctl": _JOURNALCTL,
    "crontab": _crontab,
    **dict.fromkeys(["iptables", "ip6tables", "nft", "ufw", "firewall-cmd", "pfctl", "iptables-save"], _firewall),
    "ps": _ps,
    "top": _top,
    "getent": _getent,
    "dmesg": reader(
        "shows the kernel's messages",
        "HTkxtLldeupwWf:",
        "human ctime kernel decode notime color? level= facility= follow nopager time-format= since= until= userspace",
        operands=Operands.NONE,
    ),
    "ss": reader(
        "lists connections",
        "natulpexmsiorHOZz460wdbSf:A:N:",
        "numeric all tcp udp listening processes extended info memory summary options resolve no-header"
        " family= query= ipv4 ipv6",
        operands=Operands.WORDS,
    ),
    "netstat": reader("lists connections", open=True, operands=Operands.WORDS),
    "lsof": reader("lists open files", "i?s?p:u:c:g:d:t+PnaRlOXVbUwWE", "", spoils={"-D": (WRITES, "writes a cache")}),
    "fuser": reader("lists processes that use a file", "vmnau4" + "6", "verbose mount"),
    "blkid": reader("tells about disks", "o:s:t:L:U:", "output=", operands=Operands.FILES),
    "man": _man,
    "info": runs("shows help, and can run commands"),
    "stty": informs("-a", "--all", "size", "-g", otherwise=changes("changes the terminal")),
    "timedatectl": subcommands({"status": _TELLS, "show": _TELLS, "list-timezones": _TELLS}),
    "hostnamectl": subcommands({"status": _TELLS}),
    "loginctl": subcommands({"list-sessions": _TELLS, "list-users": _TELLS, "show-user": _TELLS}),
    **dict.fromkeys(["shutdown", "reboot", "halt", "poweroff", "init", "telinit", "runlevel0"], _init),
    **dict.fromkeys(
        names(
            """
            fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard hdparm mkswap pvcreate pvremove vgcreate
            vgremove lvcreate lvremove lvresize cryptsetup mdadm resize2fs tune2fs e2fsck fsck debugfs badblocks zpool
            zfs btrfs diskutil hdiutil newfs format partprobe losetup dmsetup sg_format
            """
        ),
        _lists_only("-l", "--list", "-V", "--version", otherwise=changes("works on whole disks", _DISKS)),
    ),
    **dict.fromkeys(
        ["pkill", "killall", "xkill", "skill", "slay", "killall5"],
        changes("ends processes by name", phrase("it ends every process that fits a name")),
    ),
    **dict.fromkeys(
        names(
            """
            useradd userdel usermod adduser deluser groupadd groupdel groupmod passwd chpasswd gpasswd chsh chfn
            visudo vipw vigr newgrp newusers chage dscl
            """
        ),
        changes("changes accounts", _PEOPLE),
    ),
    **dict.fromkeys(["insmod", "modprobe", "rmmod", "depmod", "kexec", "kmod"], changes("changes the kernel", _STATE)),
    **dict.fromkeys(
        names(
            """
        umount swapoff setenforce aa-disable aa-teardown apparmor_parser losetup pivot_root switch_root ipvsadm
        iwconfig nmcli tc ethtool brctl sysrq update-grub grub-install efibootmgr bcdedit auditctl semanage
        setsebool update-alternatives spctl csrutil nvram launchctl rc-service update-rc.d chkconfig
        initctl wall logger
        """
        ),
        _CHANGES_MACHINE,
    ),
    **dict.fromkeys(
        ["at", "batch", "systemd-run", "anacron"],
        runs("runs commands later", phrase("it runs a command later, when nobody watches")),
    ),
    "arp": _lists_only("-a", "-n", "-e", otherwise=_CHANGES_MACHINE),
    "route": _lists_only("-n", "-e", otherwise=_CHANGES_MACHINE),
    "swapon": _lists_only("-s", "--show", otherwise=_CHANGES_MACHINE),
    "ldconfig": _lists_only("-p", "--print-cache", otherwise=_CHANGES_MACHINE),
    "service": _lists_only("--status-all", otherwise=_CHANGES_MACHINE),
    "renice": changes("changes how processes run"),
}
