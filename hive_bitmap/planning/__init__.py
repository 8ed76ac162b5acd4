"""From a predicate to rows, counts and offsets: parsing, selecting, planning, reading, explaining."""
