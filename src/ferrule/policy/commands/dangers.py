"""What asks before it runs, whatever a rule or mode allows (S2): what destroys, takes rights, or cannot be undone here.

A box keeps what a command does from the workspace, so what is missed here is still judged by what it did. These are the
commands that a user would rather not see tried at all.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise
from posixpath import normpath
from typing import TYPE_CHECKING

from ferrule.core.lazy_pattern import lazy_pattern
from ferrule.core.phrases import phrase
from ferrule.policy.commands.carried import is_filled_in
from ferrule.policy.commands.find_words import deletes, started_by_find
from ferrule.policy.commands.parts import (
    OF_GIT_ITSELF,
    RUNS_ITSELF,
    SETTINGS,
    STARTS_SHELL,
    STARTS_WITH_GIT,
    Guess,
    likely_name,
    names,
)
from ferrule.policy.commands.wrappers import SHELLS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Dangers beyond this machine's files: what others hold in repositories, clouds, clusters and databases, and code.


_REMOVES = lazy_pattern(
    r"destroy|delete|delete-.*|terminate.*|rb|rm|purge.*|remove.*|drop|uninstall|rmi|prune|cancel.*|deregister.*"
    r"|detach.*|revoke.*|reset"
)
_LOSES = lazy_pattern(r"rm|rmi|prune|kill|down|remove")
_HOST_ACCESS = lazy_pattern(
    r"--privileged|--pid=host|--net(work)?=host|--ipc=host|--userns=host|--cap-add.*|--device.*"
    r"|--security-opt.*unconfined.*|source=/"
)
_WIDE_MOUNT = lazy_pattern(
    r"(?:.*(?:source|src)=)?(/|/(etc|root|home|var|usr|boot|proc|sys|dev|var/run/docker\.sock|run/docker\.sock)[^:,]*|~"
    r"|\$HOME)([:,].*)?"
)
_STARTS_PROGRAM = lazy_pattern(
    r"(alias|filter|credential|protocol|diff|merge|difftool|mergetool|gpg|pager|uploadpack)\..*|include.*|url\..*"
    r"|core\.(hookspath|sshcommand|fsmonitor|editor|pager|gitproxy|askpass|attributesfile|worktree)|sequence\.editor",
    re.IGNORECASE,
)

_SETS_PROGRAM = lazy_pattern(
    r"alias\..*=\s*!|core\.(sshcommand|fsmonitor|hookspath|pager|editor)|sequence\.editor|gpg\.program"
    r"|diff\.(external|.*\.(command|textconv))=",
    re.IGNORECASE,
)


_GIT_VALUES = {
    "push": ("-o", "--push-option"),
    "clean": ("-e", "--exclude"),
    "stash": ("-m", "--message"),
    "branch": ("--contains", "--no-contains", "--merged", "--no-merged", "--points-at", "--format", "--sort"),
    "update-ref": ("-m",),
}
"""Options that take the next word, whatever it looks like: `drop` in `git stash push -m drop` is a message."""


def _without_values(words: list[str], valued: tuple[str, ...]) -> list[str]:
    """The words without the values of these options, where no word before such an option can have it for its own."""
    kept: list[str] = []
    for at, word in enumerate(words):
        option, before = words[at - 1 : at], words[at - 2 : at - 1]
        surely = not any(isinstance(one, Guess) for one in (*before, word)) and "".join(before)[:1] != "-"
        if not (surely and option and option[0] in valued):
            kept.append(word)
    return kept


def _git(arguments: list[str]) -> Iterator[str]:
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        at += 2 if arguments[at] in ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env") else 1
        set_to = "".join(arguments[at - 1 : at]) if arguments[at - 2] == "-c" else ""
        if _SETS_PROGRAM.match(set_to) and set_to.partition("=")[2] not in ("", "cat", "less", "true", ":"):
            yield STARTS_WITH_GIT
    verb, rest = (arguments[at], arguments[at + 1 :]) if at < len(arguments) else ("", [])
    rest = _without_values(rest, _GIT_VALUES.get(verb, ()))
    letters = {letter for word in rest if re.match(r"-[^-]", word) for letter in word[1:]}
    words = set(rest)

    def given(*options: str) -> bool:
        names = [word.partition("=")[0] for word in rest if word.startswith("--")]
        return any(one in options or (len(one) > 4 and any(o.startswith(one) for o in options)) for one in names)

    if verb == "push":
        if (
            letters & {"f", "d"}
            or given("--force", "--force-with-lease", "--force-if-includes", "--mirror", "--delete", "--prune")
            or any(word.startswith(("+", ":")) for word in rest)
        ):
            yield phrase("it overwrites or removes others' work on the remote")
    elif verb == "reset" and given("--hard", "--merge", "--keep"):
        yield phrase("it throws away changes that are not committed")
    elif verb == "clean" and ("f" in letters or given("--force")) and not ("n" in letters or given("--dry-run")):
        yield phrase("it removes files that git does not know, beyond recovery")
    elif verb in ("checkout", "switch", "restore"):
        if verb == "restore" and given("--staged") and not given("--worktree"):
            return
        discards = "f" in letters or given("--force", "--discard-changes") or words & {".", "--", ":/"}
        if discards or (verb == "restore" and not given("--staged")):
            yield phrase("it throws away changes that are not committed")
    elif (
        (verb == "rm" and ("f" in letters or given("--force")) and not given("--cached", "--dry-run"))
        or (verb == "worktree" and "remove" in words and ("f" in letters or given("--force")))
        or (verb == "read-tree" and given("--reset"))
        or (verb == "checkout-index" and "f" in letters)
    ):
        yield phrase("it throws away changes that are not committed")
    elif verb == "branch" and ("D" in letters or (given("--delete") and given("--force"))):
        yield phrase("it removes a branch even when nothing else holds its commits")
    elif (verb == "stash" and words & {"drop", "clear"}) or (verb == "reflog" and words & {"expire", "delete"}):
        yield phrase("it removes work that nothing else holds")
    elif verb in ("filter-branch", "filter-repo"):
        yield phrase("it rewrites the whole history")
    elif (verb == "gc" and given("--prune")) or verb == "prune":
        yield phrase("it removes objects beyond recovery")
    elif verb == "update-ref" and ("d" in letters or given("--delete")):
        yield phrase("it removes a branch or tag")
    elif verb == "config" and not given("--get", "--get-all", "--get-regexp", "--list", "--unset"):
        names = [word for word in rest if not word.startswith("-") and word not in ("set", "get", "list")]
        if len(names) > 1 and _STARTS_PROGRAM.fullmatch(names[0]):
            yield STARTS_WITH_GIT
    if any(word.startswith("ext::") for word in rest):
        yield phrase("an `ext::` address runs a command")
    if given("--upload-pack", "--receive-pack") or (verb in ("clone", "ls-remote") and "u" in letters):
        yield phrase("it names the program to run on the other side")


def _docker(arguments: list[str]) -> Iterator[str]:
    joined = [f"{one}={two}" for one, two in zip(arguments, [*arguments[1:], ""], strict=True)]
    for word, both in zip(arguments, joined, strict=True):
        mount = both.partition("=")[2] if re.match(r"(-v|--volume|--mount)(=|$)", word) else word[2:]
        mount = word.partition("=")[2] if re.match(r"(-v|--volume|--mount)=", word) else mount
        if _HOST_ACCESS.fullmatch(word) or _HOST_ACCESS.fullmatch(both):
            yield phrase("it gives the container the rights of the whole machine")
        elif re.match(r"-v|--volume|--mount", word) and _WIDE_MOUNT.fullmatch(mount):
            yield phrase("it gives the container folders of the whole machine")
    verbs = [word for word in arguments if not word.startswith("-")]
    if verbs[:1] == ["rm"] and not any(re.match(r"-\w*[fv]|--(force|volumes)", word) for word in arguments):
        return  # removes no container that runs, and no volume
    if any(_LOSES.fullmatch(verb) for verb in verbs[: 2 if verbs[:1] != ["compose"] else 4]) and "run" not in verbs[:1]:
        yield phrase("it removes containers, images or their contents")


def _kubectl(arguments: list[str]) -> Iterator[str]:
    operands = [word for word in arguments if not word.startswith("-")]
    verbs = set(operands[:3])
    secret = any(re.match(r"secrets?\b", one, re.IGNORECASE) for word in operands[1:] for one in word.split(","))
    if verbs & {"delete", "drain", "replace", "scale", "cordon", "taint", "evict"}:
        yield phrase("it removes or stops what runs in the cluster")
    elif verbs & {"exec", "run", "debug", "attach", "cp"}:
        yield phrase("it runs commands in the cluster")
    elif secret:
        yield phrase("it shows secrets of the cluster")


def _cloud(arguments: list[str]) -> Iterator[str]:
    verbs = [word for word in arguments if not word.startswith("-")][:4]
    flags = ("-destroy", "--delete", "--destroy", "-auto-approve", "--auto-approve", "--become")
    if any(_REMOVES.fullmatch(verb.rpartition(":")[2]) for verb in verbs) or any(
        word in flags or "state=absent" in word for word in arguments
    ):
        yield phrase("it removes or changes what runs in the cloud, beyond recovery")


_TRIES = {"-s", "--simulate", "--just-print", "--dry-run"}


def _packages(arguments: list[str]) -> Iterator[str]:
    """Package managers of the system: all but looking changes the machine."""
    verbs = [word for word in arguments if not word.startswith("-")]
    looks = names("list show search policy depends rdepends showpkg info leaves deps outdated help doctor config")
    if (
        arguments
        and _TRIES.isdisjoint(arguments)
        and (
            not verbs or verbs[0] not in looks or any(re.match(r"-[oc]\b|--(option|config)", one) for one in arguments)
        )
    ):
        yield _INSTALLED


def _curl(arguments: list[str]) -> Iterator[str]:
    if any(re.search(r"(?:docker|podman|containerd|crio)[^/]*\.sock", word) for word in arguments):
        yield phrase("it gives the container the rights of the whole machine")


def _netcat(arguments: list[str]) -> Iterator[str]:
    letters = {letter for word in arguments if re.match(r"-[^-]", word) for letter in word[1:]}
    if letters & {"e", "c"} or any(
        re.search(r"(?i)^(--(sh-)?)?(exec|system)|(exec|system):", word) for word in arguments
    ):
        yield phrase("it hands a shell to another machine")
    if "l" in letters or "--listen" in arguments:
        yield phrase("it opens a way in for other machines")


ELSEWHERE: dict[str, Callable[[list[str]], Iterator[str]]] = {
    "git": _git,
    **dict.fromkeys(
        names("docker podman nerdctl docker-compose podman-compose lxc lxd virsh multipass ctr crictl runc"), _docker
    ),
    **dict.fromkeys(["kubectl", "oc", "k3s"], _kubectl),
    **dict.fromkeys(
        names("""
            terraform tofu pulumi aws gcloud gsutil az doctl heroku fly flyctl vercel netlify eksctl ansible vagrant
            packer serverless sls cdk linode-cli ibmcloud oci s3cmd firebase wrangler supabase railway helm rclone mc
        """),
        _cloud,
    ),
    **dict.fromkeys(
        names("apt apt-get aptitude yum dnf zypper pacman apk brew port snap flatpak emerge choco winget scoop"),
        _packages,
    ),
    "curl": _curl,
    **dict.fromkeys(("nc", "ncat", "netcat", "nc.openbsd", "nc.traditional", "socat"), _netcat),
}


_WIDE = lazy_pattern(
    r"/\*?|~/?\*?|\.\.?/?\*?|(?:\*\*/)?\*|\*\*|\.\*|\.\./.*|/[a-zA-Z0-9_]+/?\*?|\$\{?HOME\}?/?\*?|\$\{?PWD\}?/?\*?|/home/[^/]+/?\*?"
    r"|/root/?\*?|/Users/[^/]+/?\*?"
)
_OUTSIDE = lazy_pattern(r"/(?!tmp/)|~|(?:.*/)?\.\.(?:/|$)")
_OPEN_TO_ALL = lazy_pattern(
    r"[=+]?0*o?[0-7]*[2367]|(?:.*,)?[ugo]*[oa][ugoa]*[+=][rxXst]*w.*|=[rxXst]*w.*|(?:.*,)?ugo?a?[+=]rwx.*"
    r"|(?:.*,)?[ug]*[oa][ug]*=[ug]+"
)
_SET_ID = lazy_pattern(r"[2-7][0-7]{3}|0[2-7][0-7]{3}|.*[+=][rwxXt]*s.*")
_CLOSED_TO_ALL = lazy_pattern(r"0{1,4}|a?[-=]rwx|a=|ugo=|-rwx|ugo-rwx")
STARTS_ITSELF = phrase("it starts itself again and again until the machine freezes")
_OWNER_ALONE = lazy_pattern(r"0?[1-7]00|[go]+-[rwxXst]+|[go]+=")
_LONGEST_MODE = 64

_PROTECTED: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        lazy_pattern(r"/dev/(?!null$|zero$|full$|std(in|out|err)$|tty$|fd/|shm/|pts/|ptmx$|u?random$|tcp/|udp/).*"),
        phrase("it writes straight to a device"),
    ),
    (lazy_pattern(r"/proc/(?!self/fd/).*|/sys/.*"), phrase("it changes the running kernel")),
    (lazy_pattern(r"(.*/)?\.ssh(/.*)?"), phrase("it changes who may log in")),
    (
        lazy_pattern(
            r"(.*/)?\.(bash(rc|_profile|_login|_logout|_aliases)|profile|zsh(rc|env)|zprofile|zlog(in|out)|[kct]?shrc"
            r"|login|inputrc|pam_environment|x(initrc|profile|session|sessionrc)|gitconfig|npmrc|yarnrc(\.yml)?|pypirc"
            r"|netrc|n?vimrc|exrc|tmux\.conf|screenrc|envrc|gdbinit|lldbinit|pythonrc(\.py)?|Rprofile|psqlrc|wgetrc"
            r"|curlrc|mailcap|forward|rhosts|gemrc|pythonstartup)"
        ),
        STARTS_SHELL,
    ),
    (
        lazy_pattern(r"(.*/)?\.git/(hooks(/.*)?|config|info/attributes|modules/.*/(hooks/.*|config))"),
        OF_GIT_ITSELF,
    ),
    (
        lazy_pattern(
            r"(.*/)?\.config/(autostart|systemd|fish|git|environment\.d|nvim|pip|kitty)(/.*)?"
            r"|.*/Library/Launch(Agents|Daemons)/.*"
        ),
        RUNS_ITSELF,
    ),
    (
        lazy_pattern(r"(.*/)?\.(vscode|idea|claude|cursor|ferrule|gemini|codex|husky)/.*|(.*/)?\.mcp\.json"),
        SETTINGS,
    ),
    (
        lazy_pattern(r"/var/spool/cron.*|(.*/)?crontab|(.*/)?authorized_keys|(.*/)?sudoers(\.d/.*)?"),
        phrase("it changes what runs, or who may"),
    ),
    (
        lazy_pattern(r"/(etc|boot|usr|bin|sbin|lib(32|64)?|opt|System|Library)(/.*)?|/"),
        phrase("it changes files of the system"),
    ),
)
_SECRET = lazy_pattern(
    r"(.*/)?(\.ssh(/.*)?|\.env(\..*)?|\.aws/.*|\.netrc|\.pgpass|\.gnupg(/.*)?|\.kube/config|\.docker/config\.json"
    r"|\.npmrc|\.pypirc|\.git-credentials|id_(rsa|dsa|ecdsa|ed25519)|[^/]*\.(pem|key|p12|pfx|keystore|kdbx)"
    r"|credentials(\.json)?|secrets?(\.[a-z]+)?|\.my\.cnf|\.config/(gcloud|gh)/.*|\.bash_history|\.zsh_history|shadow"
    r"|gshadow|master\.passwd|passwd|environ|\.vault-token|\.password-store/.*)"
)
_RAW = lazy_pattern(r"/dev/(sd|nvme|vd|hd|xvd|mmcblk|dm-|mapper/|disk/|mem|kmem|port|loop|ram|md).*|/proc/kcore")

_RAW_BYTES = phrase("it copies raw bytes over whatever is there")
_STATE = phrase("it changes how the whole machine works")
_STOPS = phrase("it stops or restarts the machine")
_DISKS = phrase("it can destroy everything on a disk")
_PEOPLE = phrase("it changes who may use the machine")
_OTHER_RIGHTS = phrase("it uses the rights of another user, often the administrator's")
_OPENS = phrase("it lets everyone on the machine change the files")
_DATA = phrase("it destroys data in a database")
_INSTALLED = phrase("it changes what is installed on the machine")
_LATER = phrase("it runs a command later, unattended")
_WHOLE_FOLDERS = phrase("it removes folders and everything in them, without asking")
_BEYOND_RECOVERY = phrase("it destroys the contents of files beyond recovery")
_ALWAYS: dict[str, str] = {
    **dict.fromkeys(
        names("""
            sudo sudo-rs doas pkexec sudoedit gosu su-exec run0 please dzdo su runuser sg capsh setpriv setuidgid
            s6-setuidgid gsudo gksu gksudo pfexec ksu kdesu kdesudo beesu calife chpst login start-stop-daemon
        """),
        _OTHER_RIGHTS,
    ),
    **dict.fromkeys(
        names("""
            shutdown reboot halt poweroff init telinit rtcwake pm-suspend pm-hibernate gnome-session-quit
            xfce4-session-logout openrc-shutdown runit-init ipmitool racadm esxcli upsmon ubus
            transactional-update
        """),
        _STOPS,
    ),
    **dict.fromkeys(
        names("""
            fdisk sfdisk cfdisk gdisk sgdisk parted wipefs blkdiscard hdparm mkswap pvcreate pvremove vgcreate vgremove
            lvcreate lvremove lvresize cryptsetup mdadm resize2fs tune2fs e2fsck fsck debugfs badblocks zpool zfs btrfs
            diskutil hdiutil newfs partprobe losetup dmsetup sg_format nvme diskpart
            sg_dd sg_write_same flash_erase ubiformat gpart virt-format vmkfstools
        """),
        _DISKS,
    ),
    **dict.fromkeys(
        names("""
            useradd userdel usermod adduser deluser groupadd groupdel groupmod passwd chpasswd gpasswd chsh chfn visudo
            vipw vigr newgrp newusers chage dscl dseditgroup pw
        """),
        _PEOPLE,
    ),
    **dict.fromkeys(
        names("""
            insmod modprobe rmmod depmod kexec umount swapoff setenforce aa-disable aa-teardown apparmor_parser
            pivot_root switch_root ipvsadm iwconfig tc ethtool brctl update-grub grub-install efibootmgr bcdedit
            auditctl semanage setsebool update-alternatives spctl csrutil nvram launchctl rc-service update-rc.d
            chkconfig initctl wall logger systemd-tmpfiles dpkg-statoverride nfs4_setfacl setfattr
        """),
        _STATE,
    ),
    **dict.fromkeys(
        names("pkill killall xkill skill slay killall5"), phrase("it ends every process that matches a name")
    ),
    **dict.fromkeys(["at", "batch", "systemd-run", "anacron"], _LATER),
    **dict.fromkeys(["shred", "wipe", "srm", "scrub", "sfill"], _BEYOND_RECOVERY),
    **dict.fromkeys(["dd", "gdd", "dcfldd", "dc3dd", "ddrescue"], _RAW_BYTES),
    **dict.fromkeys(["chown", "chgrp"], phrase("it changes who owns files")),
    "truncate": phrase("it discards the contents of files"),
    "mknod": phrase("it creates a device"),
    "chattr": phrase("it can lock files or unlock protected ones"),
    **dict.fromkeys(["setfacl", "icacls"], phrase("it changes who may use files")),
    **dict.fromkeys(["rimraf", "del-cli"], _WHOLE_FOLDERS),
    "setcap": phrase("it gives a program rights of the administrator"),
    "chroot": phrase("it makes another folder the root"),
    "unshare": phrase("it changes what a command may do"),
    "nsenter": phrase("it enters other namespaces of the machine"),
}
_ONLY_TELLS = frozenset({"--version", "--help", "-V", "-h"})
# What of these only looks: their arguments, joined by spaces. Nothing here may backtrack: others choose the text.
_FIREWALL = (
    r"(?:(?:-[LSnvt]++|--list(?:-\w++)?|--line-numbers|status|verbose|numbered|list|show|ruleset|tables|[A-Z]++|nat|filter)"
    r"(?: |\Z))++"
)
_LOOKS: dict[str, tuple[re.Pattern[str], str]] = {
    name: (lazy_pattern(looks), why)
    for name, looks, why in (
        ("mount", r"|-l", _STATE),
        ("hostname", r"(?:-(?![Fb])\S++(?: |\Z))*+", _STATE),
        ("ip", r"(?:-\S++ )*+\w++(?: (?:show|list|ls|s|get)\b.*)?", _STATE),
        ("ifconfig", r"|-a|\w+", _STATE),
        ("sysctl", r"(?!.*=)(?!.*(?:^| )-\w*[wpf]).+", _STATE),
        ("arp", r"(?:-[ane]++(?: |\Z))++", _STATE),
        ("route", r"(?:-[ne]++(?: |\Z))*+", _STATE),
        ("swapon", r"-s|--show\S*", _STATE),
        *((name, r"(?:(?!of=)\w++=\S*+(?: |\Z))++", _RAW_BYTES) for name in ("dd", "gdd")),
        ("ldconfig", r"-p|--print-cache", _STATE),
        ("service", r"--status-all|\S+ status", _STATE),
        *(
            (name, r"(?:-\S++(?: |\Z))*+(?:(?:list|show|status)\S*(?: .*)?)?", _STATE)
            for name in ("loginctl", "machinectl")
        ),
        ("nmcli", r"|(?:\w++ )*?(?:status|show|list)\b.*", _STATE),
        (
            "systemctl",
            r"(?:-\S++(?: |\Z))*+(?:(?:status|show|cat|list-\S+|is-\S+|get-default|show-environment)\b.*)?",
            phrase("it starts, stops or changes services of the machine"),
        ),
        ("crontab", r"-l", phrase("it changes commands that run by themselves")),
        *(
            (name, _FIREWALL, phrase("it changes what the firewall lets through"))
            for name in names("iptables ip6tables nft ufw firewall-cmd pfctl")
        ),
        ("history", r"|\d+", phrase("it hides what was done")),
        ("hash", r"(?!.*-\w*p).*", phrase("it changes which program a name starts")),
        ("enable", r"|-[anp]+(?: \w+)?", phrase("it can load code into the shell")),
    )
}
# The other way round: what of these asks, by their arguments joined by spaces.
_SAYS: dict[str, tuple[re.Pattern[str], str]] = {
    name: (lazy_pattern(asks, re.IGNORECASE), why)
    for among, asks, why in (
        ("dropdb dropuser", "", _DATA),
        (
            """psql mysql mariadb sqlite3 mongo mongosh redis-cli cqlsh sqlcmd clickhouse-client clickhouse influx
            duckdb mysqladmin etcdctl""",
            (
                r"\b(drop\s+\w+|truncate\s+|delete\s+from|dropdatabase|\.drop\(|alter\s+table\s+\S+\s+drop|flushall"
                r"|flushdb|copy\s.{1,200}\bprogram\b|load_file|into\s+outfile|deletemany|remove\(\{\}\)"
                r"|shutdown\s*(?:;|$|no?save)|config\s+set)"
            ),
            _DATA,
        ),
        (
            "dpkg rpm",
            r"^(?!(?-i:-[lLsSpWf]|-q[ailfcdRp]*+(?: |$))|--(?:list|status|search|get-sel|print-|show|verify|info))",
            _INSTALLED,
        ),
        ("pip pip3 conda mamba", r"^(?:-\S+ )*(?:[^-]\S* )?uninstall\b", phrase("it removes packages")),
        (
            "npm pnpm yarn cargo gem poetry uv twine",
            r"^(?:-\S+ )*(?:publish|unpublish|deprecate|yank|push|upload)(?: |$)",
            phrase("it publishes or removes a package for everyone"),
        ),
        (
            "ssh autossh scp sftp slogin",
            r"(?:^| )(?:-o\s*)?\w*command\b",
            phrase("it names a command for ssh to run here"),
        ),
        (
            "gh glab hub",
            r"(?:^| )(?:-X|--method)?[ =]?delete(?: |$)|^(?:\S+ ){0,2}(?:archive|remove|transfer)(?: |$)",
            phrase("it removes files on the other machine"),
        ),
        ("busctl dbus-send gdbus qdbus", r"\b(?:PowerOff|Reboot|Halt|KExec|Suspend|Hibernate)", _STOPS),
        (
            "source .",
            r"^(?:<\(|\$\(|`|/dev/stdin|/dev/fd/|/proc/self/fd/)",
            phrase("it runs text that another command makes"),
        ),
        ("umask", r"(?:^| )(?:[0-7]*[0145](?: |$)|(?:\S*,)?[ug]*[oa][ug]*[+=]\w*w)", _OPENS),
        (
            "cp ln gcp",
            (
                r"(?:^| )(?:(?:/usr)?/s?bin/|\$\((?:which|command -v|type -p) )"
                r"(?:rm|dd|chmod|sudo|su|mkfs\S*|shutdown|reboot)(?:[ )]|$)"
            ),
            phrase("it gives a dangerous program another name"),
        ),
    )
    for name in among.split()
}
_DISK_LISTS = lazy_pattern(r"(-l|--list|-V|--version|print)\b.*|.* print|list.*|status.*|get .*")
_POWER = names("poweroff reboot halt kexec suspend hibernate hybrid-sleep soft-reboot rescue emergency isolate")
_WRITES_LAST = names("cp mv ln install rsync scp gcp")
_WRITES_ALL = names("tee rm grm rmdir unlink touch mkdir truncate shred mv chmod chown sponge")


class Arguments:
    """Options told from operands, without knowing the program: letters, long names, and the rest."""

    def __init__(self, arguments: list[str]) -> None:
        self.letters: set[str] = set()
        self.long: list[str] = []
        self.operands: list[str] = []
        for at, word in enumerate(arguments):
            if word == "--":
                self.operands += arguments[at + 1 :]
                return
            if word.startswith("--"):
                self.long.append(word.partition("=")[0])
            elif word.startswith("-") and len(word) > 1:
                self.letters |= set(word[1:])
            else:
                self.operands.append(word)

    def has(self, letters: str, *names: str) -> bool:
        """Whether one of these is given; long names may be shortened, as programs allow."""
        if not self.letters.isdisjoint(letters):
            return True
        return any(len(one) > 2 and name.startswith(one) for one in self.long for name in names)


def dangers_of(words: list[str]) -> list[str]:
    """Why these words ask before they run; none for most."""
    name, arguments = re.sub(r"@[\w.^~-]*$", "", likely_name(words)), words[1:]
    if not name:
        return list(_of_unknown(words)) if words else []
    if len(arguments) == 1 and arguments[0] in _ONLY_TELLS:
        return []
    found = list(_by_name(name, arguments))
    if name in SHELLS and arguments[:1] in (["$0"], ["${0}"]):
        found.append(STARTS_ITSELF)
    found += _of_written(name, arguments)
    if name not in ("ls", "stat", "file", "test", "[", "echo", "printf", "df", "lsblk", "blkid") and any(
        _RAW.fullmatch(re.sub("^if=", "", one)) for one in arguments
    ):
        found.append(phrase("it reads a whole disk or the memory, bypassing all permissions"))
    return list(dict.fromkeys(found))


def danger_of_writing(path: str) -> str:
    """Why writing to this path asks first; empty where it need not."""
    path = re.sub(r"^(\$\{?HOME\}?)(?=/)", "~", path)
    path = normpath(path).replace("//", "/") if path.startswith("/") else path
    return next((why for pattern, why in _PROTECTED if pattern.fullmatch(path)), "")


def is_secret(path: str) -> bool:
    """Whether a file is likely to hold secrets."""
    return _SECRET.fullmatch(path) is not None


def _by_name(name: str, arguments: list[str]) -> Iterator[str]:
    said = " ".join(arguments)
    if (looks := _LOOKS.get(name)) is not None:
        if any(isinstance(word, Guess) for word in arguments) or looks[0].fullmatch(said) is None:
            yield _STOPS if name in ("systemctl", "loginctl") and not _POWER.isdisjoint(arguments) else looks[1]
    elif (says := _SAYS.get(name)) is not None:
        if says[0].search(said):
            yield says[1]
    elif name in _ALWAYS:
        if not (_ALWAYS[name] is _DISKS and _DISK_LISTS.fullmatch(said)):
            yield _ALWAYS[name]
    elif (check := _CHECKS.get(name) or ELSEWHERE.get(name)) is not None:
        yield from check(arguments)
    elif re.fullmatch(r"mkfs(\..+)?|mke2fs|mkntfs|mkdosfs|newfs_.+", name):
        yield phrase("it wipes a whole disk")


_MADE_UP = lazy_pattern(r"\$\{(?:!|\w+(?:\[[^]]*\])?(?:[/#%^,@]|:\s?\d))|(?:/[^$]*|[^/$]*)(?:\[\w|\?)")
"""Names of programs that are put together, or found by a pattern outside the project."""


def _of_unknown(words: list[str]) -> Iterator[str]:
    """A program that only the run shows: asked about where its words would be dangerous for one that removes."""
    first = words[0]
    if first == "…":
        yield phrase("which program it runs is only known once it runs")
    if first.removeprefix("./") in ("$0", "${0}"):
        yield STARTS_ITSELF
    if (first.startswith(("$(", "`")) and "/" not in first[-24:].rpartition(")")[2]) or _MADE_UP.match(first):
        yield phrase("which program it runs is only known once it runs")
    for name in ("rm", "chmod", "dd"):
        known = [word for word in words[1:] if not isinstance(word, Guess)]
        if name != "dd" or any(word.startswith("of=") for word in known):
            yield from (_CHECKS[name](words[1:]) if name in _CHECKS else [_ALWAYS[name]] if known else [])


def _of_written(name: str, arguments: list[str]) -> Iterator[str]:
    operands = [word for word in arguments if not word.startswith("-")]
    written: list[str] = []
    if name == "chmod" and operands and _OWNER_ALONE.fullmatch(operands[0]):
        return  # whoever closes a file to others changes nothing of what it says
    if name in _WRITES_ALL:
        written = operands
    elif name in _WRITES_LAST:
        written = operands[-1:]
    elif name in ("sed", "gsed", "perl") and any(re.match(r"-\w*i|--in-place", word) for word in arguments):
        written = operands[1:]
    elif name == "dd":
        written = [word[3:] for word in operands if word.startswith("of=")]
    elif name in ("curl", "wget"):
        flags = ("-o", "--output", "-O", "--output-document", "-P")
        written = [value for flag, value in pairwise(arguments) if flag in flags]
    yield from filter(None, map(danger_of_writing, written))


def wide(path: str) -> bool:
    """Whether a path names a tree far wider than one project: the root, a home, all that is here."""
    return _WIDE.fullmatch(path) is not None


def _rm(arguments: list[str]) -> Iterator[str]:
    given = Arguments(arguments)
    recursive, wide_one = given.has("rR", "--recursive"), any(wide(path) for path in given.operands)
    if recursive and (given.has("f", "--force") or "--interactive=never" in arguments):
        yield _WHOLE_FOLDERS
    elif recursive and (wide_one or any(map(_OUTSIDE.match, given.operands))):
        yield phrase("it removes a whole tree that contains much more than one project's files")
    elif recursive and any(isinstance(path, Guess) for path in given.operands):
        yield phrase("it removes folders and everything in them, and which ones is only known at run time")
    elif wide_one:
        yield phrase("it removes everything in a folder")
    elif any(is_filled_in(path) or re.match(r"(?:\$\(|`)(?!\s*mktemp\b)", path) for path in given.operands):
        yield phrase("it removes all that another command finds")
    if any(word.startswith("--no-pr") for word in given.long):
        yield phrase("it would remove the root folder")
    first = "".join(arguments[:1]) if arguments and isinstance(arguments[0], Guess) else ""
    if arguments[:1] in (["$@"], ["$*"]) or (
        len(arguments) > 1 and arguments[0] is not first and first.startswith("$")
    ):
        yield phrase("whether it removes whole folders is only known at run time")


def _chmod(arguments: list[str]) -> Iterator[str]:
    given = Arguments(arguments)
    taken_away = next((word for word in arguments if re.fullmatch(r"-[rwxXst]+", word)), "")
    mode, *paths = [taken_away, *given.operands] if taken_away else given.operands or [""]
    if "--reference" in given.long:
        if given.has("R", "--recursive"):
            yield phrase("which rights it gives is only known at run time")
        return
    if len(mode) > _LONGEST_MODE or (isinstance(mode, Guess) and mode.startswith("$")):
        yield phrase("which rights it gives is only known at run time")
        return
    if _SET_ID.fullmatch(mode):
        yield phrase("it lets a program run with its owner's rights")
    elif _OPEN_TO_ALL.fullmatch(mode):
        yield _OPENS
    recursive = "R" in given.letters or "--recursive" in given.long
    wider = [path for path in paths if wide(path) and not re.fullmatch(r"\.?/?\*?", path.lstrip("/") or "/")]
    if recursive and (_CLOSED_TO_ALL.fullmatch(mode) or wider or "/" in paths):
        yield phrase("it changes the rights of a whole tree")
    elif _CLOSED_TO_ALL.fullmatch(mode):
        yield phrase("it takes all rights away")


def _mv(arguments: list[str]) -> Iterator[str]:
    operands = Arguments(arguments).operands
    if operands and operands[-1].startswith("/dev/"):
        yield phrase("it throws files away")
    if any(wide(source) for source in operands[:-1]):
        yield phrase("it moves a whole tree away")


def _find(arguments: list[str], name: str = "find") -> Iterator[str]:
    runs = {words[0].rpartition("/")[2] for words in started_by_find(name, arguments)}
    if (name == "find" and deletes(arguments)) or runs & {"unlink", "rmdir", "shred", "rm"}:
        yield phrase("it removes all that it finds, folders and all, without asking")


def _kill(arguments: list[str]) -> Iterator[str]:
    everything = [word for word in arguments[1:] if word == "-1"] + [word for word in arguments if word in ("0", "1")]
    if everything and arguments[0] not in ("-0", "-l", "-L"):
        yield phrase("it ends every process that it can")


def _rsync(arguments: list[str]) -> Iterator[str]:
    tries = any(re.fullmatch(r"-[a-zA-Z]*n[a-zA-Z]*|--dry-run", word) for word in arguments)
    if not tries and any(word.startswith(("--del", "--remove-source")) for word in arguments):
        yield phrase("it removes files that the source lacks")
    yield from _made_with_mode(arguments)


def _tar(arguments: list[str]) -> Iterator[str]:
    letters = "".join(word for at, word in enumerate(arguments) if re.fullmatch(r"-\w+", word) or at == 0)
    if ("P" in letters or "--absolute-names" in arguments) and ("x" in letters or "--extract" in arguments):
        yield phrase("it writes wherever the archive says")
    if "--remove-files" in arguments:
        yield _WHOLE_FOLDERS
    yield from _made_with_mode(arguments)


def _made_with_mode(arguments: list[str]) -> Iterator[str]:
    for flag, mode in pairwise([*arguments, ""]):
        if flag in ("-m", "--mode", "--chmod"):
            yield from _chmod([mode])
        elif given := re.fullmatch(r"(?:-[a-zA-Z]*m(?=[0-7augo=+])|--mode=|--chmod=)(.+)", flag):
            for one in given[1].split(","):
                yield from _chmod([re.sub(r"^[DF](?=[0-7ugoa])", "", one)])


def _archives(arguments: list[str]) -> Iterator[str]:
    if "-sdel" in arguments or any(re.fullmatch(r"-[a-ln-zA-Z0-9]*m\w*|--move", word) for word in arguments[:-1]):
        yield _WHOLE_FOLDERS


def _cmake(arguments: list[str]) -> Iterator[str]:
    if arguments[:1] == ["-E"] and arguments[1:2] != ["rm"] and "".join(arguments[1:2]).startswith("rem"):
        yield _WHOLE_FOLDERS
    elif arguments[:2] == ["-E", "rm"]:
        yield from _rm(arguments[2:])


_CHECKS: dict[str, Callable[[list[str]], Iterator[str]]] = {
    **dict.fromkeys(("rm", "grm", "unlink"), _rm),
    "chmod": _chmod,
    **dict.fromkeys(("install", "mkdir", "mkfifo"), _made_with_mode),
    "mv": _mv,
    **dict.fromkeys(("find", "gfind"), _find),
    **dict.fromkeys(("fd", "fdfind"), partial(_find, name="fd")),
    "kill": _kill,
    "rsync": _rsync,
    "cmake": _cmake,
    **dict.fromkeys(("zip", "7z", "7za", "7zz"), _archives),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _tar),
}
