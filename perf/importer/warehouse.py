"""A Postgres with fresh databases on demand, for as long as its standard input is open.

`python -m perf.importer.warehouse FOLDER`: a process of its own, so that the harness stays small, since a child's peak
memory begins at its parent's.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    """Answer each line with the URL of a new, empty database; the one before is dropped, but for the first."""
    import psycopg

    from longhaul.warehouse.migrate import migrate
    from sandbox import postgres

    server = postgres.start(Path(sys.argv[1]))
    try:
        with psycopg.connect(server.url_for("postgres"), autocommit=True) as connection:
            for (name,) in connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'perf_%'").fetchall():
                connection.execute(f"DROP DATABASE {name}")
            connection.execute("CREATE DATABASE perf_template")
            migrate(server.url_for("perf_template"))
            for number, _ in enumerate(sys.stdin):
                if number > 1:
                    connection.execute(f"DROP DATABASE perf_{number - 1} WITH (FORCE)")
                connection.execute(f"CREATE DATABASE perf_{number} TEMPLATE perf_template STRATEGY FILE_COPY")
                print(server.url_for(f"perf_{number}"), flush=True)
    finally:
        server.stop()


if __name__ == "__main__":
    main()
