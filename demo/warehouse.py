"""What the warehouse holds, for the demo's table of before and after."""

import psycopg
from rich.console import Console
from rich.table import Table

COUNTS = {
    "evals": "select count(*) from eval",
    "samples": "select count(*) from sample",
    "scores": "select count(*) from score",
    "messages": "select count(*) from message",
    "stale samples (messages not counted)": "select count(*) from sample where message_count = 0",
    "import attempts": "select count(*) from import_run",
}


class Warehouse:
    def __init__(self, url: str) -> None:
        self.url = url

    def table(self) -> dict[str, int]:
        """Rows of each kind."""
        with psycopg.connect(self.url) as connection:
            return {label: self._number(connection, query) for label, query in COUNTS.items()}

    def attempts(self) -> int:
        """Imports that ended, well or not."""
        with psycopg.connect(self.url) as connection:
            return self._number(connection, COUNTS["import attempts"])

    def make_stale(self) -> None:
        """Leave the imported rows as an importer that did not count messages would have left them."""
        with psycopg.connect(self.url) as connection:
            connection.execute("update sample set message_count = 0")

    @staticmethod
    def _number(connection: psycopg.Connection, query: str) -> int:
        row = connection.execute(query.encode()).fetchone()
        return int(row[0]) if row else 0

    @staticmethod
    def compare(before: dict[str, int], after: dict[str, int]) -> str:
        """A table of two columns of counts, as text."""
        table = Table("rows", "before", "after")
        for label in before:
            table.add_row(label, str(before[label]), str(after[label]))
        console = Console(width=80)
        with console.capture() as capture:
            console.print(table)
        return capture.get()
