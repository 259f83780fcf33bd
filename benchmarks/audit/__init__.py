"""Audits beside those of jax-privacy: coverage, power, what is seen of DP-SGD, and planted bugs."""
