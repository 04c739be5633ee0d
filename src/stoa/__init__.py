"""Stoa: one REST interface through which apps reach many online stores."""

import sys

# structlog loads rich for tracebacks, which are never logged: an eighth of the start of a worker, and 4 MB of its memory.
_rich = sys.modules.setdefault("rich", None)  # pyright: ignore[reportArgumentType] - its import fails as long as it is None
import structlog as structlog  # noqa: E402

if _rich is None:  # pyright: ignore[reportUnnecessaryComparison]
    del sys.modules["rich"]

DISTRIBUTION = "stoa-commerce"  # what pip installs; the package and the command are called stoa
