"""Beyond one machine, measured on one: processes, what they send, rows on disk, a model of it all."""
