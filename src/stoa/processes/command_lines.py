"""The command lines of the processes that a main process starts.

On a reload, the main process may be older than the release that it starts. So the names of these modules and the meaning of
their arguments never change.
"""

import os
import sys
from collections.abc import Sequence

WEB_WORKER = "stoa.web_worker"  # the descriptors of two sockets follow: the listening one and the control socket
WORKER = "stoa.worker"
DELIVERIES = "--deliveries"


def migration() -> Sequence[str]:
    """Migrates the schema to that of the installed release."""
    return sys.executable, "-m", "stoa", "migrate", "--json"


def web_worker() -> Sequence[str]:
    return sys.executable, "-m", WEB_WORKER


def background_workers() -> dict[str, Sequence[str]]:
    """By the kind of their work; they exit with this process."""
    worker, parent = (sys.executable, "-m", WORKER), str(os.getpid())
    return {"deliveries": (*worker, DELIVERIES, parent), "imports": (*worker, parent)}
