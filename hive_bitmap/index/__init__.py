"""What an index is and how it is made: definitions, generations of shards and manifests, builds."""
