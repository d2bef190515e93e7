"""How fast the importer is, beside its peers, on logs made here (`python -m perf.importer`)."""
