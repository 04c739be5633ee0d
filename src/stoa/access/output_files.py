"""A file that a command writes: it has its name once it is complete, and never replaces another one by a part."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from stoa.access.console import Refused


@contextmanager
def new_file(file: Path) -> Generator[BinaryIO]:
    """Open a file that gets its name when the block ends and it is synced to disk; only its owner may read it."""
    partial = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        new = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as error:
        raise Refused(f"{file} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(new, "wb") as handle:
            yield cast("BinaryIO", handle)
            handle.flush()
            os.fsync(handle.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
