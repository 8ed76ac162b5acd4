"""How a plan is shown: as text, HTML and JSON, with its block map.

`measures` has the units in which people read figures, `reports` the tables that notebooks show.
"""

__all__ = ["blockmap", "explain", "explain_html", "measures", "reports"]
