"""`python -m longhaul.importer --bucket B --key K`: the command of the Batch job."""

from __future__ import annotations

import gc
import os

from longhaul.importer import termination

if __name__ == "__main__":
    termination.end_at_once()  # loading the rest takes time
    gc.disable()  # what is loaded stays: nothing to look for until the log is read

    from longhaul.importer.command import main

    os._exit(main())  # all is written and closed: taking the interpreter apart would take a tenth of a short import
