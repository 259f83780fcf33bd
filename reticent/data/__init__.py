"""Where records come from: datasets, domains (what is public of a table), files, a catalog of named data."""
