"""Models like the one under attack, trained on known members.

training    trains them, many at once; recipes: the training functions; pace: how many at once
outputs     who was in each of them, and what each says of every record
one_by_one  trains them one by one, for recipes that JAX cannot vectorise
"""
