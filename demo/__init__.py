"""The demo: index, query and explain a table of real flights in a local Spark."""
