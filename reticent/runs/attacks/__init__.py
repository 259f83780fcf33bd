"""Attacks on runs that are in a folder.

pool, view, recipes    which records are tried; what a run shows; how it would be trained again
membership, property   the attacks,
leakage, inversion     and more of them
defences               what output defences change about them
"""
