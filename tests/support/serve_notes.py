"""The `stoa` command with the tests' own slice beside the real ones, and little patience with slow bodies."""

from stoa import app
from stoa.api import ENDPOINTS
from stoa.cli import main
from stoa.rest import wire
from stoa.settings import load
from stoa.telemetry import configure_logging
from tests.support import notes

BODY_SECONDS = 2.0


def create() -> app.Application:
    settings = load()
    configure_logging(settings)
    return app.Application(settings, [*ENDPOINTS, *notes.routes.endpoints])


# Workers import this file too, before they ask for the application.
app.create = create
wire.BODY_SECONDS = BODY_SECONDS

if __name__ == "__main__":
    main()
