"""Compare what the files in `deploy` name with the code: settings, commands, paths and ports."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from stoa.cli import cli
from stoa.settings import Settings, WrongSetting, load
from tests.conftest import SECRET_KEY

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
USER = 10001  # of the container
API, METRICS = 8000, 9464
OTHER_FILES_BYTES = 64 * 1024**2  # in the data folder of a node without a database, besides uploads
_UNITS = {"m": 1024**2, "Mi": 1024**2, "g": 1024**3, "Gi": 1024**3}
SETTINGS = {f"STOA_{field.name.upper()}" for field in msgspec.structs.fields(Settings)}


def parse_command(words: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """The name and the options of a `stoa` command; fails if the command line is invalid."""
    name, *arguments = words
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, name
    context = command.make_context(name, list(arguments))
    context.close()
    return name, context.params


def check_settings(environment: Mapping[str, str]) -> None:
    """Every variable of Stoa is a setting with a valid value."""
    given = {name: value for name, value in environment.items() if name.startswith("STOA_")}
    assert set(given) <= SETTINGS, set(given) - SETTINGS
    given |= {"STOA_SECRET_KEY": SECRET_KEY} if "STOA_SECRET_KEY" in given else {}
    try:
        load(given)
    except WrongSetting as error:
        raise AssertionError(str(error)) from error


def in_bytes(quantity: str) -> int:
    """A size as compose and Kubernetes write it, such as 64m or 64Mi."""
    digits = quantity.rstrip("MmGgi")
    return int(digits) * _UNITS[quantity.removeprefix(digits)]


def upload_bytes(environment: Mapping[str, str]) -> int:
    """The room that uploads need at most with these settings, in the temporary files of all workers."""
    sizes = {name: value for name, value in environment.items() if name in ("STOA_WORKERS", "STOA_MAX_UPLOAD_BYTES")}
    settings = load(sizes)
    return settings.workers * settings.max_upload_bytes


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text()))
