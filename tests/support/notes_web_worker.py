"""A web worker that also serves the tests' own slice, with a configurable time limit for request bodies."""

import os

from stoa.api import ENDPOINTS
from stoa.app import Application
from stoa.operations.telemetry import configure_logging
from stoa.rest import body
from stoa.settings import load
from stoa.web_worker import main
from tests.support import notes


def create() -> Application:
    settings = load()
    configure_logging(settings)
    return Application(settings, [*ENDPOINTS, *notes.routes.endpoints])


if __name__ == "__main__":
    body.BODY_SECONDS = float(os.environ.get("BODY_SECONDS", body.BODY_SECONDS))
    main(create)
