"""`stoa app init`, `validate`, `diff`, `push` and `pull` against a running service, as a CI job runs them."""

import json
import os
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.service import Service, free_port, migrated_database


@pytest.fixture(scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Service]:
    url = await migrated_database(f"test_app_file_{os.getpid()}")
    folder = tmp_path_factory.mktemp("app-file")
    options: dict[str, Any] = {"workers": 1, "webhook_allow": "127.0.0.0/8 localhost ::1"}
    with Service(folder, database_url=url, background=False, **options) as service:
        yield service


class Job:
    """A folder in which commands run with a deploy token."""

    def __init__(self, service: Service, folder: Path) -> None:
        self.service, self.folder = service, folder
        made = json.loads(service.run("app", "create", "An app", "--scopes", "products:read", "--json").stdout)
        self.client_id: str = made["client_id"]
        token = service.run("app", "deploy-tokens", "create", self.client_id, "--name", "CI", "--json")
        self.token: str = json.loads(token.stdout)["deploy_token"]

    def run(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        given = {"STOA_SERVICE_URL": self.service.url, "STOA_DEPLOY_TOKEN": self.token, **variables}
        return subprocess.run(
            [sys.executable, "-m", "stoa", "app", *words],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path), **given},
            capture_output=True,
            text=True,
            check=False,
            timeout=100,
        )

    @property
    def file(self) -> Path:
        return self.folder / "stoa.app.toml"


@pytest.fixture
def job(running: Service, tmp_path: Path) -> Job:
    return Job(running, tmp_path)


def test_a_folder_becomes_an_app(job: Job) -> None:
    made = job.run("init", ".", "--name", "Walker", "--language", "typescript", "--port", "3001")
    assert made.returncode == 0, made.stderr
    assert {path.name for path in job.folder.iterdir()} == {
        ".env", ".gitignore", "app.ts", "package.json", "stoa.app.toml", "tsconfig.json",
    }  # fmt: skip
    assert stat.S_IMODE((job.folder / ".env").stat().st_mode) == 0o600
    again = job.run("init", ".")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    assert job.run("validate", "--json").stdout == "[]\n"
    compared = json.loads(job.run("diff", "--json").stdout)
    assert (compared["applied"], [each["key"] for each in compared["changes"]]) == (
        False,
        ["name", 'scopes."products:read"', "subscriptions.products"],
    )
    assert job.run("diff", "--check").returncode == 1
    pushed = job.run("push")
    assert pushed.returncode == 0, pushed.stderr
    assert "3 changes applied." in pushed.stdout
    assert "whsec_" not in pushed.stdout + pushed.stderr
    assert "STOA_WEBHOOK_SECRET=whsec_" in (job.folder / ".env").read_text()
    assert job.run("push").stdout == "The app is as the file says.\n"
    assert job.run("diff", "--check").returncode == 0


@pytest.mark.long
def test_a_pull_writes_the_app_and_replaces_nothing_unasked(job: Job) -> None:
    first = job.run("pull")
    assert (first.returncode, first.stdout) == (0, "wrote stoa.app.toml\n")
    assert first.stderr.splitlines() == [
        "stoa.app.toml:8: scopes.products:read: must not be empty",
        "complete stoa.app.toml before you push it",
    ]
    pulled = job.file.read_text()
    assert f'client_id = "{job.client_id}"' in pulled
    job.file.write_text(pulled.replace("An app", "Another"))
    refused = job.run("pull")
    assert (refused.returncode, "--force" in refused.stderr) == (1, True)
    assert job.run("pull", "--force").returncode == 0
    assert job.file.read_text() == pulled


@pytest.mark.long
def test_faults_name_the_line_and_the_key(job: Job) -> None:
    job.file.write_text('name = "A"\nnmae = "B"\n[scopes]\n"products:raed" = "To list."\n')
    for command in ("validate", "diff", "push"):
        wrong = job.run(command)
        assert wrong.returncode == 1
        assert "stoa.app.toml:2: nmae: is not a known field; did you mean name?" in wrong.stderr
    assert json.loads(job.run("validate", "--json").stdout)[0]["meta"]["line"] == 2
    # A fault that only the service knows.
    job.file.write_text('name = "A"\nendpoint = "https://10.0.0.1/x"\n[scopes]\n"products:read" = "To list."\n')
    refused = job.run("push")
    assert "stoa.app.toml:2: endpoint: " in refused.stderr
    assert (job.run("validate", "--file", "none.toml").returncode, refused.returncode) == (2, 1)


@pytest.mark.long
def test_a_removal_needs_yes(job: Job, running: Service) -> None:
    assert job.run("init", ".").returncode == 0
    assert job.run("push").returncode == 0
    store = running.run(
        "store", "create", f"file-{job.client_id[-8:].lower()}", "--name", "A", "--currency", "EUR", "--json"
    )
    assert store.returncode == 0, store.stderr
    running.run("app", "install", job.client_id, json.loads(store.stdout)["handle"])
    job.file.write_text(job.file.read_text().partition("\n# A subscription")[0] + "\n")
    refused = job.run("push")
    assert refused.returncode == 1
    assert "! 1 store loses the subscription" in refused.stdout
    assert "--yes" in refused.stderr
    assert job.run("push", "--yes").returncode == 0


@pytest.mark.long
def test_wrong_tokens_and_services_are_refused_in_one_line(job: Job) -> None:
    for variables, code, says in (
        ({"STOA_DEPLOY_TOKEN": ""}, 2, "STOA_DEPLOY_TOKEN must be set"),
        ({"STOA_DEPLOY_TOKEN": "wrong"}, 1, "Send a deploy token"),
        ({"STOA_SERVICE_URL": "http://stoa.example.com"}, 2, "must begin with https://"),
        ({"STOA_SERVICE_URL": f"http://127.0.0.1:{free_port()}"}, 3, "does not respond"),
    ):
        refused = job.run("pull", **variables)
        assert (refused.returncode, says in refused.stderr) == (code, True), refused.stderr
        assert refused.stderr.count("\n") == 1


@pytest.mark.long
def test_an_operator_revokes_a_token(job: Job, running: Service) -> None:
    listed = json.loads(running.run("app", "deploy-tokens", "list", job.client_id, "--json").stdout)
    [number] = [each["id"] for each in listed]
    left = running.run("app", "deploy-tokens", "revoke", job.client_id, str(number), "--json")
    assert json.loads(left.stdout) == []
    assert job.run("pull").returncode == 1


def test_operators_declare_subscriptions_to_the_events_of_all_slices(job: Job, running: Service) -> None:
    done = running.run("app", "subscriptions", "add", job.client_id, "all", "--event", "product.*", "--json")
    assert done.returncode == 0, done.stderr
