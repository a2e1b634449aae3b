"""`python -m betimes` is the command `betimes`."""

from betimes.cli import main

main()
