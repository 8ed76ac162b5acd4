package hive_bitmap.catalyst.statements;

/** What Python is asked about an SQL text that may be an index statement. */
public final class Statement {
    /** What is wanted: the columns of the answer, the answer itself, or that a DROP takes the indexes along. */
    enum Wanted { PARSE, RUN, DROP }

    private final Wanted wanted;
    private final String text;

    Statement(Wanted wanted, String text) {
        this.wanted = wanted;
        this.text = text;
    }

    public String kind() {
        return wanted.name().toLowerCase(java.util.Locale.ROOT);
    }

    public String text() {
        return text;
    }
}
