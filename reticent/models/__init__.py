"""Small networks and features as pure functions of a parameter tree.

    model = course_cnn()
    params = model.init(key)
    run = rt.train(classification_loss(model), params, data, plan, optimizer=optax.sgd(0.5))

None of them carries state, mixes examples, or looks at the data before training.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.models import initialisers as initialisers
    from reticent.models import layers as layers
    from reticent.models.colours import on_public_scale as on_public_scale
    from reticent.models.colours import with_public_scale as with_public_scale
    from reticent.models.course_cnn import course_cnn as course_cnn
    from reticent.models.fourier import FourierFeatures as FourierFeatures
    from reticent.models.linear import linear as linear
    from reticent.models.losses import accuracy as accuracy
    from reticent.models.losses import classification_loss as classification_loss
    from reticent.models.losses import squared_loss as squared_loss
    from reticent.models.mlp import mlp as mlp
    from reticent.models.model import Model as Model
    from reticent.models.patches import Patches as Patches
    from reticent.models.patches import patch_features as patch_features
    from reticent.models.patches import patches_of as patches_of
    from reticent.models.prior_images import random_scenes as random_scenes
    from reticent.models.prior_images import random_shapes as random_shapes
    from reticent.models.prior_images import random_strokes as random_strokes
    from reticent.models.scattering import normalise_features as normalise_features
    from reticent.models.scattering import scattering_features as scattering_features
    from reticent.models.scattering_heads import scattering_cnn as scattering_cnn
    from reticent.models.scattering_heads import scattering_cnn_colour as scattering_cnn_colour
    from reticent.models.scattering_heads import scattering_linear as scattering_linear
    from reticent.models.tanh_cnn import tanh_cnn as tanh_cnn
    from reticent.models.tanh_cnn import tanh_cnn_colour as tanh_cnn_colour
    from reticent.models.text_bag import text_bag as text_bag
    from reticent.models.transformer import language_model as language_model
    from reticent.models.transformer import transformer as transformer
    from reticent.models.whitening import Whitening as Whitening
    from reticent.models.whitening import whitening as whitening
    from reticent.models.wide_resnet import wide_resnet as wide_resnet
    from reticent.models.wide_resnet import wide_resnet_features as wide_resnet_features

open_page(__name__)
