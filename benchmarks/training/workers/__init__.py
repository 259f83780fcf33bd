"""One program for each implementation, each in an interpreter of its own; `serving` is how they talk."""
