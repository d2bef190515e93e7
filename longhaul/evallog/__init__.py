"""Reading Inspect's logs (`.eval` archives and old `.json` documents) in bounded memory (W7); no AWS, no database."""
