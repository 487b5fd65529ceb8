"""From the parameters of a release to its guarantees, at both units."""

from tasks.accounting.classifiers import classifier_events as classifier_events
from tasks.accounting.classifiers import is_covered as is_covered
from tasks.accounting.groups import Part as Part
from tasks.accounting.groups import groups_of as groups_of
from tasks.accounting.mechanism import CellNoise as CellNoise
from tasks.accounting.mechanism import Mechanism as Mechanism
from tasks.accounting.mechanism import Moments as Moments
from tasks.accounting.mechanism import cell_noise as cell_noise
from tasks.accounting.mechanism import mechanism_of as mechanism_of
from tasks.accounting.recheck import unproved_claim as unproved_claim
