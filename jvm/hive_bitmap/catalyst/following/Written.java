package hive_bitmap.catalyst.following;

/** A message to Python about a write. The reply is a JSON array of the table's indexed columns, or null if they are unknown. */
public final class Written {
    private final Write write;

    Written(Write write) {
        this.write = write;
    }

    public String kind() {
        return "written";
    }

    public String text() {
        return write.json();
    }
}
