"""The `stoa` command with the tests' own slice beside the real ones, and as much patience with bodies as asked for."""

import os

from stoa import app
from stoa.api import ENDPOINTS
from stoa.cli import main
from stoa.rest import body
from stoa.settings import load
from stoa.telemetry import configure_logging
from tests.support import notes


def create() -> app.Application:
    settings = load()
    configure_logging(settings)
    return app.Application(settings, [*ENDPOINTS, *notes.routes.endpoints])


# Workers import this file too, before they ask for the application.
app.create = create
body.BODY_SECONDS = float(os.environ.get("BODY_SECONDS", body.BODY_SECONDS))

if __name__ == "__main__":
    main()
