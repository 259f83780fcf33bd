"""Ways to learn from a table, one row of a table each (`table`): private descent, convex methods, PATE."""
