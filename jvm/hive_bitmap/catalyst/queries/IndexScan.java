package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.databind.JsonNode;
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

/** A leaf that replaces a scan by a query through the index. As a leaf it is not optimized again. */
public final class IndexScan extends Leaf implements FileRelation {
    private final LogicalPlan rows;
    private final long bytes;
    private final Narrowing narrowing;
    private final LogicalPlan original; // the plan of Spark's own scan
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
     * Returns the columns that a scan needs, taken by name from the optimized plan {@code rows}. The columns keep the scan's
     * expression ids. {@code isOutdated} is called when the scan is executed, and returns whether Spark would now read other files.
     */
    static IndexScan of(Scan scan, LogicalPlan rows, Decision decision, BooleanSupplier isOutdated) {
        List<NamedExpression> aliases = new ArrayList<>();
        List<Attribute> output = new ArrayList<>();
        for (Attribute column : scan.columns) {
            Attribute source = named(rows, column.name());
            if (!source.dataType().equals(column.dataType())) {
                throw new IllegalStateException(
                        "column " + column.name() + " is " + source.dataType().sql() + ", not " + column.dataType().sql());
            }
            aliases.add(Expressions.alias(source, column));
            output.add(column.withNullability(true));
        }
        return new IndexScan(
                Scala.seq(output), new Project(Scala.seq(aliases), rows), decision.bytes(), decision.narrowing(), original(scan),
                isOutdated);
    }

    /**
     * Returns the plan for the rows of all parts, in order. {@code frames} returns the plan of a part that tasks read, by its
     * number.
     */
    static LogicalPlan rows(SparkSession session, Scan scan, Decision decision, IntFunction<LogicalPlan> frames) {
        List<LogicalPlan> parts = new ArrayList<>();
        for (JsonNode part : decision.parts()) {
            int number = parts.size();
            parts.add(switch (part.required("read by").asText()) {
                case "tasks" -> frames.apply(number);
                case "python" -> DriverScan.of(needed(scan, part, decision.narrowing()), decision.id(), number);
                default -> bySpark(session, scan, part.required("choices").asText(), decision.narrowing());
            });
        }
        return parts.size() == 1 ? parts.get(0) : new Union(Scala.seq(parts), false, false);
    }

    /** Returns Spark's own plan for the rows that the query needs from a part. It is executed if Python cannot read the part. */
    private static LogicalPlan needed(Scan scan, JsonNode part, Narrowing narrowing) {
        String files = part.path("choices").asText(); // empty if there are no other parts
        LogicalPlan rows = files.isEmpty() ? original(scan) : original(scan, NarrowedRelations.splits(scan, files, narrowing));
        return scan.first == null ? rows : scan.first.limited(rows);
    }

    /** Returns the plan by which Spark itself reads some splits of files. */
    private static LogicalPlan bySpark(SparkSession session, Scan scan, String choices, Narrowing narrowing) {
        LogicalPlan original = original(scan, NarrowedRelations.splits(scan, choices, narrowing));
        List<NamedExpression> columns = new ArrayList<>(); // with new ids: those of the scan belong to the union of the parts
        for (Attribute column : Scala.list(original.output())) columns.add(Expressions.alias(column, column.name()));
        return SideQuery.optimized(session, new Project(Scala.seq(columns), original));
    }

    /** Returns Spark's own plan for a scan: the scan's columns of the rows that satisfy its conditions. */
    static LogicalPlan original(Scan scan) {
        return original(scan, scan.isListed() ? NarrowedRelations.listed(scan) : scan.relation);
    }

    /** Returns Spark's own plan for a scan over another relation with the same columns. */
    static LogicalPlan original(Scan scan, LogicalPlan relation) {
        LogicalPlan rows = Conditions.filtered(relation, scan.conjuncts);
        return new Project(Scala.seq(List.<NamedExpression>copyOf(scan.columns)), rows);
    }

    /**
     * Returns Spark's own physical plan if Spark would now read other files, as after a write in this session; else null. Spark,
     * too, decides which files it reads when it first executes a plan.
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
