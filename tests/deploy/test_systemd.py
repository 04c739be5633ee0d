"""The systemd units: accepted by systemd, confined, and with valid commands and settings."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from stoa.settings import Settings
from tests.deploy.declared import DEPLOY, check_settings, parse_command

FOLDER = DEPLOY / "systemd"
UNITS = pytest.mark.parametrize("name", sorted(file.name for file in FOLDER.glob("*.service")))
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(not ANALYZE, reason="systemd-analyze is not installed")
MOST_EXPOSED = 20  # tenths; systemd calls up to 4.0 "OK"
# `os.nice` for imports and the limit of open files need these calls.
NEEDED_CALLS = {"setpriority", "prlimit64", "setrlimit", "sendfile", "clone3", "epoll_pwait"}


def directives(name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, value in re.findall(r"^(\w+)=(.*)$", (FOLDER / name).read_text(), re.MULTILINE):
        found.setdefault(key, []).append(value)
    return found


def analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ANALYZE), *arguments], capture_output=True, text=True, check=False, timeout=60)


@UNITS
def test_a_unit_runs_a_valid_command_as_its_own_user(name: str) -> None:
    unit = directives(name)
    program, *words = shlex.split(unit["ExecStart"][0])
    command, options = parse_command(words)
    assert program == "/opt/stoa/bin/stoa"
    assert command != "serve" or (options["no_background"] and options["no_migrate"])
    assert (unit["User"], unit["EnvironmentFile"]) == (["stoa"], ["/etc/stoa/stoa.env"])
    given = dict(word.split("=", 1) for word in shlex.split(unit["Environment"][0]))
    assert given["STOA_DATA_DIR"] == f"%S/{unit['StateDirectory'][0].split()[0]}"
    example = re.findall(r"^(\w+)=(.*)$", (FOLDER / "stoa.env").read_text(), re.MULTILINE)
    check_settings({**dict(example), **given})
    assert command != "serve" or given["TMPDIR"] == "/var/tmp", "uploads are not in memory"  # noqa: S108
    if unit["Type"] == ["exec"]:
        assert unit["KillMode"] == ["mixed"]
        assert int(unit["TimeoutStopSec"][0]) > Settings().shutdown_delay_seconds + Settings().drain_seconds
        assert (unit["Restart"], "-HUP" in unit["ExecReload"][0]) == (["always"], True)


@needs_systemd
@UNITS
def test_systemd_accepts_a_unit_and_finds_it_confined(name: str, tmp_path: Path) -> None:
    for file in FOLDER.glob("*.service"):  # verified together, because they name each other
        (tmp_path / file.name).write_text(file.read_text().replace("/opt/stoa/bin/stoa", "/bin/true"))
    verified = analyze("verify", "--man=no", str(tmp_path / name))
    assert (verified.returncode, verified.stderr) == (0, "")
    exposed = analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", str(tmp_path / name))
    assert exposed.returncode == 0, exposed.stdout[-200:]


@needs_systemd
@UNITS
def test_no_system_call_that_stoa_needs_is_forbidden(name: str) -> None:
    groups = [group for value in directives(name)["SystemCallFilter"] for group in value.split()]
    forbidden = [group.removeprefix("~") for group in groups if group.startswith("~")]
    assert groups[0] == "@system-service"
    for group in forbidden:
        listed = analyze("syscall-filter", group)
        assert listed.returncode == 0, listed.stderr
        assert not NEEDED_CALLS & set(listed.stdout.split()), group
