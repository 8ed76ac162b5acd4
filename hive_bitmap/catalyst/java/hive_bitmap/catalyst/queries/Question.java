package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.reading.Narrowing;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;

/**
 * What Python is asked about a query: its scans of tables, and the answer to each. Python reads the question and calls
 * {@link #leave}, {@link #select}, {@link #rows} or {@link #answer} for each scan; one of which it says nothing stays.
 */
public final class Question extends Inquiry {
    final List<Scan> scans;
    final Map<LogicalPlan, LogicalPlan> replacements = new IdentityHashMap<>();
    public final List<String> reports = new ArrayList<>();
    private final Map<LogicalPlan, List<InternalRow>> read = new IdentityHashMap<>();
    private volatile boolean closed;

    public Question(SparkSession session, List<Scan> scans) {
        super(session);
        this.scans = scans;
    }

    /** The session, the version of its settings, how many tasks run at once, and an object a scan, as JSON. */
    @Override
    public String text() {
        ObjectNode question = JsonNodeFactory.instance.objectNode();
        question.put("session", sessionName()).put("settings", settingsNumber());
        question.put("cores", cores());
        ArrayNode all = question.putArray("scans");
        for (Scan scan : scans) {
            ObjectNode one = all.addObject();
            one.put("database", scan.table.database()).put("table", scan.table.identifier().table());
            one.put("version", Integer.toHexString(scan.table.hashCode()));
            one.put("condition", String.join(" AND ", scan.conjuncts.stream().map(Conditions::sql).toList()));
            scan.leaves.clear();
            one.set("tree", new Conditions(scan.all(), scan.leaves).tree(scan.conjuncts));
            ArrayNode columns = one.putArray("columns");
            for (Attribute column : scan.columns) columns.add(column.name());
            one.put("indexed", IndexedColumns.areKnown(scan.table));
            one.put("native", Native.reads(scan));
            if (scan.listsAtOnce()) one.put("listed", listed(scans.indexOf(scan)));
            ArrayNode links = one.putArray("links");
            for (Joins.Link link : scan.links) links.add(link.column().name());
            if (scan.aggregate != null) Aggregates.describe(scan, one.putObject("aggregate"));
        }
        return question.toString();
    }

    /** The key columns of all indexes of the table of a scan, each followed by a line feed; known for a while. */
    public void indexed(int scan, String columns) {
        IndexedColumns.add(scans.get(scan).table, columns.lines().toList());
    }

    /**
     * Read the small side of a link of a scan: the tree of the condition on the scan's column, and how many keys it has;
     * null where the rows are too many.
     */
    public String readFirst(int scan, int link) {
        Scan one = scans.get(scan);
        Joins.Link wanted = one.links.get(link);
        List<InternalRow> rows = read.computeIfAbsent(wanted.small(), small -> Joins.read(session, small));
        if (rows == null) return null;
        one.readFirst.put(wanted.small(), rows);
        return new Conditions(one.all(), one.leaves).tree(List.of(Joins.condition(wanted, rows))).toString();
    }

    /** Nothing is asked again of a scan that is so small, until something about it changes. */
    public void tooSmall(int scan) {
        TooSmall.add(scans.get(scan));
    }

    /** The table of a scan as the catalog has it. */
    public CatalogTable table(int scan) {
        return scans.get(scan).table;
    }

    /** Bytes, files and fingerprint of the listing of a scan, with blanks between; null where Spark cannot tell its files. */
    public String listed(int scan) {
        Listing listing = scans.get(scan).listing();
        return listing == null ? null : listing.bytes() + " " + listing.files.size() + " " + listing.fingerprint();
    }

    /** The listing itself. */
    public StringBuilder listing(int scan) {
        return new StringBuilder(scans.get(scan).listing().text());
    }

    @Override
    public String kind() {
        return "plan";
    }

    @Override
    Scan scan(int number) {
        return scans.get(number);
    }

    /** The scan stays as it is; partitions that were listed for the question need not be listed again. */
    public synchronized void leave(int scan, String report) {
        if (closed) return;
        reports.add(report);
        Scan one = scans.get(scan);
        if (one.isListed()) replacements.put(one.relation, Native.listed(one));
    }

    /** Spark's own reader reads these files and blocks: see {@link Native#choices}. */
    public synchronized void select(int scan, String choices, String label, int[] read, String report) {
        if (closed) return;
        Scan one = scans.get(scan);
        put(one, Native.narrowed(one, choices, narrowing(label, read)));
        reports.add(report);
    }

    /** No row of the scan satisfies its condition. */
    public synchronized void empty(int scan, String report) {
        if (closed) return;
        Scan one = scans.get(scan);
        put(one, new LocalRelation(one.relation.output(), Scala.seq(List.of()), false, scala.Option.empty()));
        reports.add(report);
    }

    /** A DataFrame gives the rows: the columns that the scan needs, in any order. */
    public synchronized void rows(int scan, Dataset<Row> frame, long bytes, String label, int[] read, String report) {
        if (closed) return;
        Scan one = scans.get(scan);
        put(one, IndexScan.of(one, frame, bytes, narrowing(label, read)));
        reports.add(report);
    }

    /** The aggregation over the scan is answered from the index when the plan is executed; {@code number} is Python's. */
    public synchronized void answer(int scan, String number, String label, String report) {
        if (closed) return;
        Scan one = scans.get(scan);
        LogicalPlan answer = Aggregates.answered(one, number, label);
        if (one.existence == null) replacements.put(one.aggregate, answer);
        else replacements.put(one.existence.plan(), one.existence.from(answer));
        reports.add(report);
    }

    /** {@code read} are blocks, blocks of all, files and files of all. */
    private static Narrowing narrowing(String label, int[] read) {
        return new Narrowing(label, read[0], read[1], read[2], read[3]);
    }

    private void put(Scan scan, LogicalPlan narrowed) {
        replacements.put(scan.relation, narrowed);
        scan.readFirst.forEach((small, rows) -> replacements.put(
                small, new LocalRelation(small.output(), Scala.seq(rows), false, scala.Option.empty())));
    }

    /** From now on answers come too late. */
    synchronized void close() {
        closed = true;
    }

    /** The plan with what was put in the place of its scans; nodes are known by identity, equal ones may differ. */
    public synchronized LogicalPlan replaced(LogicalPlan plan) {
        if (replacements.isEmpty()) return plan;
        return (LogicalPlan) plan.transformDownWithSubqueries(Scala.replacing(replacements::get));
    }
}
