package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.keys.AggregatedExpressions;
import hive_bitmap.catalyst.keys.KeyExpressions;
import hive_bitmap.catalyst.observing.Application;
import hive_bitmap.catalyst.observing.Observation;
import hive_bitmap.catalyst.observing.ScanTimes;
import hive_bitmap.catalyst.python.Caller;
import hive_bitmap.catalyst.python.Failures;
import hive_bitmap.catalyst.python.PlanningGate;
import hive_bitmap.catalyst.python.PythonCalls;
import hive_bitmap.catalyst.python.PythonRequest;
import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.python.Settings;
import hive_bitmap.catalyst.python.Verdicts;
import hive_bitmap.catalyst.python.Versions;
import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.NestedColumns;
import hive_bitmap.catalyst.spark.RowOrder;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeoutException;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
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
 * The request to Python to decide on the scans of a query. Python reads {@link #text} and replies with a {@link Decision} for
 * each scan. While Python decides, it may ask for a {@link #listing}, for {@link #satisfying} keys, and for a small side ({@link
 * #readFirst}).
 */
public final class Question extends PythonRequest {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Versions<CatalogTable> TABLES = new Versions<>(1024);
    private static final Versions<Expression> EXPRESSIONS = new Versions<>(1024);

    private final List<Scan> scans;
    private final Map<LogicalPlan, LogicalPlan> replacements = new IdentityHashMap<>();
    private final Map<LogicalPlan, List<InternalRow>> smallSides = new IdentityHashMap<>();
    private final Map<List<Integer>, LogicalPlan> rows = new ConcurrentHashMap<>(); // keys: the numbers of scan and part
    private final long indexes = Verdicts.version(); // the version of the indexes when Python is asked
    private volatile List<Decision> decisions = List.of();
    private volatile boolean onlyKept; // whether Python is asked only for decisions that it has kept
    private boolean learns; // whether the time of the query is measured, for Python's prices
    private volatile boolean closed; // whether the answer is no longer waited for
    private volatile Exception unlisted; // why Spark could not list the files of a scan
    private volatile long listedNanos; // spent on listing files
    private volatile long listingSince; // when the current listing of files began; 0 if none is in progress

    public Question(SparkSession session, List<Scan> scans) {
        super(session);
        this.scans = scans;
    }

    /**
     * Asks Python and applies its decisions. Decisions that come after {@code hive_bitmap.planning_seconds}, as {@link
     * PlanningGate#await} counts them, are not used. There is no such limit if the session is strict, or if a scan need not pay.
     * While planning of such queries is paused, Python is asked only for decisions that it has kept; if it has none, it makes them
     * while Spark's own plan runs. Throws IllegalStateException if Python fails.
     */
    public void ask(Settings settings) {
        learns = settings.learnPrices();
        if (settings.strict() || !scans.stream().allMatch(ChosenStrategy::mustPay)) {
            ask(Double.POSITIVE_INFINITY, 0);
            return;
        }
        if (settings.planningSeconds() <= 0) {
            late(settings.planningSeconds(), 0);
            return;
        }
        double pause = PlanningGate.pause(shape());
        onlyKept = pause > 0;
        if (onlyKept && scans.stream().anyMatch(scan -> !scan.isListedBySpark() || !scan.runtimeFilters.isEmpty())) {
            late(settings.planningSeconds(), pause); // Python keeps no decisions that depend on other files or rows
            return;
        }
        try {
            if (!PlanningGate.enter(session.sparkContext())) {
                busy();
                return;
            }
            long started = System.nanoTime();
            try {
                ask(settings.planningSeconds(), pause);
            } finally {
                PlanningGate.leave((System.nanoTime() - started) / 1e9);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void ask(double seconds, double pause) {
        boolean crowded = PlanningGate.isCrowded();
        PythonCalls.Planning planning;
        try {
            planning = PythonCalls.plan(session, this);
        } catch (RejectedExecutionException e) {
            busy();
            return;
        }
        try {
            if (seconds == Double.POSITIVE_INFINITY) planning.result().get();
            else PlanningGate.await(planning.result(), session.sparkContext(), seconds, this::listingNanos);
            if (!decisions.isEmpty()) {
                apply();
                return;
            }
            late(seconds, pause);
            if (scans.stream().anyMatch(scan -> !scan.leaves.isEmpty())) return; // Spark would have to run a job for a leaf
            Question later = new Question(session, scans);
            later.closed = true;
            PythonCalls.planInBackground(session, later);
        } catch (TimeoutException e) {
            closed = true;
            planning.cancelJobs();
            late(seconds, onlyKept ? pause : PlanningGate.late(shape(), crowded || PlanningGate.isCrowded()));
        } catch (InterruptedException e) {
            closed = true;
            planning.cancelJobs();
            planning.result().cancel(true);
            Thread.currentThread().interrupt();
        } catch (ExecutionException | CancellationException e) {
            if (unlisted != null) throw Failures.<RuntimeException>unchecked(unlisted);
            throw new IllegalStateException(e.getCause() == null ? e : e.getCause());
        }
    }

    /** Leaves all scans alone because Python is making too many plans. */
    private void busy() {
        Reports.busy();
        scans.forEach(scan -> scan.leaveAlone("away"));
    }

    /**
     * Leaves all scans alone because planning is late. {@code wait} is the number of seconds for which Python is not asked again.
     */
    private void late(double seconds, double wait) {
        Reports.late(seconds, wait);
        scans.forEach(scan -> scan.leaveAlone("late"));
    }

    /** Returns whether the query no longer waits for the decisions. */
    @Override
    public boolean isLate() {
        return closed;
    }

    /**
     * Takes Python's decisions, and caches what they say about tables, even if they are late. If {@code reply} is null, Python has
     * no decisions: it has stopped early because the call was late, or it was asked for kept decisions and has none.
     */
    @Override
    protected void answered(Object reply) {
        if (reply == null) return;
        decisions = Decision.all((String) reply);
        for (int number = 0; number < decisions.size(); number++) {
            Scan scan = scans.get(number);
            Decision decision = decisions.get(number);
            List<String> columns = decision.indexedColumns();
            Verdicts.pricesAre(decision.prices());
            if (columns != null) Verdicts.addColumns(scan.table.identifier(), columns, indexes);
            String lasting = decision.lasting();
            if (!lasting.isEmpty()) scan.addVerdict(decision.reason(), lasting.equals("table"), indexes, decision.prices());
        }
        if (closed) PlanningGate.ended(shape());
    }

    /** Leaves a scan as it is. Partitions that were listed for the decision are not listed again. */
    public void leaveAlone(Scan scan) {
        if (scan.isListed()) replacements.put(scan.relation, NarrowedRelations.listed(scan));
    }

    private List<Shape> shape() {
        return scans.stream().map(Shape::of).toList();
    }

    /**
     * Returns the question as JSON. It has the protocol, the session, its user, the version of its settings, the number of tasks
     * that run at once, whether only kept decisions are wanted, how long earlier scans took, and an object for each scan; for its
     * fields see {@code Scan} in hive_bitmap/spark/catalyst/scans.py.
     */
    @Override
    public String text() {
        ObjectNode question = JsonNodeFactory.instance.objectNode();
        question.put("protocol", PROTOCOL).put("session", sessionName()).put("user", Caller.current().who());
        question.put("settings", settingsVersion()).put("cores", cores());
        if (onlyKept) question.put("only_kept", true);
        List<ScanTimes.ScanTime> times = scanTimes().take();
        ArrayNode measured = times.isEmpty() ? null : question.putArray("measured");
        for (ScanTimes.ScanTime time : times) {
            measured.addObject().put("decision", time.decision()).put("seconds", time.seconds()).put("rows", time.rows());
        }
        ArrayNode scanObjects = question.putArray("scans");
        for (Scan scan : scans) {
            scan.setKeys(List.of(), Set.of());
            scan.setMeasured(List.of());
            describe(scan, scanObjects.addObject());
        }
        return question.toString();
    }

    private void describe(Scan scan, ObjectNode fields) {
        fields.put("database", scan.table.database()).put("table", scan.table.identifier().table());
        fields.put("version", TABLES.of(scan.described()));
        fields.put("condition", String.join(" AND ", scan.conjuncts.stream().map(Expressions::shown).toList()));
        scan.leaves.clear();
        fields.set("tree", scan.tree(scan.conjunctsOfRows()));
        if (!scan.leaves.isEmpty()) fields.set("expressions", versions(scan.leaves));
        ArrayNode columns = fields.putArray("columns");
        for (Attribute column : scan.columns) columns.add(column.name());
        Map<String, String> nested = scan.hasTypesOfPlan ? NestedColumns.types(scan.columns) : Map.of();
        if (!nested.isEmpty()) nested.forEach(fields.putObject("nested")::put);
        fields.put("indexed_known", Verdicts.areColumnsKnown(scan.table));
        fields.put("native", NarrowedRelations.reads(scan)).put("ordered", scan.order != RowOrder.UNSEEN);
        ArrayNode options = fields.putArray("options");
        for (String option : scan.optionsOfQuery()) options.add(option);
        if (scan.isListedBySpark()) fields.put("listing_summary", listingSummary(scans.indexOf(scan)));
        ArrayNode filters = fields.putArray("runtime_filters");
        for (Scan.RuntimeFilter filter : scan.runtimeFilters) {
            filters.addObject().put("column", filter.column().name()).put("bytes", filter.bytes());
        }
        if (scan.aggregate != null) Aggregates.describe(scan, fields.putObject("aggregate"));
        ChosenStrategy chosen = ChosenStrategy.of(scan);
        if (chosen != null && !chosen.strategy().isEmpty()) fields.put("strategy", chosen.strategy());
        if (!ChosenStrategy.mustPay(scan)) fields.put("must_pay", false);
        if (scan.limit != null) fields.put("limit", scan.limit);
        if (scan.first != null) scan.first.rows().writeTo(fields.putObject("first"));
    }

    /**
     * Describes a scan again, over expressions of indexes. The result is JSON as in {@link #text}, with two more fields. {@code
     * keys} has for each key its name, whether the query can use it, and if this session computes it differently, why. {@code
     * aggregated} has for each aggregated expression its name, and if the session computes it differently, why.
     *
     * @param described JSON with the {@code keys} and the {@code aggregated} expressions, as {@link KeyExpressions#key} takes them,
     *     and the names of {@code columns} that are keys themselves
     */
    public StringBuilder withKeys(int number, String described) throws JsonProcessingException {
        Scan scan = scans.get(number);
        requireInTime();
        ObjectNode fields = JsonNodeFactory.instance.objectNode();
        ArrayNode keys = fields.putArray("keys");
        List<KeyExpressions.Key> resolved = new ArrayList<>();
        JsonNode indexed = JSON.readTree(described);
        for (JsonNode key : indexed.required("keys")) {
            String why = KeyExpressions.difference(session, key);
            try {
                resolved.add(KeyExpressions.key(session, key, scan.all()));
            } catch (KeyExpressions.NotServed e) {
                why = e.getMessage();
            }
            keys.addObject().put("name", key.path("name").asText()).put("why", why);
        }
        ArrayNode aggregated = fields.putArray("aggregated");
        List<AggregatedExpressions.Measured> measured = new ArrayList<>();
        for (JsonNode expression : scan.aggregate == null ? JSON.createArrayNode() : indexed.required("aggregated")) {
            String why = KeyExpressions.difference(session, expression);
            try {
                if (why.isEmpty()) measured.add(AggregatedExpressions.of(session, expression, scan.all()));
            } catch (KeyExpressions.NotServed e) {
                why = e.getMessage();
            }
            aggregated.addObject().put("name", expression.path("name").asText()).put("why", why);
        }
        scan.setMeasured(measured);
        Set<String> columns = new HashSet<>();
        for (JsonNode name : indexed.required("columns")) columns.add(name.asText().toLowerCase(Locale.ROOT));
        scan.setKeys(resolved, columns);
        Set<String> used = scan.keys().stream().map(key -> key.column().name()).collect(Collectors.toSet());
        keys.forEach(key -> ((ObjectNode) key).put("used", used.contains(key.path("name").asText())));
        describe(scan, fields);
        return new StringBuilder(fields.toString());
    }

    /**
     * Returns a version for each expression over one column. Under the same settings, expressions of the same version have the same
     * value for each key: they are equal, including time zones and evaluation modes, which SQL text does not show.
     */
    private static ArrayNode versions(List<Expression> expressions) {
        ArrayNode versions = JsonNodeFactory.instance.arrayNode();
        for (Expression expression : expressions) {
            List<Attribute> columns = Scala.list(expression.references().toSeq());
            versions.add(EXPRESSIONS.of(Expressions.bound(expression, columns)));
        }
        return versions;
    }

    /**
     * Executes the small side of a scan's runtime filter. Returns the filter's condition as JSON, as {@link Scan#tree} writes it;
     * null if the small side has too many rows.
     */
    public String readFirst(int scanNumber, int filterNumber) {
        Scan scan = scans.get(scanNumber);
        requireInTime();
        Scan.RuntimeFilter filter = scan.runtimeFilters.get(filterNumber);
        List<InternalRow> rows = smallSides.computeIfAbsent(filter.small(), small -> Joins.read(session, small));
        if (rows == null) return null;
        scan.readFirst.put(filter.small(), rows);
        return scan.tree(List.of(Joins.condition(filter, rows))).toString();
    }

    private void requireInTime() {
        if (isLate()) throw new CancellationException("planning is late, so its answer is not waited for");
    }

    /** Returns the table of a scan, given by its number. */
    public CatalogTable table(int scan) {
        return scans.get(scan).described();
    }

    /**
     * Returns the bytes, number, fingerprint and {@link Scan#splitBytes} of a scan's files, separated by blanks; null if Spark does
     * not list the files.
     */
    public String listingSummary(int scan) {
        Listing listing = listed(scans.get(scan));
        if (listing == null) return null;
        return listing.bytes() + " " + listing.files.size() + " " + listing.fingerprint() + " " + scans.get(scan).splitBytes();
    }

    /**
     * Lists the files of a scan for Python. An error is kept in this object, to be thrown as Spark raised it: Python would report
     * an error of the metastore as its own.
     */
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

    /** Returns the text of a scan's listing, as a StringBuilder, which Python can fetch in pieces. */
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

    /** Takes the DataFrame by which tasks read a part; Python calls this. {@code frame} has the columns that the scan needs. */
    public void rows(int scan, int part, Dataset<Row> frame) {
        rows.put(List.of(scan, part), frame.queryExecution().optimizedPlan());
    }

    private void apply() {
        List<String> reports = new ArrayList<>();
        for (int number = 0; number < decisions.size(); number++) {
            apply(number, decisions.get(number));
            observe(scans.get(number).observation, decisions.get(number));
            reports.add(decisions.get(number).report());
        }
        Reports.add(reports);
        if (!learns) return;
        for (Decision decision : decisions) scanTimes().decided(decision.isKept() ? decision.id() : "");
    }

    private ScanTimes scanTimes() {
        return Application.of(session.sparkContext()).scanTimes();
    }

    private void apply(int number, Decision decision) {
        Scan scan = scans.get(number);
        switch (decision.kind()) {
            case "leave alone" -> leaveAlone(scan);
            case "empty" -> put(scan, new LocalRelation(scan.relation.output(), Scala.seq(List.of()), false, scala.Option.empty()));
            case "read choices" -> put(scan, NarrowedRelations.narrowed(scan, decision.text("choices"), decision.narrowing()));
            case "read rows" -> {
                LogicalPlan parts = IndexScan.rows(session, scan, decision, part -> rows.get(List.of(number, part)));
                put(scan, IndexScan.of(scan, parts, decision, isOutdated(scan, decision)));
            }
            case "counts" -> {
                LogicalPlan answer = IndexAnswer.of(scan, decision);
                if (scan.existence == null) replace(scan, scan.aggregate, answer);
                else replace(scan, scan.existence.plan(), scan.existence.from(answer));
            }
            default -> throw new IllegalStateException("not a decision: " + decision.kind());
        }
    }

    /**
     * Returns a function that checks whether Spark would now read other files for a scan. If Python has listed the files instead of
     * Spark, Python lists them again. Python also checks the files that its tasks open, which Spark may have listed long ago.
     */
    private BooleanSupplier isOutdated(Scan scan, Decision decision) {
        Listing listing = scan.listing();
        SparkSession sessionOfQuery = session; // a plan must not keep the question
        String id = decision.fields().path("compares_files").asBoolean() ? decision.id() : null;
        return () -> (listing != null && listing.isOutdated()) || (id != null && !Execution.isCurrent(sessionOfQuery, id));
    }

    private static void observe(Observation scan, Decision decision) {
        switch (decision.kind()) {
            case "leave alone" -> scan.leftAlone(decision.reason());
            case "empty" -> scan.emptied();
            case "counts" -> scan.answered(decision.indexes(), decision.bytesSaved());
            default -> scan.narrowed(decision.indexes(), decision.bytesSaved());
        }
    }

    private void put(Scan scan, LogicalPlan narrowed) {
        replace(scan, scan.relation, narrowed);
    }

    /** Replaces a plan that depends on a scan. The small sides of the scan's runtime filters are replaced by their rows. */
    private void replace(Scan scan, LogicalPlan plan, LogicalPlan by) {
        replacements.put(plan, by);
        RowOrder.keep(plan, by);
        scan.readFirst.forEach((small, rows) -> replacements.put(
                small, new LocalRelation(small.output(), Scala.seq(rows), false, scala.Option.empty())));
    }

    /**
     * Returns the plan with its scans replaced. Nodes are compared by identity, because equal scans may be under different
     * filters.
     */
    public LogicalPlan replaced(LogicalPlan plan) {
        if (replacements.isEmpty()) return plan;
        return (LogicalPlan) plan.transformDownWithSubqueries(Scala.replacing(replacements::get));
    }
}
