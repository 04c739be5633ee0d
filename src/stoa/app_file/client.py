"""Calls a running service with a deploy token, from the machine of a developer or from a CI job."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from stoa.access.console import FAILED, UNREACHABLE, WRONG_USAGE, Refused
from stoa.app_file.contract import Change, ConfirmationRequired, Pushed
from stoa.app_file.endpoint import MEDIA_TYPE, PATH
from stoa.rest.problems import Fault

SERVICE_URL, DEPLOY_TOKEN, SECRET = "STOA_SERVICE_URL", "STOA_DEPLOY_TOKEN", "STOA_WEBHOOK_SECRET"
_LOCAL = ("localhost", "127.0.0.1", "::1")
_TIMEOUT_S = 60.0


class _Problem(msgspec.Struct):
    code: str = ""
    detail: str = ""
    errors: list[Fault] = []
    changes: list[Change] = []


class _Answer(msgspec.Struct):
    data: Pushed


class Unconfirmed(Exception):
    """The service asks for a confirmation of these changes."""

    def __init__(self, changes: list[Change]) -> None:
        super().__init__("a confirmation is required")
        self.changes = changes


class FileRefused(Exception):
    """The service refuses the file for these faults."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("the file is invalid")
        self.faults = faults


class Service:
    """The service that knows the app. The token is read from the environment, because command lines are visible to others."""

    def __init__(self, folder: Path, url: str | None) -> None:
        file = read_variables(folder / ".env")
        found = url or os.environ.get(SERVICE_URL) or file.get(SERVICE_URL) or ""
        token = os.environ.get(DEPLOY_TOKEN) or file.get(DEPLOY_TOKEN) or ""
        missing = [name for name, value in ((SERVICE_URL, found), (DEPLOY_TOKEN, token)) if not value]
        if missing:
            raise Refused(
                f"{' and '.join(missing)} must be set, or be in {folder / '.env'}; create a deploy token in the portal, "
                "under Credentials of the app",
                WRONG_USAGE,
            )
        parts = urlsplit(found)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOCAL):
            raise Refused(f"{SERVICE_URL} must begin with https://, because a deploy token is a secret", WRONG_USAGE)
        self._url = f"{found.rstrip('/')}{PATH}"
        self._headers = {"authorization": f"Bearer {token}"}

    def get(self) -> str:
        """The file of the app as it is registered."""
        return self._send("GET").text

    def put(self, text: str, **flags: bool) -> Pushed:
        """Push a file, or compare it with `dry_run`."""
        parameters = {name: "true" for name, value in flags.items() if value}
        response = self._send("PUT", content=text.encode(), params=parameters)
        return msgspec.json.decode(response.content, type=_Answer).data

    def _send(self, method: str, **given: Any) -> httpx.Response:
        headers = {**self._headers, "content-type": MEDIA_TYPE}
        try:
            response = httpx.request(method, self._url, headers=headers, timeout=_TIMEOUT_S, **given)
        except httpx.TransportError as error:
            raise Refused(f"{self._url} does not respond: {error}", UNREACHABLE) from error
        if response.status_code == 200:
            return response
        try:
            problem = msgspec.json.decode(response.content, type=_Problem)
        except msgspec.MsgspecError:
            problem = _Problem()
        if problem.code == ConfirmationRequired.code:
            raise Unconfirmed(problem.changes)
        if problem.errors:
            raise FileRefused(problem.errors)
        raise Refused(problem.detail or f"{self._url} answered {response.status_code}", FAILED)


def read_variables(path: Path) -> dict[str, str]:
    """The variables in a file of lines such as NAME=value; none if there is no such file."""
    if not path.is_file():
        return {}
    lines = (line.strip().removeprefix("export ").partition("=") for line in path.read_text().splitlines())
    return {
        name.strip(): value.strip().strip("\"'") for name, sign, value in lines if sign and not name.startswith("#")
    }


def keep_variable(path: Path, name: str, value: str) -> None:
    """Set a variable in a file that only its owner can read."""
    kept = [
        line for line in (path.read_text().splitlines() if path.exists() else []) if not line.startswith(f"{name}=")
    ]
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text("\n".join([*kept, f"{name}={value}"]) + "\n")
