"""Show a plan as text, HTML and JSON, with its block map.

`measures` formats figures with units. `reports` declares the fields of reports, which the command line prints, and
makes tables of reports, which notebooks show.
"""

__all__ = ["blockmap", "explain", "explain_html", "measures", "reports"]
