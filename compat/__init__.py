"""`make compat`: the wheel in fresh environments, a version of PySpark each, through every entry point."""
