"""What a report says, before anybody decides how it looks.

facts       the type; record, training, attacks, sweep: the facts of each kind of result
odds        what an epsilon means for one person
"""
