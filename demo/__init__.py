"""The demonstration: real flights, indexed, queried and explained, in a local Spark."""
