package hive_bitmap.catalyst.fetching;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.PythonRequest;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.spark.ArrowRows;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.DataType;

/** The request to Python for the rows of a {@link DriverScan}. It is sent when the scan is executed. */
final class Fetching extends PythonRequest {
    private final String fetch;
    private ArrowRows rows;

    /** {@code fetch} is the id under which Python keeps what it has to read. */
    Fetching(SparkSession session, String fetch) {
        super(session);
        this.fetch = fetch;
    }

    @Override
    public String kind() {
        return "fetch";
    }

    /** Returns the request as JSON: the id of the fetch, the session and the version of its settings. */
    @Override
    public String text() {
        return JsonNodeFactory.instance.objectNode()
                .put("fetch", fetch).put("session", sessionName()).put("settings", settingsVersion()).toString();
    }

    /** Takes a batch of rows. Python calls it at least once. */
    public void add(String schema, byte[] batch) {
        if (rows == null) rows = new ArrowRows(schema);
        rows.add(batch);
    }

    /**
     * Returns the rows, in columns of these types. Null if Python does not read them, because they are too many by now or a file is
     * missing. Throws IllegalStateException if Python fails or takes too long.
     */
    List<InternalRow> ask(List<DataType> types) {
        double seconds = Settings.of(SQLConf.get()).executionSeconds(false);
        if (PythonCalls.result(PythonCalls.fetch(session, this), seconds, "read the rows") == null) return null;
        if (!rows.types().equals(types)) throw new IllegalStateException("Python's rows are " + rows.types() + ", not " + types);
        return new ArrayList<>(rows.rows);
    }
}
