"""The file that a backup is: a zip of the database's dump, the key that its credentials need, and what it must hold."""

import hashlib
import hmac
import zipfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated

import msgspec

from stoa.settings import Settings, secret_key

FORMAT = 1
DUMP, KEY, MANIFEST = "dump", "secret.key", "manifest.json"


class BackupRefused(Exception):
    """Nothing was saved or put back, and why."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a backup holds; the rows of each table were counted in the very snapshot that was dumped."""

    format: int
    made_at: datetime
    schema: int
    migrations: dict[int, str]  # each with its digest
    server: str
    key_mark: str
    tables: dict[Annotated[str, msgspec.Meta(pattern=r"^\w+$")], int]


def key_mark(key: bytes) -> str:
    """By which two keys are compared without telling either."""
    return hmac.new(key, b"stoa backup", hashlib.sha256).hexdigest()[:32]


def own_key(settings: Settings) -> str | None:
    """The key as its file holds it; none where the environment brings it, for then it is kept elsewhere on purpose."""
    return None if settings.secret_key else secret_key(settings).hex() + "\n"


@contextmanager
def opened(file: Path) -> Generator[tuple[zipfile.ZipFile, Manifest]]:
    """A backup that is found whole: each byte is read and compared with its checksum before anything is done with it."""
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(file))
            whole = archive.testzip() is None
            manifest = msgspec.json.decode(archive.read(MANIFEST), type=Manifest)
        except (zipfile.BadZipFile, KeyError, msgspec.DecodeError) as error:
            raise BackupRefused(f"{file} is no backup, or is damaged") from error
        except OSError as error:
            raise BackupRefused(f"{file} cannot be read: {error.strerror}") from error
        if not whole:
            raise BackupRefused(f"{file} is damaged; take another backup")
        if manifest.format != FORMAT:
            raise BackupRefused(f"{file} has format {manifest.format}; this release reads format {FORMAT}")
        yield archive, manifest


def stored(file: IO[bytes]) -> zipfile.ZipFile:
    """A new archive; what it holds is packed already or small."""
    return zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
