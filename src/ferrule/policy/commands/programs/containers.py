"""Containers, clusters, clouds and databases."""

from __future__ import annotations

import re

from ferrule.core.phrases import phrase

from ..finding import READS, RUNS, Finding
from ..naming import names
from ..options import grammar, parse
from .table import Operands, Program, informs, reader, runs, subcommands

_LOOKS = reader(
    "looks",
    open=True,
    operands=Operands.WORDS,
    spoils=dict.fromkeys(
        ("--kubeconfig", "--config", "--host", "--post-renderer"), (RUNS, "reaches elsewhere, or runs a program")
    ),
)
_DOCKER_READS = names("ps images version info inspect logs top stats history port diff events")
_DOCKER_TWO_WORDS = {
    "container": "ls list ps inspect logs top stats port diff",
    "image": "ls list inspect history",
    "volume": "ls inspect",
    "network": "ls inspect",
    "system": "df info",
    "context": "ls show",
    "compose": "ps ls logs images top version",
    "node": "ls",
    "service": "ls ps",
    "stack": "ls ps",
    "manifest": "inspect",
    "plugin": "ls",
    "secret": "ls",
    "config": "ls",
    "buildx": "ls",
}
_DOCKER_LOSES = re.compile(r"rm|rmi|prune|kill|down|remove")
_HOST_ACCESS = re.compile(
    r"--privileged|--pid=host|--net(work)?=host|--ipc=host|--userns=host|--cap-add.*|--device.*|--security-opt.*unconfined.*"
)
_WIDE_MOUNT = re.compile(
    r"(?:.*(?:source|src)=)?(/|/(etc|root|home|var|usr|boot|proc|sys|dev|var/run/docker\.sock|run/docker\.sock)[^:,]*|~|\$HOME)([:,].*)?"
)


def _docker_otherwise(name: str, arguments: list[str]) -> Finding:
    dangers: list[str] = []
    for at, word in enumerate(arguments):
        following = arguments[at + 1] if at + 1 < len(arguments) else ""
        mount = (
            following
            if word in ("-v", "--volume", "--mount")
            else word.partition("=")[2]
            if word.startswith(("-v=", "--volume=", "--mount="))
            else word[2:]
            if word.startswith("-v/")
            else ""
        )
        joined = (
            f"{word}={following}"
            if word in ("--pid", "--net", "--network", "--ipc", "--userns", "--security-opt")
            else word
        )
        if _HOST_ACCESS.fullmatch(joined):
            dangers.append(phrase("it gives the container the rights of the whole machine"))
        elif mount and _WIDE_MOUNT.fullmatch(mount):
            dangers.append(phrase("it gives the container folders of the whole machine"))
    verbs = [word for word in arguments if not word.startswith("-")][:3]
    if any(_DOCKER_LOSES.fullmatch(verb) for verb in verbs[:2]) and not dangers:
        dangers.append(phrase("it removes containers, images or what they hold"))
    return Finding(RUNS, f"`{name}` starts or changes containers", dangers=dangers)


_DOCKER = subcommands(
    {
        **dict.fromkeys(_DOCKER_READS, _LOOKS),
        **{f"{first} {second}": _LOOKS for first, seconds in _DOCKER_TWO_WORDS.items() for second in seconds.split()},
    },
    globals_long="version help",
    otherwise=informs("-v", "version", otherwise=_docker_otherwise),
)

_KUBECTL_READS = frozenset(
    names("get describe logs explain version api-resources api-versions cluster-info top events")
)
_KUBECTL_TWO = frozenset(
    {
        ("config", "view"),
        ("config", "get-contexts"),
        ("config", "current-context"),
        ("config", "get-clusters"),
        ("rollout", "status"),
        ("rollout", "history"),
        ("auth", "can-i"),
        ("auth", "whoami"),
    }
)
_KUBECTL = grammar(
    "n:o:l:c:Awfpv:L:h",
    "namespace= output= selector= container= all-namespaces watch follow previous tail= since= since-time="
    " sort-by= field-selector="
    " show-labels show-kind no-headers context= cluster= user= label-columns= chunk-size= timestamps"
    " all-containers prefix limit-bytes="
    " recursive short client minify ignore-not-found watch-only request-timeout= help api-group="
    " namespaced? verbs= containers"
    " max-log-requests= output-watch-events for= types= subresource=",
)


def _kubectl(name: str, arguments: list[str]) -> Finding:
    parsed = parse(_KUBECTL, arguments)
    operands = parsed.operands
    secret = any(re.match(r"secrets?\b", part, re.IGNORECASE) for word in operands[1:] for part in word.split(","))
    raw = parsed.has("--raw", "--flatten")
    known = operands[:1] and (operands[0] in _KUBECTL_READS or tuple(operands[:2]) in _KUBECTL_TWO)
    if (
        known
        and not parsed.unknown
        and not parsed.loose
        and not secret
        and not raw
        and operands[:2] != ["cluster-info", "dump"]
    ):
        return Finding(READS, f"`{name} {operands[0]}` looks at the cluster")
    dangers: list[str] = []
    if operands[:1] and operands[0] in ("delete", "drain", "replace", "scale", "cordon", "taint", "evict"):
        dangers.append(phrase("it removes or stops what runs in the cluster"))
    elif operands[:1] and operands[0] in ("exec", "run", "debug", "attach", "cp"):
        dangers.append(phrase("it runs commands in the cluster"))
    elif secret:
        dangers.append(phrase("it shows secrets of the cluster"))
    return Finding(RUNS, f"`{name}` changes the cluster, or does what nobody described", hosts=[None], dangers=dangers)


_DESTROYS = re.compile(
    r"\b(drop\s+\w+|truncate\s+|delete\s+from|dropdatabase|\.drop\(|alter\s+table\s+\S+\s+drop"
    r"|flushall|flushdb|copy\s.+\bprogram\b|load_file|into\s+outfile|deletemany|remove\(\{\}\)|shutdown|config\s+set)",
    re.IGNORECASE,
)
_REMOVES = re.compile(
    r"destroy|delete|delete-.*|terminate.*|rb|rm|purge.*|remove.*|drop|uninstall|rmi|prune|cancel.*|deregister.*|detach.*|revoke.*|reset"
)


def _database(name: str, arguments: list[str]) -> Finding:
    if len(arguments) == 1 and arguments[0] in ("--version", "-V", "--help", "version"):
        return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
    text = " ".join(arguments)
    dangers = [phrase("it destroys data in a database")] if _DESTROYS.search(text) else []
    return Finding(RUNS, f"`{name}` talks to a database, and can run commands", hosts=[None], dangers=dangers)


def _cloud(name: str, arguments: list[str]) -> Finding:
    if len(arguments) == 1 and arguments[0] in ("--version", "-v", "version", "--help"):
        return Finding(READS, f"`{name} {arguments[0]}` tells about itself")
    verbs = [word for word in arguments if not word.startswith("-")][:4]
    removes = any(_REMOVES.fullmatch(verb) for verb in verbs) or any(
        word in ("-destroy", "--delete", "--destroy", "-auto-approve", "--auto-approve") for word in arguments
    )
    dangers = [phrase("it removes or changes what runs in the cloud, without a way back")] if removes else []
    return Finding(RUNS, f"`{name}` changes things beyond this machine", hosts=[None], dangers=dangers)


CONTAINERS: dict[str, Program] = {
    **dict.fromkeys(["docker", "podman", "nerdctl"], _DOCKER),
    **dict.fromkeys(
        ["docker-compose", "podman-compose"],
        subcommands(
            dict.fromkeys(("ps", "ls", "logs", "images", "top", "version"), _LOOKS),
            otherwise=informs("-v", otherwise=_docker_otherwise),
        ),
    ),
    **dict.fromkeys(["kubectl", "oc", "k3s"], _kubectl),
    "helm": subcommands(
        dict.fromkeys(("list", "ls", "status", "history", "version", "get", "env"), _LOOKS), otherwise=_cloud
    ),
    **dict.fromkeys(
        names(
            """
            terraform tofu pulumi aws gcloud gsutil az doctl heroku fly flyctl vercel netlify eksctl ansible
            ansible-playbook vagrant packer serverless sls cdk linode-cli ibmcloud oci s3cmd mc firebase wrangler
            supabase railway
            """
        ),
        _cloud,
    ),
    **dict.fromkeys(
        names(
            """
        psql mysql mariadb sqlite3 mongo mongosh redis-cli cqlsh sqlcmd clickhouse-client clickhouse influx duckdb
        mysqladmin etcdctl pg_restore
        """
        ),
        _database,
    ),
    **dict.fromkeys(
        ["dropdb", "dropuser"], runs("removes a database or account", phrase("it destroys data in a database"))
    ),
    **dict.fromkeys(
        ["createdb", "createuser", "pg_dump", "pg_dumpall", "mysqldump", "mongodump", "mongorestore"],
        runs("talks to a database"),
    ),
    **dict.fromkeys(
        names("lxc lxd virsh qemu-img VBoxManage multipass ctr crictl runc machinectl"),
        informs("version", otherwise=_docker_otherwise),
    ),
}
