"""Show a plan as text, HTML and JSON, with its block map.

`measures` formats figures in the units that people read, `reports` declares the fields of reports, which the command
line prints, and makes the tables that notebooks show.
"""

__all__ = ["blockmap", "explain", "explain_html", "measures", "reports"]
