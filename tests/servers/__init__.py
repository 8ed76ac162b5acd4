"""Real servers for the tests, as plain processes: their jars, their start and their end."""
