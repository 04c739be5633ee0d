"""The previous release: found in the repository, exported, and installed into an environment of its own."""

import compileall
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from pathlib import Path

import pytest

from stoa.db.schema_files import previous_release

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "artefacts" / "releases"
LOCKS = ("requirements/runtime.lock", "requirements.lock")  # where a release has its lock file; the second until 0.2.0


def git(*arguments: str) -> str | None:
    """The output of a git command in this repository; None if it fails."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def released_commit() -> str:
    """The commit of the previous release: by its tag, or where a clone has no tags, the recorded one."""
    release = previous_release()
    for name in (f"refs/tags/v{release.version}", release.commit):
        if commit := git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"):
            return commit
    pytest.skip(f"this clone has neither the tag v{release.version} nor the commit {release.commit}")


def exported() -> Path:
    """A folder with the files of the previous release."""
    commit = released_commit()
    folder = CACHE / commit
    if not folder.exists():
        partial = folder.with_suffix(f".{os.getpid()}")
        partial.mkdir(parents=True)
        archive = partial / "files.tar"
        assert git("archive", f"--output={archive}", commit) is not None
        with tarfile.open(archive) as files:
            files.extractall(partial, filter="data")
        archive.unlink()
        compileall.compile_dir(partial / "src", quiet=1)  # or each process of its first service would compile it
        try:
            partial.rename(folder)
        except OSError:  # another test run was faster
            if not folder.exists():
                raise
            shutil.rmtree(partial)
    return folder


def _lock(release: Path) -> Path:
    return next(release / name for name in LOCKS if (release / name).exists())


def _pins(release: Path) -> set[str]:
    """The libraries of a lock file with their versions."""
    lines = _lock(release).read_text().splitlines()
    return {line.removesuffix(" \\") for line in lines if line[:1].isalnum() and "==" in line}


class Installation:
    """An environment of its own with one release, which an upgrade replaces while its processes run.

    The libraries come from the release's lock file, with hashes. If the lock file of this tree has all of them in the same
    versions, those of the running environment are used unless `own_libraries` is set. The release is a folder on the path.
    """

    def __init__(self, folder: Path, source: Path, *, own_libraries: bool = False) -> None:
        self._folder = folder
        self.own_libraries = own_libraries or not _pins(source) <= _pins(ROOT)
        venv.create(folder, symlinks=True, with_pip=self.own_libraries)
        self.python = str(folder / "bin/python")
        current = folder / "release"
        lines = [str(current / "src"), str(current / "sdk/python/src")]
        if not self.own_libraries:
            lines.append(sysconfig.get_path("purelib"))
        self._packages = folder / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
        (self._packages / "release.pth").write_text("".join(f"{line}\n" for line in lines))
        self.install(source)

    def install(self, source: Path) -> None:
        """Replace the installed release by the one in a folder."""
        if self.own_libraries:
            install = [self.python, "-m", "pip", "--disable-pip-version-check", "-qq", "install", "--require-hashes"]
            subprocess.run([*install, "-r", _lock(source)], check=True, timeout=600)
        project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
        metadata = self._packages / f"{project['name'].replace('-', '_')}-0.dist-info/METADATA"
        metadata.parent.mkdir(exist_ok=True)
        metadata.write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
        link = self._folder / "next"
        link.symlink_to(source.resolve(), target_is_directory=True)
        link.rename(self._folder / "release")  # at once, so that a process that starts finds one of the two

    @property
    def command(self) -> tuple[str, ...]:
        return (self.python, "-m", "stoa")
