"""The Kubernetes manifests: every container is probed, limited and confined, and every name fits the code."""

from typing import Any

import pytest
import yaml

from stoa.settings import Settings
from tests.deploy.declared import (
    API,
    DEPLOY,
    METRICS,
    OTHER_FILES_BYTES,
    USER,
    check_settings,
    documents,
    in_bytes,
    parse_command,
    upload_bytes,
)

FOLDER = DEPLOY / "kubernetes"
KUSTOMIZATION = yaml.safe_load((FOLDER / "kustomization.yml").read_text())
OBJECTS = [each for name in KUSTOMIZATION["resources"] for each in documents(FOLDER / name)]
WORKLOADS = {each["metadata"]["name"]: each for each in OBJECTS if each["kind"] in ("Deployment", "Job")}
EVERY = pytest.mark.parametrize("name", WORKLOADS)
SERVERS = pytest.mark.parametrize("name", ["stoa-api", "stoa-worker"])


def pod(name: str) -> dict[str, Any]:
    return WORKLOADS[name]["spec"]["template"]["spec"]


def container(name: str) -> dict[str, Any]:
    (found,) = pod(name)["containers"]
    return found


def only(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in OBJECTS if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def test_every_manifest_is_listed() -> None:
    assert {file.name for file in FOLDER.glob("*.yml")} == {*KUSTOMIZATION["resources"], "kustomization.yml"}
    assert {each["name"] for each in KUSTOMIZATION["images"]} == {container(name)["image"] for name in WORKLOADS}


@EVERY
def test_a_container_is_confined(name: str) -> None:
    spec, only_one = pod(name), container(name)
    assert spec["automountServiceAccountToken"] is False
    context = spec["securityContext"]
    assert (context["runAsNonRoot"], context["runAsUser"], context["fsGroup"]) == (True, USER, USER)
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert only_one["securityContext"] == {
        "readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}
    }  # fmt: skip
    (mount,), (volume,) = only_one["volumeMounts"], spec["volumes"]
    assert (mount["mountPath"], mount["name"]) == ("/data", volume["name"])
    assert "emptyDir" in volume
    assert only_one["resources"]["limits"]["memory"]
    assert set(only_one["resources"]["requests"]) == {"cpu", "memory"}


@EVERY
def test_a_container_runs_a_valid_command_with_valid_settings(name: str) -> None:
    command, options = parse_command(container(name)["args"])
    assert (name, command) in {("stoa-api", "serve"), ("stoa-worker", "worker"), ("stoa-migrate", "migrate")}
    assert command != "serve" or (options["no_background"] and options["no_migrate"])
    assert command != "worker" or options["metrics"] == f"0.0.0.0:{METRICS}"
    sources = [next(iter(each.values()))["name"] for each in container(name)["envFrom"]]
    assert sources == ["stoa", "stoa"]
    check_settings(only("ConfigMap", "stoa")["data"])


def test_the_volume_of_the_api_has_room_for_the_uploads_of_all_workers() -> None:
    (volume,) = pod("stoa-api")["volumes"]
    needed = upload_bytes(only("ConfigMap", "stoa")["data"])
    assert in_bytes(volume["emptyDir"]["sizeLimit"]) == needed + OTHER_FILES_BYTES


@SERVERS
def test_a_server_is_probed_and_spread(name: str) -> None:
    ports = {each["name"]: each["containerPort"] for each in container(name)["ports"]}
    probes = {kind: container(name)[f"{kind}Probe"]["httpGet"] for kind in ("startup", "readiness", "liveness")}
    if name == "stoa-api":
        assert {kind: probe["path"] for kind, probe in probes.items()} == {
            "startup": "/live", "readiness": "/ready", "liveness": "/live"
        }  # fmt: skip
        assert ports == {"http": API, "metrics": METRICS}
    assert all(probe["port"] in ports for probe in probes.values())
    labels = WORKLOADS[name]["spec"]["template"]["metadata"]["labels"]
    assert WORKLOADS[name]["spec"]["selector"]["matchLabels"] == labels
    (spread,) = pod(name)["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    budget = only("PodDisruptionBudget", name)["spec"]
    assert budget["selector"]["matchLabels"] == labels
    assert budget["minAvailable"] < WORKLOADS[name]["spec"]["replicas"]


def test_a_pod_has_left_the_service_and_finished_its_requests_before_it_is_killed() -> None:
    delay = int(only("ConfigMap", "stoa")["data"]["STOA_SHUTDOWN_DELAY_SECONDS"])
    assert delay >= Settings().shutdown_delay_seconds
    readiness = container("stoa-api")["readinessProbe"]
    assert readiness["timeoutSeconds"] < readiness["periodSeconds"]
    assert pod("stoa-api")["terminationGracePeriodSeconds"] > delay + Settings().drain_seconds
    assert WORKLOADS["stoa-api"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


def test_only_the_api_is_reachable_from_everywhere() -> None:
    (port,) = only("Service", "stoa-api")["spec"]["ports"]
    assert port["targetPort"] == "http"
    public, monitoring = only("NetworkPolicy", "stoa")["spec"]["ingress"]
    assert ([each["port"] for each in public["ports"]], "from" in public) == ([API], False)
    assert ([each["port"] for each in monitoring["ports"]], "from" in monitoring) == ([METRICS], True)
