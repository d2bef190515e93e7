"""The warehouse: its schema, its migrations, and the writer that makes it say what a log says (Postgres)."""
