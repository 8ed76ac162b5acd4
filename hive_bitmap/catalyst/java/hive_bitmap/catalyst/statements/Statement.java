package hive_bitmap.catalyst.statements;

/** A request to Python about an SQL text that may be an index statement. */
public final class Statement {
    /** To name the columns of the statement's result; to execute it; to drop the indexes of what the statement drops. */
    enum Kind { PARSE, RUN, DROP }

    private final Kind kind;
    private final String text;

    Statement(Kind kind, String text) {
        this.kind = kind;
        this.text = text;
    }

    public String kind() {
        return kind.name().toLowerCase(java.util.Locale.ROOT);
    }

    public String text() {
        return text;
    }
}
