"""Kernel affine hull machines: fitting, smoothing, fabrication, classification, sharding, exchange of models.

Numerics in float64: no orchestration, no global random state, and no files but for `save_model` and `load_model`.
Neither scale nor translation equivariant: the scaling of the input is part of every result.
"""

from tasks.kahm.classifier import KAHMClassifier, PoleCounts
from tasks.kahm.deep import DeepKernelAffineHullMachine
from tasks.kahm.machine import IN_RANGE_CONDITIONING, KernelAffineHullMachine
from tasks.kahm.nearest import POLE_CONDITIONING
from tasks.kahm.regularization import fixed_point_regularization
from tasks.kahm.sharding import SHARDING_SEED, shard_rows
from tasks.kahm.smoothing import (
    MAX_STEPS,
    MIN_RELATIVE,
    FabricationResult,
    ShardedFabrication,
    StopRuleNotReached,
    fabricate,
    fabricate_by_shard,
    smooth,
)
from tasks.kahm.storage import load_model, save_model
from tasks.kahm.wide import WideKernelAffineHullMachine

__all__ = [
    "IN_RANGE_CONDITIONING",
    "MAX_STEPS",
    "MIN_RELATIVE",
    "POLE_CONDITIONING",
    "SHARDING_SEED",
    "DeepKernelAffineHullMachine",
    "FabricationResult",
    "KAHMClassifier",
    "KernelAffineHullMachine",
    "PoleCounts",
    "ShardedFabrication",
    "StopRuleNotReached",
    "WideKernelAffineHullMachine",
    "fabricate",
    "fabricate_by_shard",
    "fixed_point_regularization",
    "load_model",
    "save_model",
    "shard_rows",
    "smooth",
]
