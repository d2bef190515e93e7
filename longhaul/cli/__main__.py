"""`python -m longhaul.cli`: the CLI without an installed script."""

from longhaul.cli import main

if __name__ == "__main__":
    main(prog_name="longhaul")
