package hive_bitmap.catalyst.statements;

/** An index statement cannot be parsed or executed; the message says why, and what to do. */
public final class IndexStatementException extends IllegalArgumentException {
    private static final long serialVersionUID = 1;

    IndexStatementException(String message) {
        super(message);
    }

    IndexStatementException(String message, Throwable cause) {
        super(message, cause);
    }
}
