"""Each a process of its own, started by the driver: JSON on standard output, one line an answer."""
