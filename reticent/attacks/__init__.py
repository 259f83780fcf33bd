"""What a model gives away: attacks on what it says, in NumPy, so that any framework's outputs will do.

    members = Outputs.from_probabilities(probabilities, labels)
    scores = Scores(members=threshold.scores(members), outsiders=threshold.scores(outsiders))
    print(metrics.measure(scores))

An attack receives outputs, a predictor or a training function. It never imports what trained the model.
"""
