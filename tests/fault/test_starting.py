"""A failed start is reported in one line that names what to change."""

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from stoa.settings import Settings, metrics_address
from tests.support.demos import prepared_demo
from tests.support.service import Service, free_port, new_database, until

DEMO = (sys.executable, "-c", "from stoa.cli import cli; cli(['demo'])")


def refusal(ended: subprocess.CompletedProcess[str], code: int = 2) -> str:
    """The single error line of a failed command."""
    lines = [line for line in ended.stderr.splitlines() if not line.startswith("warning: ")]
    assert (ended.returncode, ended.stdout, len(lines)) == (code, "", 1), ended.stderr
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.mark.parametrize(("variable", "value", "words"), [
    ("PORT", "abc", "expected `int`"),
    ("PORT", "0", ">= 1"),
    ("WORKERS", "0", ">= 1"),
    ("HOST", "localhost", "must be an IP address"),
    ("LOG_FORMAT", "xml", "Invalid enum value 'xml'"),
    ("SECRET_KEY", "short", "hexadecimal digits, 64 or more"),
    ("METRICS", "9464", "must be host:port"),
    ("DATABASE_URL", "foo", "must begin with postgresql://"),
    ("DATABASE_URL", "postgresql://127.0.0.1:one/stoa", "cannot be reached"),
    ("DATABASE_URL", "postgresql://127.0.0.1:1/stoa", "cannot be reached"),
])  # fmt: skip
def test_an_invalid_setting_is_named(tmp_path: Path, variable: str, value: str, words: str) -> None:
    line = refusal(Service(tmp_path).run("serve", **{variable: value}), 3 if words == "cannot be reached" else 2)
    assert f"STOA_{variable}" in line
    assert words in line


def test_an_unknown_variable_is_reported_with_the_most_similar_setting(tmp_path: Path) -> None:
    ended = Service(tmp_path).run("serve", wokers=3, database_url="postgresql://127.0.0.1:1/stoa")
    assert "warning: STOA_WOKERS is not a setting; did you mean STOA_WORKERS?" in ended.stderr.splitlines()


def test_an_invitation_names_the_address_of_the_running_service(service: Service) -> None:
    """Also if the command has another port in its settings, because the service was started with `--port`."""
    done = service.run("account", "invite", "guest@example.com", "--json", port=8000)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["address"].startswith(f"http://localhost:{service.port}/portal/invitation/")


def test_a_second_service_on_the_same_port_is_refused(service: Service, tmp_path: Path) -> None:
    line = refusal(service.run("serve", data_dir=tmp_path))
    assert f"STOA_PORT={service.port}" in line
    assert "choose another port" in line
    assert service.status("/ready") == 200


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_metrics_address_in_use_is_refused_before_anything_is_started(tmp_path: Path, command: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        line = refusal(Service(tmp_path).run(command, metrics=f"127.0.0.1:{port}"))
    assert (
        f"STOA_METRICS=127.0.0.1:{port} cannot be used (Address already in use); choose another address, or off" in line
    )
    assert not (tmp_path / "postgres").exists()


def test_an_unknown_metrics_host_is_refused(tmp_path: Path) -> None:
    line = refusal(Service(tmp_path).run("serve", metrics=f"{'x' * 80}:9464"))
    assert "cannot be used (no such host)" in line


async def test_a_demo_starts_without_metrics_if_their_default_address_is_in_use(tmp_path: Path) -> None:
    url = await prepared_demo(f"second_demo_{os.getpid()}", tmp_path)
    usual = metrics_address(Settings().metrics)
    with ExitStack() as stack:
        with suppress(OSError):  # it may be in use already, which is fine too
            stack.enter_context(socket.create_server(usual))
        demo = stack.enter_context(Service(tmp_path, database_url=url, command=DEMO, workers=1, metrics=""))
        assert demo.status("/ready") == 200
        assert "Metrics are off: 127.0.0.1:9464 is in use. Set STOA_METRICS to use another address." in demo.output()


@pytest.mark.long
def test_a_second_service_on_the_same_folder_is_refused(embedded: Service) -> None:
    line = refusal(embedded.run("serve", port=free_port(), metrics="off"), 1)
    assert f"{embedded.folder}/postgres is in use by another Stoa, pid {embedded.pid}: stop it first" in line
    assert embedded.status("/ready") == 200


@pytest.mark.long
async def test_one_of_two_services_that_start_at_once_on_one_port_is_refused(tmp_path: Path) -> None:
    url = await new_database(f"twins_{os.getpid()}")
    one = Service(tmp_path / "one", database_url=url, background=False)
    with closing(one), closing(Service(tmp_path / "other", database_url=url, port=one.port)) as other:
        one.launch()
        other.launch()
        until(lambda: one.ended or other.ended, "one is refused")
        refused, served = (one, other) if one.ended else (other, one)
        assert refused.wait() == 2
        assert f"error: STOA_PORT={one.port}" in refused.output()
        assert len(refused.output().splitlines()) == 1
        until(lambda: one.status("/ready") == 200, "the other serves")
        assert not served.ended
