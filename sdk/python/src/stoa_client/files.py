"""Files that hold a whole response."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def complete_file(path: str | os.PathLike[str]) -> Generator[BinaryIO]:
    """A file that exists only when it is complete."""
    target = Path(path)
    partial = target.with_name(target.name + ".part")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
