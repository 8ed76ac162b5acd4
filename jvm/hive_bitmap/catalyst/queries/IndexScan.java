package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.databind.JsonNode;
import hive_bitmap.catalyst.fetching.DriverScan;
import hive_bitmap.catalyst.reading.Narrowing;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.InputFiles;
import hive_bitmap.catalyst.spark.Leaf;
import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.SideQuery;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.IntFunction;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.FileRelation;
import org.apache.spark.sql.execution.SparkPlan;
import scala.Option;
import scala.collection.immutable.Seq;

/** Replaces a scan by a query that reads its rows through the index. A leaf, so it is not optimized again. */
public final class IndexScan extends Leaf implements FileRelation {
    private final LogicalPlan rows;
    private final long bytes;
    private final Narrowing narrowing;
    private final LogicalPlan original; // by which Spark itself reads the scan
    private final transient BooleanSupplier isOutdated;

    private IndexScan(
            Seq<Attribute> output, LogicalPlan rows, long bytes, Narrowing narrowing, LogicalPlan original,
            BooleanSupplier isOutdated) {
        super(output);
        this.rows = rows;
        this.bytes = bytes;
        this.narrowing = narrowing;
        this.original = original;
        this.isOutdated = isOutdated;
    }

    /**
     * Returns the columns that a scan needs, taken by name from an optimized plan, with the scan's expression ids.
     * {@code isOutdated} says, when the scan is executed, whether Spark would read other files by then.
     */
    static IndexScan of(Scan scan, LogicalPlan rows, Outcome outcome, BooleanSupplier isOutdated) {
        List<NamedExpression> aliases = new ArrayList<>();
        List<Attribute> output = new ArrayList<>();
        for (Attribute column : scan.columns) {
            Attribute found = named(rows, column.name());
            if (!found.dataType().equals(column.dataType())) {
                throw new IllegalStateException(
                        "column " + column.name() + " is " + found.dataType().sql() + ", not " + column.dataType().sql());
            }
            aliases.add(Expressions.alias(found, column));
            output.add(column.withNullability(true));
        }
        return new IndexScan(
                Scala.seq(output), new Project(Scala.seq(aliases), rows), outcome.bytes(), outcome.narrowing(), original(scan),
                isOutdated);
    }

    /** Whether an outcome has rows that only the session can read for which it was decided. */
    static boolean areOfSession(Outcome outcome) {
        return outcome.kind().equals("read rows") && outcome.parts().stream().anyMatch(part -> reader(part).equals("tasks"));
    }

    /** Returns the rows of all parts, one part after the other; {@code frames} has those that tasks read, by number. */
    static LogicalPlan rows(SparkSession session, Scan scan, Outcome outcome, IntFunction<LogicalPlan> frames) {
        List<LogicalPlan> parts = new ArrayList<>();
        for (JsonNode part : outcome.parts()) {
            boolean byTasks = reader(part).equals("tasks");
            parts.add(byTasks ? frames.apply(parts.size()) : part(session, scan, part, outcome));
        }
        return parts.size() == 1 ? parts.get(0) : new Union(Scala.seq(parts), false, false);
    }

    private static LogicalPlan part(SparkSession session, Scan scan, JsonNode part, Outcome outcome) {
        if (reader(part).equals("python")) return DriverScan.of(IndexScan.original(scan), part.required("fetch").asText());
        LogicalPlan splits = NarrowedRelations.splits(scan, part.required("choices").asText(), outcome.narrowing());
        LogicalPlan original = IndexScan.original(scan, splits);
        List<NamedExpression> columns = new ArrayList<>(); // with other ids: those of the scan are for its parts together
        for (Attribute column : Scala.list(original.output())) columns.add(Expressions.alias(column, column.name()));
        return SideQuery.optimized(session, new Project(Scala.seq(columns), original));
    }

    private static String reader(JsonNode part) {
        return part.required("read by").asText();
    }

    /** Returns the columns of a scan, and the rows that satisfy its conditions, as Spark itself reads them. */
    static LogicalPlan original(Scan scan) {
        return original(scan, scan.isListed() ? NarrowedRelations.listed(scan) : scan.relation);
    }

    /** Returns the same, read from another relation with the scan's columns. */
    static LogicalPlan original(Scan scan, LogicalPlan relation) {
        LogicalPlan rows = Conditions.filtered(relation, scan.conjuncts);
        return new Project(Scala.seq(List.<NamedExpression>copyOf(scan.columns)), rows);
    }

    /**
     * Returns the plan by which Spark reads the scan, if the session has written the table since the query was planned: Spark,
     * too, decides when it first executes a plan which files it reads. Null if it has not.
     */
    public SparkPlan instead(SparkSession session) {
        return isOutdated.getAsBoolean() ? SideQuery.plan(session, original) : null;
    }

    private static Attribute named(LogicalPlan rows, String name) {
        for (Attribute column : Scala.list(rows.output())) {
            if (column.name().equalsIgnoreCase(name)) return column;
        }
        throw new IllegalStateException("the narrowed scan lacks column " + name);
    }

    public Narrowing narrowing() {
        return narrowing;
    }

    public LogicalPlan rows() {
        return rows;
    }

    @Override
    public String[] inputFiles() {
        return InputFiles.of(original);
    }

    @Override
    public Statistics computeStats() {
        return new Statistics(
                scala.math.BigInt.apply(Math.max(bytes, 1)), Option.empty(),
                org.apache.spark.sql.catalyst.expressions.AttributeMap$.MODULE$.empty(), false);
    }

    @Override
    public String simpleString(int maxFields) {
        return "IndexScan " + narrowing.label();
    }

    @Override
    protected Leaf copy() {
        return new IndexScan(output(), rows, bytes, narrowing, original, isOutdated);
    }

    @Override
    protected Object[] identity() {
        return new Object[] {rows, narrowing};
    }
}
