"""The file format of a backup: a zip archive with the database dump, the secret key and a manifest."""

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
    """Nothing was saved or restored; the message says why."""


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The contents of a backup; the rows of each table were counted in the snapshot that was dumped."""

    format: int
    made_at: datetime
    schema: int
    migrations: dict[int, str]  # version to digest
    server: str
    key_fingerprint: str
    tables: dict[Annotated[str, msgspec.Meta(pattern=r"^\w+$")], int]
    shard: str = ""  # empty for the directory, and for a service without shards


def key_file_content(settings: Settings) -> str | None:
    """The content of the key file; None if the key comes from the environment, where it is kept on purpose."""
    return None if settings.secret_key else "".join(f"{key.hex()}\n" for key in secret_key(settings).configured)


@contextmanager
def opened(file: Path) -> Generator[tuple[zipfile.ZipFile, Manifest]]:
    """An intact backup: every byte is compared with its checksum before the file is used."""
    with ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(file))
            intact = archive.testzip() is None
            manifest = msgspec.json.decode(archive.read(MANIFEST), type=Manifest)
        except (zipfile.BadZipFile, KeyError, msgspec.DecodeError) as error:
            raise BackupRefused(f"{file} is not a backup, or it is damaged") from error
        except OSError as error:
            raise BackupRefused(f"{file} cannot be read: {error.strerror}") from error
        if not intact:
            raise BackupRefused(f"{file} is damaged; use another backup")
        if manifest.format != FORMAT:
            raise BackupRefused(f"{file} has format {manifest.format}; this release reads only format {FORMAT}")
        yield archive, manifest


def new_archive(file: IO[bytes]) -> zipfile.ZipFile:
    """A new archive without compression: the dump is compressed already, and the rest is small."""
    return zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
