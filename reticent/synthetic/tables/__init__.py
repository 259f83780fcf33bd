"""Synthetic tables: marginals counted with noise, and a graphical model that explains them.

planning       what will be released, decided before anyone looks at the data
codes, bins    rows as whole numbers by a domain alone, and back
marginals      noisy counts of combinations; merging: rare codes become one
column_pairs   which pairs are worth measuring, chosen privately
graphical      the distribution with the most entropy; junction: the trees it runs on
table_model    all of it together; storage: the model in a file
plausibility   which columns are mostly noise, for the card
writing        rows as a file like the original
"""
