"""The `stoa` command with web workers that also serve the tests' own slice."""

from stoa import serving
from stoa.cli import main

if __name__ == "__main__":
    serving.WEB_WORKER = "tests.support.notes_web_worker"
    main()
