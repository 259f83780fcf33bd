"""Was this record in the training set? One module per attack; each gives scores that are higher for members.

gap                 the label is right
threshold           the loss is small
entropy             the whole answer is sure, and right
population          surer than the model is of outsiders with the same label
label_only          the label stays right when the record is disturbed
shadow_classifier   a classifier for each label, trained on models whose members are known
likelihood          more like models trained on the record than like models that were not
relative            the gain over reference models, compared with the gain of other records

`games` has all of them by name, in a form that can be played on any model.
"""
