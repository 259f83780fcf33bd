"""Readers of files under a coverage-guided fuzzer. The targets are those of `tests/fuzz`."""
