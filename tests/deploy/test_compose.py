"""The compose file and what it mounts: settings, commands, addresses and limits fit each other."""

import configparser
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from stoa.settings import Settings
from tests.deploy.containerfile import read
from tests.deploy.declared import (
    API,
    DEPLOY,
    METRICS,
    OTHER_FILES_BYTES,
    ROOT,
    USER,
    check_settings,
    in_bytes,
    parse_command,
    upload_bytes,
)
from tests.support.haproxy import HAPROXY, needs_haproxy

FOLDER = DEPLOY / "compose"
TEXT = (FOLDER / "compose.yml").read_text()
VARIABLES = dict(re.findall(r"^(\w+)=(.*)$", (FOLDER / "env.example").read_text(), re.MULTILINE))
DELAY = Settings().shutdown_delay_seconds
PROMTOOL = shutil.which("promtool")


def _value(found: re.Match[str]) -> str:
    return VARIABLES[found[1]] or "x"


# As `docker compose config` would show it, with the values of env.example.
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(re.sub(r"\$\{(\w+)(?::[?-][^}]*)?\}", _value, TEXT))["services"]
STOA = {name: each for name, each in SERVICES.items() if each["image"].startswith("stoa:")}


def test_every_variable_is_in_the_example_and_no_secret_has_a_default() -> None:
    assert set(re.findall(r"\$\{(\w+)", TEXT)) == set(VARIABLES)
    required = set(re.findall(r"\$\{(\w+):\?", TEXT))
    assert required >= {name for name in VARIABLES if "PASSWORD" in name or "KEY" in name}
    assert {name for name, value in VARIABLES.items() if not value} == required - {"STOA_PUBLIC_URL"}


def test_stoa_runs_as_two_api_nodes_a_worker_and_one_migration() -> None:
    commands = {name: parse_command(each["command"]) for name, each in STOA.items()}
    assert {name: command for name, (command, _) in commands.items()} == {
        "migrate": "migrate", "api-1": "serve", "api-2": "serve", "worker": "worker"
    }  # fmt: skip
    for name in ("api-1", "api-2"):
        assert commands[name][1]["no_background"]
        assert commands[name][1]["no_migrate"]
    assert commands["worker"][1]["metrics"] == f"0.0.0.0:{METRICS}"
    for name, each in STOA.items():
        check_settings(each["environment"])
        assert each["user"] == f"{USER}:{USER}"
        assert each["read_only"]
        (mounted,) = each["tmpfs"]
        options, _, size = mounted.rpartition(",size=")
        assert options == f"/data:uid={USER},gid={USER},mode=0700"
        uploads = upload_bytes(each["environment"]) if commands[name][0] == "serve" else 0
        assert in_bytes(size) == uploads + OTHER_FILES_BYTES
        assert in_bytes(each["mem_limit"]) >= in_bytes(size) + memory_of_workers(each["environment"])
        assert int(each["stop_grace_period"].removesuffix("s")) > DELAY + Settings().drain_seconds
        waits = each["depends_on"]
        assert name == "migrate" or waits["migrate"]["condition"] == "service_completed_successfully"


def memory_of_workers(environment: dict[str, str]) -> int:
    """What the workers of a node need besides files: 150 MB each, and the responses that clients have not taken."""
    return int(environment.get("STOA_WORKERS", "1")) * (150_000_000 + Settings().max_unsent_bytes)


def test_every_service_is_limited_and_checked() -> None:
    for name, each in SERVICES.items():
        assert each["mem_limit"], name
        assert each["networks"] == ["stoa"], name
        assert each["restart"] == ("no" if name == "migrate" else "unless-stopped"), name
        # The entry point of PostgreSQL starts as root and changes its user itself.
        assert name == "postgres" or (each["cap_drop"], each["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
        # The nodes have the health check of the image.
        assert "healthcheck" in each or name in ("api-1", "api-2"), name
        assert set(each.get("depends_on", ())) <= set(SERVICES), name
    published = {port for each in SERVICES.values() for port in each.get("ports", ())}
    assert all(port.startswith("127.0.0.1:") for port in published), published


def test_every_mounted_file_exists() -> None:
    for name, each in SERVICES.items():
        for volume in each.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith(".") or (FOLDER / source).is_file(), f"{name}: {volume}"
    mounted = {volume.split(":")[0] for each in SERVICES.values() for volume in each.get("volumes", ())}
    assert mounted >= {"../../docs/operations/alerts.yml", "../../docs/operations/dashboard.json"}
    for each in SERVICES.values():
        if (build := each.get("build")) is not None:
            assert (FOLDER / build["context"] / build["dockerfile"]).is_file()


def test_statements_go_through_the_pooler_and_sessions_to_the_server() -> None:
    parser = configparser.ConfigParser()
    parser.read(FOLDER / "pgbouncer.ini")
    pooler = parser["pgbouncer"]
    assert (pooler["pool_mode"], int(pooler["max_prepared_statements"]) > 0) == ("transaction", True)
    assert (pooler["auth_type"], pooler["server_reset_query"]) == ("scram-sha-256", "")
    most = re.search(r"max_connections=(\d+)", " ".join(SERVICES["postgres"]["command"]))
    assert most is not None
    assert int(pooler["default_pool_size"]) < int(most[1]) / 2
    server = dict(word.split("=") for word in parser["databases"]["stoa"].split())
    environment: dict[str, str] = STOA["api-1"]["environment"]
    pooled, direct = (urlsplit(environment[f"STOA_DATABASE_{name}"]) for name in ("URL", "DIRECT_URL"))
    assert (pooled.hostname, pooled.port) == ("pgbouncer", int(pooler["listen_port"]))
    assert (direct.hostname, str(direct.port)) == (server["host"], server["port"]) == ("postgres", "5432")
    (stage,) = read(FOLDER / "pgbouncer.Containerfile")
    assert stage.one("USER").text == f"{USER}:{USER}"
    assert pooler["auth_file"] in stage.one("ENTRYPOINT").words[-1]


def test_the_proxy_and_the_monitoring_know_every_node() -> None:
    proxy = (FOLDER / "haproxy.cfg").read_text()
    nodes = [name for name in STOA if name.startswith("api-")]
    assert re.findall(r"^\s+server (\S+) (\S+) check", proxy, re.MULTILINE) == [(n, f"{n}:{API}") for n in nodes]
    assert "uri /ready" in proxy
    interval, failed = map(int, re.findall(r"inter (\d+)s fall (\d+)", proxy)[0])
    assert interval * failed + 1 < DELAY, "a node serves until the proxy has noticed that it stops"
    assert STOA["api-1"]["environment"]["STOA_PROXIES"] == "1"
    prometheus = yaml.safe_load((FOLDER / "prometheus.yml").read_text())
    (job,) = prometheus["scrape_configs"]
    assert job["static_configs"][0]["targets"] == [f"{name}:{METRICS}" for name in (*nodes, "worker")]
    mounts = [volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"]]
    (provider,) = yaml.safe_load((FOLDER / "grafana-dashboards.yml").read_text())["providers"]
    assert ["../../docs/operations/dashboard.json", f"{provider['options']['path']}/stoa.json"] in mounts
    (source,) = yaml.safe_load((FOLDER / "grafana-datasource.yml").read_text())["datasources"]
    assert (source["type"], source["isDefault"], source["url"]) == ("prometheus", True, "http://prometheus:9090")


@needs_haproxy
def test_haproxy_accepts_its_configuration() -> None:
    _accepted([str(HAPROXY), "-c", "-f", str(FOLDER / "haproxy.cfg")])


@pytest.mark.skipif(not PROMTOOL, reason="promtool is not installed; the Debian package prometheus contains it")
def test_prometheus_accepts_its_configuration(tmp_path: Path) -> None:
    for file in (FOLDER / "prometheus.yml", ROOT / "docs/operations/alerts.yml"):
        shutil.copy(file, tmp_path)
    _accepted([str(PROMTOOL), "check", "config", str(tmp_path / "prometheus.yml")])


def _accepted(command: list[str]) -> None:
    checked = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert checked.returncode == 0, checked.stdout + checked.stderr
