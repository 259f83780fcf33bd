"""What a report says, before anybody decides how it looks.

facts       the type; record, training, attacks, sweep: the facts of each kind of result
scores      how good a model is; weights, shapes: what it looks at; comparison: runs side by side
results     what attacks and audits wrote, checked field by field
odds        what an epsilon means for one person
"""
