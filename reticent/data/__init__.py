"""Where records come from: datasets, domains (what is public about a table), files, and a catalog of named data."""
