"""Reading Inspect's logs (`.eval` archives and old `.json` documents) in bounded memory; no AWS, no database (W7, W8)."""
