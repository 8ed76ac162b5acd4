"""Sample blocks of a table, and estimate an index from them.

Its size and its usefulness are estimated.
"""

__all__ = ["extrapolate", "sampling", "verdict"]
