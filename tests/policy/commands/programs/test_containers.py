"""Containers, clusters, clouds, databases."""

from __future__ import annotations

import pytest

from ferrule.policy.commands.analyse import analyse


@pytest.mark.parametrize(
    "command",
    [
        "docker ps -a",
        "docker compose ps",
        "kubectl get pods -n x",
        "kubectl config current-context",
        "helm list",
        "aws --version",
    ],
)
def test_these_only_read(command: str):
    assert analyse(command).read_only


@pytest.mark.parametrize(
    "command",
    [
        "docker run x",
        "docker -H x ps",
        "kubectl get secrets",
        "kubectl apply -f x",
        "kubectl --kubeconfig=x get pods",
        "helm list --kubeconfig x",
        "terraform plan",
        "psql -c 'select 1'",
        "aws s3 ls",
    ],
)
def test_these_ask(command: str):
    assert not analyse(command).read_only
