"""The `stoa` command with web workers that also serve the tests' own slice."""

from stoa.cli import main
from stoa.processes import command_lines

if __name__ == "__main__":
    command_lines.WEB_WORKER = "tests.support.notes_web_worker"
    main()
