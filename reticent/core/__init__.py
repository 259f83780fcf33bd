"""The ground everything stands on: errors, checks, tree arithmetic and randomness."""
