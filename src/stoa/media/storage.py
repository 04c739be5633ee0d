"""Where pictures are stored: in a folder, or in a bucket of an S3-compatible service. A file is written once and never changed."""

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote, urlsplit

from stoa.settings import Settings, WrongSetting


class Storage(Protocol):
    """Stores files by key. The key of a picture is its name; that of a smaller size has the width before the extension."""

    async def put(self, key: str, data: bytes) -> None:
        """Store a file; when this returns, a crash does not lose it."""
        ...

    async def get(self, key: str) -> bytes | None: ...

    async def delete(self, key: str) -> None: ...

    def list_keys(self, prefix: str = "") -> AsyncGenerator[str]:
        """The keys of all files, or of those of one store: the prefix is its id and a slash."""
        ...

    async def delete_all(self, prefix: str) -> None: ...

    async def check(self) -> None:
        """Raise an OSError that says what is wrong, if files cannot be stored or read."""
        ...

    async def close(self) -> None: ...


class Folder:
    """A folder with one folder for each store, and in it one for each first byte of the names."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def put(self, key: str, data: bytes) -> None:
        await asyncio.to_thread(self._write, self._file(key), data)

    def _write(self, file: Path, data: bytes) -> None:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        new = file.with_name(f".{file.name}.{os.getpid()}.{os.urandom(4).hex()}")
        try:
            with new.open("xb") as handle:
                handle.write(data)
                handle.flush()
                os.fsync(handle.fileno())
            new.replace(file)
        finally:
            new.unlink(missing_ok=True)
        _sync(file.parent)

    async def get(self, key: str) -> bytes | None:
        return await asyncio.to_thread(_read, self._file(key))

    async def delete(self, key: str) -> None:
        await asyncio.to_thread(self._file(key).unlink, missing_ok=True)

    async def list_keys(self, prefix: str = "") -> AsyncGenerator[str]:
        for store in [self._root / prefix] if prefix else await asyncio.to_thread(_subfolders, self._root):
            for folder in await asyncio.to_thread(_subfolders, store):
                for key in await asyncio.to_thread(_names, folder):
                    yield key

    async def delete_all(self, prefix: str) -> None:
        await asyncio.to_thread(_remove, self._root / prefix)

    async def check(self) -> None:
        await asyncio.to_thread(self._check)

    def _check(self) -> None:
        self._root.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not os.access(self._root, os.R_OK | os.W_OK | os.X_OK):
            raise PermissionError(f"{self._root} is not writable")

    async def close(self) -> None:
        pass

    def _file(self, key: str) -> Path:
        store, name = key.split("/")
        return self._root / store / name[:2] / name


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None


def _remove(folder: Path) -> None:
    while folder.exists():
        with contextlib.suppress(FileNotFoundError):  # another worker removes it too
            shutil.rmtree(folder)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _subfolders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir()) if folder.is_dir() else []


def _names(folder: Path) -> list[str]:
    def visible() -> Iterator[str]:
        for entry in os.scandir(folder):
            if not entry.name.startswith("."):  # a file that is being written
                yield f"{folder.parent.name}/{entry.name}"

    return sorted(visible())


def folder_of(settings: Settings) -> Path | None:
    """The folder in which pictures are stored; None if they are in a bucket."""
    if not settings.media_url:
        return settings.data_dir / "media"
    parts = urlsplit(settings.media_url)
    return Path(unquote(parts.path)) if parts.scheme == "file" else None


def open_storage(settings: Settings) -> Storage:
    """The storage that the settings name."""
    folder = folder_of(settings)
    if folder is not None:
        return Folder(folder)
    from stoa.media.s3 import Bucket  # noqa: PLC0415 - it needs an HTTP client, which a service with a folder does not load

    try:
        return Bucket.of(settings.media_url)
    except ValueError as error:
        raise WrongSetting(f"STOA_MEDIA_URL {error}") from None


def key_of(name: str, width: int | None = None) -> str:
    """The key of a picture, or of a smaller size of it."""
    if width is None:
        return name
    stem, _, extension = name.rpartition(".")
    return f"{stem}-{width}.{extension}"


def name_of_key(key: str) -> str:
    """The name of the picture that a file belongs to."""
    stem, _, extension = key.rpartition(".")
    return f"{stem.partition('-')[0]}.{extension}"
