"""Attacks that reconstruct records.

leakage       records from one gradient; layer_order: parameters in the order of their layers
malicious     parameters chosen by a dishonest server
inversion     the typical member of a class; extraction: planted canaries in language models
"""
