"""The local AWS: moto, pinned, plus one module for each thing that it lacks, a real Postgres, and `python -m sandbox`.

Nothing imports this package; each module offers `install()`, and none patches anything when it is imported.
"""
