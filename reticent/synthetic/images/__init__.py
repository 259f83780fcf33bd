"""Synthetic images and vectors: one noisy embedding, or a GAN whose discriminator is private.

embedding      a sum of bounded features; basis: the public features; matching: a generator fitted to it
gan            a private discriminator; adversary: the generator inside its optimizer
networks       the small networks of both
image_model    what a fit leaves behind, and its files
"""
