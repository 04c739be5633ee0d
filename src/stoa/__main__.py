"""`python -m stoa` is the `stoa` command."""

from stoa.cli import main

main()
