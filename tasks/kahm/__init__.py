"""Kernel affine hull machines: fitting, smoothing, fabrication, classification, sharding.

Pure numerics in float64: no files, no orchestration, no global random state. Neither scale nor translation
equivariant: the scaling of the input is part of every result.
"""

from tasks.kahm.classifier import KAHMClassifier
from tasks.kahm.machine import IN_RANGE_CONDITIONING, KernelAffineHullMachine
from tasks.kahm.regularization import fixed_point_regularization
from tasks.kahm.sharding import SHARDING_SEED, shard_rows
from tasks.kahm.smoothing import (
    MAX_STEPS,
    MIN_RELATIVE,
    FabricationResult,
    StopRuleNotReached,
    fabricate,
    smooth,
)

__all__ = [
    "IN_RANGE_CONDITIONING",
    "MAX_STEPS",
    "MIN_RELATIVE",
    "SHARDING_SEED",
    "FabricationResult",
    "KAHMClassifier",
    "KernelAffineHullMachine",
    "StopRuleNotReached",
    "fabricate",
    "fixed_point_regularization",
    "shard_rows",
    "smooth",
]
