"""A plan as a value, and how it is shown: as text, HTML and JSON, with its block map.

`plan` says what is kept of all and why, with the words for strategies and reasons; `measures` has the units in which
people read figures.
"""

__all__ = ["blockmap", "explain", "explain_html", "measures", "plan"]
