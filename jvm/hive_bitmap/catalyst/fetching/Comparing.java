package hive_bitmap.catalyst.fetching;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import hive_bitmap.catalyst.python.Failures;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.PythonRequest;
import hive_bitmap.catalyst.python.Settings;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SQLConf;

/** The request to Python to compare the files that it listed with the current files. It is sent when a plan is executed. */
public final class Comparing extends PythonRequest {
    private final String files;

    /** {@code files} is the id under which Python keeps its listing. */
    public Comparing(SparkSession session, String files) {
        super(session);
        this.files = files;
    }

    @Override
    public String kind() {
        return "compare";
    }

    @Override
    public String text() {
        return JsonNodeFactory.instance.objectNode().put("files", files).toString();
    }

    /** Returns whether the files are known to be unchanged. */
    public boolean areCurrent() {
        try {
            double seconds = Settings.of(SQLConf.get()).executionSeconds(false);
            return PythonCalls.result(PythonCalls.fetch(session, this), seconds, "compared the files") != null;
        } catch (Exception | LinkageError e) {
            Failures.goOn(e);
            return false;
        }
    }
}
