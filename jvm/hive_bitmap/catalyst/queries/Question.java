package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.fetching.Comparing;
import hive_bitmap.catalyst.observing.Observation;
import hive_bitmap.catalyst.python.Caller;
import hive_bitmap.catalyst.python.Failures;
import hive_bitmap.catalyst.python.IndexedColumns;
import hive_bitmap.catalyst.python.LatePlans;
import hive_bitmap.catalyst.python.Patience;
import hive_bitmap.catalyst.python.PlanningSlots;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.PythonRequest;
import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.python.SameQuestions;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.python.Versions;
import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.RowOrder;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LocalRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import scala.Option;

/**
 * The request to Python to decide on the scans of a query. Python reads {@link #text} and replies with an {@link Outcome} for each
 * scan. While it decides, it may ask for a {@link #listing}, for {@link #satisfying} keys, and for a small side
 * ({@link #readFirst}).
 */
public final class Question extends PythonRequest {
    private static final Versions<CatalogTable> TABLES = new Versions<>(1024);

    private final List<Scan> scans;
    private final Map<LogicalPlan, LogicalPlan> replacements = new IdentityHashMap<>();
    private final Map<LogicalPlan, List<InternalRow>> smallSides = new IdentityHashMap<>();
    private final Map<List<Integer>, LogicalPlan> rows = new ConcurrentHashMap<>(); // keys: the numbers of scan and part
    private final long indexes = IndexedColumns.version(); // the version of the indexes when Python is asked
    private volatile List<Outcome> outcomes = List.of();
    private ObjectNode json; // the question while it is asked, else null
    private volatile String reply;
    private volatile boolean closed; // the answer is no longer waited for
    private volatile Exception unlisted; // why Spark could not list the files of a scan
    private volatile boolean cut; // Python has stopped early, because the call was late
    private volatile long listedNanos; // spent on listing files
    private volatile long listingSince; // when the current listing of files began; 0 if none is in progress

    public Question(SparkSession session, List<Scan> scans) {
        super(session);
        this.scans = scans;
    }

    /**
     * Asks Python and applies its answer. An answer after {@code hive_bitmap.planning_seconds}, as {@link Patience} counts them, is
     * ignored, unless the session is strict or some scan need not pay. Throws IllegalStateException if Python fails.
     */
    public void ask(Settings settings) {
        boolean waits = settings.strict() || !scans.stream().allMatch(ChosenStrategy::mustPay);
        if (!waits && settings.planningSeconds() <= 0) {
            late(settings.planningSeconds(), 0);
            return;
        }
        double wait = waits ? 0 : LatePlans.wait(shape());
        if (wait > 0) {
            late(settings.planningSeconds(), wait);
            return;
        }
        if (waits) {
            ask(settings, true);
            return;
        }
        String question = textForAll();
        try {
            SameQuestions.Asked sharedReply = question == null ? null
                    : SameQuestions.ask(question, session.sparkContext(), settings.planningSeconds());
            if (sharedReply == null) {
                askInSlot(settings);
            } else if (sharedReply.isFirst()) {
                askForAll(settings, question);
            } else if (sharedReply.reply() == null || !takes(sharedReply.reply())) {
                askInSlot(settings);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            keep(null);
        }
    }

    /** Asks on behalf of all queries that now ask the same question. They get the reply. */
    private void askForAll(Settings settings, String question) throws InterruptedException {
        try {
            askInSlot(settings);
        } finally {
            SameQuestions.replied(question, reply);
        }
    }

    private void askInSlot(Settings settings) throws InterruptedException {
        if (!PlanningSlots.acquire(session.sparkContext())) {
            busy();
            return;
        }
        long started = System.nanoTime();
        try {
            ask(settings, false);
        } finally {
            PlanningSlots.release((System.nanoTime() - started) / 1e9);
        }
    }

    /**
     * Returns the question without its session. Queries that ask the same text at the same time may share one reply. Null if the
     * reply is valid for this query only: it then depends on files that have to be listed, on rows that have to be read, or on
     * expressions that Spark evaluates, whose text has neither their time zone nor their evaluation mode.
     */
    private String textForAll() {
        if (scans.stream().anyMatch(scan -> !scan.isListedBySpark() || !scan.runtimeFilters.isEmpty())) return null;
        ObjectNode question = keep(asJson()).deepCopy();
        if (scans.stream().anyMatch(scan -> !scan.leaves.isEmpty())) return null;
        question.remove("session");
        return question.toString();
    }

    /**
     * Applies another query's reply to the same question. Returns false if the reply has rows that only the other session can read.
     */
    private boolean takes(String replyToOther) {
        if (Outcome.all(replyToOther).stream().anyMatch(IndexScan::areOfSession)) return false;
        answered(replyToOther);
        apply(outcomes);
        return true;
    }

    private void ask(Settings settings, boolean waits) {
        boolean crowded = PlanningSlots.areCrowded();
        PythonCalls.Planning planning;
        try {
            planning = PythonCalls.plan(session, this);
        } catch (RejectedExecutionException e) {
            busy();
            return;
        }
        try {
            if (waits) planning.result().get();
            else Patience.await(planning.result(), session.sparkContext(), settings.planningSeconds(), this::listingNanos);
            apply(outcomes);
        } catch (TimeoutException e) {
            late(settings.planningSeconds(), LatePlans.add(shape(), crowded || PlanningSlots.areCrowded()));
            close();
            planning.cancelJobs();
        } catch (InterruptedException e) {
            close();
            planning.cancelJobs();
            planning.result().cancel(true);
            Thread.currentThread().interrupt();
        } catch (ExecutionException | CancellationException e) {
            if (unlisted != null) throw Failures.<RuntimeException>unchecked(unlisted);
            throw new IllegalStateException(e.getCause() == null ? e : e.getCause());
        }
    }

    /** Leaves all scans alone because too many plans are being made. */
    private void busy() {
        Reports.busy();
        scans.forEach(scan -> scan.leaveAlone("away"));
    }

    /** Leaves all scans alone because planning is late. {@code wait} is for how many seconds Python is not asked again. */
    private void late(double seconds, double wait) {
        Reports.late(seconds, wait);
        scans.forEach(scan -> scan.leaveAlone("late"));
    }

    /** Stops waiting for the answer. Python learns it from {@link #isLate}. */
    private void close() {
        closed = true;
    }

    /**
     * Returns whether the answer is no longer waited for. Python calls it when Spark fails, as happens when the jobs of a late call
     * are cancelled.
     */
    @Override
    public boolean isLate() {
        cut |= closed;
        return closed;
    }

    /** Takes Python's answer, in time or not. What the answer says about tables is cached in any case. */
    @Override
    protected void answered(Object reply) {
        if (reply != null) {
            outcomes = Outcome.all((String) reply);
            this.reply = (String) reply;
        }
        for (int scan = 0; scan < outcomes.size(); scan++) {
            List<String> columns = outcomes.get(scan).indexedColumns();
            if (columns != null) IndexedColumns.add(scans.get(scan).table.identifier(), columns, indexes);
            remember(scans.get(scan), outcomes.get(scan));
        }
        if (closed && !cut) LatePlans.ended(shape());
    }

    /** Caches the decision to leave a scan alone if it lasts. */
    private void remember(Scan scan, Outcome outcome) {
        String lasting = outcome.lasting();
        if (!lasting.isEmpty()) LeftAlone.add(scan, outcome.reason(), lasting.equals("table"), indexes);
    }

    /** Leaves a scan as it is. Partitions that were listed to decide that are not listed again. */
    public void leaveAlone(Scan scan) {
        if (scan.isListed()) replacements.put(scan.relation, NarrowedRelations.listed(scan));
    }

    private List<Shape> shape() {
        return scans.stream().map(Shape::of).toList();
    }

    /**
     * Returns the question as JSON. It has the protocol, the session, its user, the version of its settings, the number of tasks
     * that run at once, and an object for each scan; for its fields see {@code Scan} in hive_bitmap/spark/catalyst/scans.py.
     */
    @Override
    public String text() {
        return fields().toString();
    }

    /** Keeps the question while it is asked. So it is not written again for Python. Null drops it. */
    private synchronized ObjectNode keep(ObjectNode question) {
        json = question;
        return question;
    }

    private synchronized ObjectNode fields() {
        return json == null ? asJson() : json;
    }

    private ObjectNode asJson() {
        ObjectNode question = JsonNodeFactory.instance.objectNode();
        question.put("protocol", PROTOCOL).put("session", sessionName()).put("user", Caller.current().who());
        question.put("settings", settingsVersion()).put("cores", cores());
        ArrayNode scanObjects = question.putArray("scans");
        for (Scan scan : scans) {
            ObjectNode fields = scanObjects.addObject();
            fields.put("database", scan.table.database()).put("table", scan.table.identifier().table());
            fields.put("version", TABLES.of(scan.described()));
            fields.put("condition", String.join(" AND ", scan.conjuncts.stream().map(Expressions::shown).toList()));
            scan.leaves.clear();
            fields.set("tree", new Conditions(scan.all(), scan.leaves).tree(scan.conjunctsOfRows()));
            ArrayNode columns = fields.putArray("columns");
            for (Attribute column : scan.columns) columns.add(column.name());
            fields.put("indexed_known", IndexedColumns.areKnown(scan.table));
            fields.put("native", NarrowedRelations.reads(scan)).put("ordered", scan.order != RowOrder.UNSEEN);
            ArrayNode options = fields.putArray("options");
            for (String option : scan.optionsOfQuery()) options.add(option);
            if (scan.isListedBySpark()) fields.put("listing_summary", listingSummary(scans.indexOf(scan)));
            ArrayNode filters = fields.putArray("runtime_filters");
            for (RuntimeFilter filter : scan.runtimeFilters) filters.add(filter.column().name());
            if (scan.aggregate != null) Aggregates.describe(scan, fields.putObject("aggregate"));
            ChosenStrategy chosen = ChosenStrategy.of(scan);
            if (chosen != null && !chosen.strategy().isEmpty()) fields.put("strategy", chosen.strategy());
            if (!ChosenStrategy.mustPay(scan)) fields.put("must_pay", false);
            if (scan.limit != null) fields.put("limit", scan.limit);
        }
        return question;
    }

    /**
     * Executes the small side of a scan's runtime filter. Returns the filter's condition as JSON, as {@link Conditions} writes it;
     * null if the small side has too many rows. Scan and filter are given by their numbers.
     */
    public String readFirst(int scanNumber, int filterNumber) {
        Scan scan = scans.get(scanNumber);
        requireInTime();
        RuntimeFilter filter = scan.runtimeFilters.get(filterNumber);
        List<InternalRow> rows = smallSides.computeIfAbsent(filter.small(), small -> Joins.read(session, small));
        if (rows == null) return null;
        scan.readFirst.put(filter.small(), rows);
        return new Conditions(scan.all(), scan.leaves).tree(List.of(Joins.condition(filter, rows))).toString();
    }

    private void requireInTime() {
        if (isLate()) throw new CancellationException("planning is late, so its answer is not waited for");
    }

    /** Returns the table of a scan, which is given by its number. */
    public CatalogTable table(int scan) {
        return scans.get(scan).described();
    }

    /**
     * Returns bytes, number, fingerprint and {@link Scan#splitBytes} of a scan's files, separated by blanks. Null if Spark does not
     * list them.
     */
    public String listingSummary(int scan) {
        Listing listing = listed(scans.get(scan));
        if (listing == null) return null;
        return listing.bytes() + " " + listing.files.size() + " " + listing.fingerprint() + " " + scans.get(scan).splitBytes();
    }

    /** Lists the files of a scan for Python. Spark's error is kept: Python would report an error of the metastore as its own. */
    private Listing listed(Scan scan) {
        long began = System.nanoTime();
        listingSince = began;
        try {
            return scan.listing();
        } catch (Exception e) {
            unlisted = e;
            throw e;
        } finally {
            listedNanos += System.nanoTime() - began;
            listingSince = 0;
        }
    }

    /** Returns the nanoseconds that were spent on listing files until now. */
    private long listingNanos() {
        long since = listingSince;
        return listedNanos + (since == 0 ? 0 : System.nanoTime() - since);
    }

    /** Returns the text of a scan's listing. It is a StringBuilder, so that Python can fetch it in pieces. */
    public StringBuilder listing(int scan) {
        return new StringBuilder(scans.get(scan).listing().text());
    }

    @Override
    public String kind() {
        return "plan";
    }

    @Override
    protected StringBuilder deleted(int scan, List<Integer> numbers) {
        return scans.get(scan).deleted(numbers);
    }

    @Override
    protected Expression expression(int scan, int number) {
        requireInTime();
        return scans.get(scan).leaves.get(number);
    }

    /** Takes the DataFrame by which Python's tasks read a part. It has the columns that the scan needs. */
    public void rows(int scan, int part, Dataset<Row> frame) {
        rows.put(List.of(scan, part), frame.queryExecution().optimizedPlan());
    }

    private void apply(List<Outcome> outcomes) {
        List<String> reports = new ArrayList<>();
        for (int scan = 0; scan < outcomes.size(); scan++) {
            apply(scan, outcomes.get(scan));
            observe(scans.get(scan).observation, outcomes.get(scan));
            reports.add(outcomes.get(scan).report());
        }
        Reports.add(reports);
    }

    private void apply(int number, Outcome outcome) {
        Scan scan = scans.get(number);
        switch (outcome.kind()) {
            case "leave alone" -> leaveAlone(scan);
            case "empty" -> put(scan, new LocalRelation(scan.relation.output(), Scala.seq(List.of()), false, scala.Option.empty()));
            case "read choices" -> put(scan, NarrowedRelations.narrowed(scan, outcome.text("choices"), outcome.narrowing()));
            case "read rows" -> put(scan, IndexScan.of(scan, IndexScan.rows(session, scan, outcome, part -> rows.get(List.of(number, part))), outcome, isOutdated(scan, outcome)));
            case "counts" -> {
                LogicalPlan answer = IndexAnswer.of(scan, outcome.text("answer"), outcome.text("label"));
                if (scan.existence == null) replace(scan, scan.aggregate, answer);
                else replace(scan, scan.existence.plan(), scan.existence.from(answer));
            }
            default -> throw new IllegalStateException("not an outcome: " + outcome.kind());
        }
    }

    /**
     * Returns a function that checks whether a scan is outdated. It is if Spark would read other files at the time of the call. If
     * Python listed the files instead of Spark, Python lists them again. Python also checks files that its tasks open, which Spark
     * may have listed long ago.
     */
    private BooleanSupplier isOutdated(Scan scan, Outcome outcome) {
        Listing listing = scan.listing();
        SparkSession sessionOfQuery = session; // a plan must not keep the question
        String files = outcome.fields().path("files").asText(null);
        return () -> (listing != null && listing.isOutdated()) || (files != null && !new Comparing(sessionOfQuery, files).areCurrent());
    }

    private static void observe(Observation scan, Outcome outcome) {
        switch (outcome.kind()) {
            case "leave alone" -> scan.leftAlone(outcome.reason());
            case "empty" -> scan.emptied();
            case "counts" -> scan.answered(outcome.indexes(), outcome.bytesSaved());
            default -> scan.narrowed(outcome.indexes(), outcome.bytesSaved());
        }
    }

    private void put(Scan scan, LogicalPlan narrowed) {
        replace(scan, scan.relation, narrowed);
    }

    /**
     * Replaces a plan that depends on a scan. The small sides of the scan's runtime filters are replaced by the rows read from
     * them.
     */
    private void replace(Scan scan, LogicalPlan plan, LogicalPlan by) {
        replacements.put(plan, by);
        RowOrder.keep(plan, by);
        scan.readFirst.forEach((small, rows) -> replacements.put(
                small, new LocalRelation(small.output(), Scala.seq(rows), false, scala.Option.empty())));
    }

    /** Returns the plan with its scans replaced. Nodes are compared by identity, since equal scans may have different filters. */
    public LogicalPlan replaced(LogicalPlan plan) {
        if (replacements.isEmpty()) return plan;
        return (LogicalPlan) plan.transformDownWithSubqueries(Scala.replacing(replacements::get));
    }
}
