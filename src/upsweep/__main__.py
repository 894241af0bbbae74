"""`python -m upsweep`: the command `upsweep`, of the Python that runs it."""

from upsweep.cli import main

main()
