"""The privacy budget's ledger."""

from tasks.ledger.ledger import Ledger as Ledger
