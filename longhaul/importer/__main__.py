"""`python -m longhaul.importer --bucket B --key K`: the command of the Batch job."""

from __future__ import annotations

import sys

from longhaul.importer.command import main

if __name__ == "__main__":
    sys.exit(main())
