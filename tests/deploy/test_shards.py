"""The files with two shards: their servers can replicate, and the commands that add the shards name them."""

import re
from typing import Any

import pytest
import yaml

from stoa.shards.commands import shard as shard_group
from tests.deploy.declared import DEPLOY, USER, check_settings, documents

COMPOSE = (DEPLOY / "compose/shards.yml").read_text()
FOLDER = DEPLOY / "kubernetes/shards"
SHARDS = ("east", "west")
# The least that each server needs, as docs/operations/shards.md says.
LEAST = {"max_replication_slots": 12, "max_wal_senders": 12, "max_logical_replication_workers": 4}


def services(text: str) -> dict[str, Any]:
    return yaml.safe_load(re.sub(r"\$\{(\w+)(?::[?-][^}]*)?\}", "x", text))["services"]


def added(words: list[str]) -> dict[str, Any]:
    """The options of `stoa shard add`; fails if the command line is invalid."""
    group, name, *arguments = words
    assert (group, name) == ("shard", "add")
    command = shard_group.commands[name]
    context = command.make_context(name, list(arguments))
    context.close()
    return context.params


def settings_of(service: dict[str, Any]) -> dict[str, str]:
    program, *options = service["command"]
    assert program == "postgres"
    return dict(option.removeprefix("-c").split("=", 1) for option in options)


@pytest.mark.parametrize("name", ["postgres", "postgres-east", "postgres-west"])
def test_every_server_can_replicate(name: str) -> None:
    found = settings_of(services(COMPOSE)[name])
    assert found["wal_level"] == "logical"
    for setting, least in LEAST.items():
        assert int(found[setting]) >= least
    assert int(found["max_worker_processes"]) >= 8 + int(found["max_logical_replication_workers"])


def test_no_role_of_a_server_that_replicates_ends_a_long_copy() -> None:
    [mounted] = services(COMPOSE)["postgres"]["volumes"]
    file, target, _ = mounted.split(":")
    former = services((DEPLOY / "compose/compose.yml").read_text())["postgres"]["volumes"]
    assert any(each.split(":")[1] == target for each in former), "it does not replace the role of the compose file"
    assert "SET statement_timeout" not in (DEPLOY / "compose" / file).read_text()


@pytest.mark.parametrize("name", SHARDS)
def test_compose_adds_a_shard_after_the_migration(name: str) -> None:
    found = services(COMPOSE)[f"shard-{name}"]
    options = added(found["command"])
    assert options["name"] == name
    assert f"@postgres-{name}:" in options["url"]
    check_settings(found["environment"])
    assert found["user"] == f"{USER}:{USER}"
    assert found["read_only"]
    assert "pgbouncer" not in str(found["environment"])
    waits = {each: condition["condition"] for each, condition in found["depends_on"].items()}
    assert waits[f"postgres-{name}"] == "service_healthy"
    assert "service_completed_successfully" in waits.values()


def test_compose_needs_no_variable_that_the_example_lacks() -> None:
    example = (DEPLOY / "compose/env.example").read_text()
    for name in set(re.findall(r"\$\{(\w+)", COMPOSE)):
        assert f"{name}=" in example


def test_every_manifest_of_shards_is_listed() -> None:
    listed = yaml.safe_load((FOLDER / "kustomization.yml").read_text())
    assert {file.name for file in FOLDER.glob("*.yml")} == {*listed["resources"], "kustomization.yml"}


@pytest.mark.parametrize("name", SHARDS)
def test_a_job_adds_a_shard_as_the_migration_runs(name: str) -> None:
    [job], [migration] = documents(FOLDER / f"{name}.yml"), documents(DEPLOY / "kubernetes/migrate.yml")
    pod, as_before = job["spec"]["template"]["spec"], migration["spec"]["template"]["spec"]
    [container], [migrates] = pod.pop("containers"), as_before.pop("containers")
    assert pod == as_before
    for part in ("image", "envFrom", "resources", "securityContext", "volumeMounts"):
        assert container[part] == migrates[part]
    options = added(container["args"])
    assert (options["name"], options["url"]) == (name, "$(SHARD_URL)")
    [variable] = container["env"]
    assert variable["valueFrom"]["secretKeyRef"] == {"name": "stoa-shards", "key": name.upper()}
