"""Models from public data, learned without privacy, for private runs to start from.

    public = pretrain("cifar100", model="wide_resnet")
    public.write(Path("public"))

Nothing here protects anybody. It is for data that everybody may see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reticent.core.pages import open_page

if TYPE_CHECKING:
    from reticent.pretraining.from_images import pretrain as pretrain
    from reticent.pretraining.overlap import count_overlap as count_overlap
    from reticent.pretraining.overlap import row_hashes as row_hashes
    from reticent.pretraining.public_model import PublicModel as PublicModel
    from reticent.pretraining.public_model import read_public as read_public

open_page(__name__)
