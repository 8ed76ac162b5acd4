package hive_bitmap.catalyst;

import hive_bitmap.catalyst.queries.IndexedColumns;
import hive_bitmap.catalyst.queries.Planner;
import hive_bitmap.catalyst.queries.Reports;
import hive_bitmap.catalyst.statements.Statements;
import java.util.List;
import java.util.function.BiFunction;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

/** What Python calls; an object, since py4j finds static methods only in the class loader of its own threads. */
public final class Bridge {
    /** Let this session, and those that are made of it, ask Python about their queries. */
    public void enable(SparkSession session, BiFunction<Object, Object, Object> python) {
        BitmapExtension.inject(session.extensions());
        Statements.into(session);
        Planner.register(python);
    }

    /** Ask nobody from now on. */
    public void disable() {
        Planner.unregister();
    }

    public boolean isEnabled() {
        return !Planner.isAbsent();
    }

    /** Forget which columns of tables are indexed. */
    public void forgetIndexed() {
        IndexedColumns.clear();
    }

    /** What is decided of each scan of a DataFrame that is planned now, a JSON object each. */
    public List<String> reports(Dataset<?> frame) {
        return Reports.of(frame);
    }
}
