"""Small networks and features as pure functions of a parameter tree.

    model = course_cnn()
    params = model.init(key)
    run = rt.train(classification_loss(model), params, data, plan, optimizer=optax.sgd(0.5))

None of them carries state, mixes examples, or looks at the data before training.
"""

from reticent.models.course_cnn import course_cnn
from reticent.models.linear import linear
from reticent.models.losses import accuracy, classification_loss, squared_loss
from reticent.models.mlp import mlp
from reticent.models.model import Model
from reticent.models.prior_images import random_shapes, random_strokes
from reticent.models.scattering import normalise_features, scattering_features
from reticent.models.scattering_heads import scattering_cnn, scattering_cnn_colour, scattering_linear
from reticent.models.tanh_cnn import tanh_cnn, tanh_cnn_colour
from reticent.models.text_bag import text_bag
from reticent.models.transformer import language_model, transformer
from reticent.models.whitening import Whitening, whitening
from reticent.models.wide_resnet import wide_resnet

__all__ = [
    "Model",
    "Whitening",
    "accuracy",
    "classification_loss",
    "course_cnn",
    "language_model",
    "linear",
    "mlp",
    "normalise_features",
    "random_shapes",
    "random_strokes",
    "scattering_cnn",
    "scattering_cnn_colour",
    "scattering_features",
    "scattering_linear",
    "squared_loss",
    "tanh_cnn",
    "tanh_cnn_colour",
    "text_bag",
    "transformer",
    "whitening",
    "wide_resnet",
]
