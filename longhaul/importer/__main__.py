"""`python -m longhaul.importer --bucket B --key K`: the command of the Batch job."""

from __future__ import annotations

import sys

from longhaul.importer import termination

if __name__ == "__main__":
    termination.end_at_once()  # loading the rest takes time

    from longhaul.importer.command import main

    sys.exit(main())
