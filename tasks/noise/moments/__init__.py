"""What `PrivateMoments` is made of: exact integer sums, the released object, the model and rows drawn from it."""

from tasks.noise.moments.blocks import Block as Block
from tasks.noise.moments.blocks import Layout as Layout
from tasks.noise.moments.blocks import layout_of as layout_of
from tasks.noise.moments.estimate import first_estimate as first_estimate
from tasks.noise.moments.model import MomentsModel as MomentsModel
from tasks.noise.moments.model import fit_model as fit_model
from tasks.noise.moments.released import FirstMoments as FirstMoments
from tasks.noise.moments.released import MomentsRelease as MomentsRelease
from tasks.noise.moments.released import Standardization as Standardization
from tasks.noise.moments.rows import draw_rows as draw_rows

__all__ = [
    "Block",
    "FirstMoments",
    "Layout",
    "MomentsModel",
    "MomentsRelease",
    "Standardization",
    "draw_rows",
    "first_estimate",
    "fit_model",
    "layout_of",
]
