"""Pictures of results, as SVG.

charts             axes, lines and bars
curves             privacy curves; attacks: how each attack did; votes: how teachers voted
reconstructions    what was recovered beside what was there; samples: synthetic images
"""
