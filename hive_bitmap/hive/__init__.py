"""What Hive adds, and nothing else needs: queries through a Hive server, and indexes of Hive 2's own kind."""
