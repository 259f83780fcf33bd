"""What a release costs: one small function a theorem, and a certified bracket around the exact epsilon.

NumPy and SciPy in float64 throughout; JAX is never imported here.
"""
