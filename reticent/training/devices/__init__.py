"""Where training runs: devices, what they exchange, and how rows reach them.

mesh        how parameters and records lie on devices
exchange    what devices that take a step together tell each other
feeding     where the rows of a step come from: the device, or windows read from disk
memory      how many examples fit at once
"""
