package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.spark.ArrowRows;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.BooleanType;
import scala.Option;

/** What Python is asked about a query of a session, and may ask of it in turn. */
public abstract class Inquiry {
    final SparkSession session;

    Inquiry(SparkSession session) {
        this.session = session;
    }

    /** What is asked: "plan" or "count". */
    public abstract String kind();

    /** All that is known from the start, as JSON. */
    public abstract String text();

    /** The scan of a number. */
    abstract Scan scan(int number);

    /** The settings that are not left to their defaults. */
    public scala.collection.immutable.Map<String, String> settings() {
        return SQLConf.get().getAllConfs();
    }

    /** Under which Python remembers the settings. */
    static int settingsNumber() {
        return SQLConf.get().getAllConfs().hashCode();
    }

    /** How many tasks run at once. */
    String cores() {
        return SQLConf.get().getConfString(
                "spark.sql.leafNodeDefaultParallelism", Integer.toString(session.sparkContext().defaultParallelism()));
    }

    String sessionName() {
        return ((org.apache.spark.sql.classic.SparkSession) session).sessionUUID();
    }

    /** The rows of a batch of keys (a column named as the tested one, and others) of which an expression is TRUE. */
    public Dataset<Row> satisfying(int scan, int expression, String schema, byte[] batch) {
        Expression condition = scan(scan).leaves.get(expression);
        Attribute tested = Scala.list(condition.references().toSeq()).get(0);
        ArrowRows keys = new ArrowRows(schema).add(batch);
        List<Attribute> columns = keys.columns();
        Attribute key = columns.stream().filter(one -> one.name().equalsIgnoreCase(tested.name())).findFirst().orElse(null);
        if (key == null || !key.dataType().equals(tested.dataType()) || !(condition.dataType() instanceof BooleanType)) {
            throw new IllegalArgumentException("the keys of " + tested.name() + " are not of the column's type");
        }
        Expression over = Conditions.over(condition, tested, key);
        LocalRelation plan = new LocalRelation(Scala.seq(columns), Scala.seq(keys.rows), false, Option.empty());
        return Dataset.ofRows((org.apache.spark.sql.classic.SparkSession) session, new Filter(over, plan));
    }
}
