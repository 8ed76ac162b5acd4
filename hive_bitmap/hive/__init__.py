"""Do what only Hive needs: queries through a Hive server, and native indexes of Hive 2."""
