"""SELECT through the index: the scans of a query are narrowed, its text stays as it is."""
