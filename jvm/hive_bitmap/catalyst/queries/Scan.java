package hive_bitmap.catalyst.queries;

import com.fasterxml.jackson.databind.node.ArrayNode;
import hive_bitmap.catalyst.keys.AggregatedExpressions;
import hive_bitmap.catalyst.keys.ImpliedKeys;
import hive_bitmap.catalyst.keys.KeyExpressions;
import hive_bitmap.catalyst.keys.PossibleKeys;
import hive_bitmap.catalyst.keys.ReplacedKeys;
import hive_bitmap.catalyst.lake.DeltaFiles;
import hive_bitmap.catalyst.lake.IcebergFiles;
import hive_bitmap.catalyst.lake.IcebergTables;
import hive_bitmap.catalyst.observing.Application;
import hive_bitmap.catalyst.observing.Observation;
import hive_bitmap.catalyst.python.PythonRequest;
import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.python.Verdicts;
import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Expressions;
import hive_bitmap.catalyst.spark.FirstRows;
import hive_bitmap.catalyst.spark.Names;
import hive_bitmap.catalyst.spark.RowOrder;
import hive_bitmap.catalyst.spark.Scala;
import hive_bitmap.catalyst.spark.TopGroups;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.execution.datasources.CatalogFileIndex;
import org.apache.spark.sql.execution.datasources.DataSourceUtils;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.internal.SQLConf;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A scan of a table in a query. {@code conjuncts} are the conditions of the filter right above the relation, and conditions that
 * were inferred; {@code columns} are the columns that the query needs. {@code aggregate} is the aggregation over this scan alone,
 * or null.
 */
public final class Scan {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");

    public final LogicalPlan relation;
    public final CatalogTable table;
    public final List<Expression> conjuncts;
    private final List<Expression> conjunctsOfQuery; // without inferred conjuncts
    final List<Attribute> columns;
    public final Aggregate aggregate;
    /** The columns that {@code aggregate} needs, with projections resolved. */
    private final AttributeSet aggregated;
    /** The projections between {@code aggregate} and the scan, from top to bottom. */
    final List<Project> projections;
    /**
     * The expressions that Python may ask Spark to evaluate over keys. The position of an expression in the list is its number in
     * questions.
     */
    final List<Expression> leaves = new ArrayList<>();
    private volatile List<KeyExpressions.Key> keys = List.of();
    private volatile List<KeyExpressions.Key> occurring = List.of(); // keys that occur in the query, or of which it uses functions
    private volatile List<AggregatedExpressions.Measured> measured = List.of();
    private volatile List<KeyExpressions.Key> implying = List.of(); // keys that may replace their columns in tests
    public final List<RuntimeFilter> runtimeFilters = new ArrayList<>();
    /** The executed small sides of runtime filters on this scan, with their rows. */
    final Map<LogicalPlan, List<InternalRow>> readFirst = new IdentityHashMap<>();
    /** The query for any row that {@code aggregate}, a count, replaces; null if the query itself has the aggregation. */
    public Existence existence;
    /** The number of matching rows after which Spark stops reading; null if it reads all. */
    public Integer limit;
    /** The groups of {@code aggregate} that the query needs; null if it needs all. */
    TopGroups top;
    /** The rows that the query needs because it sorts them and takes the first ones; null if it needs all. */
    FirstRows.Of first;
    /** How the query depends on the order of the rows. */
    public RowOrder order = RowOrder.SEEN;
    /** Whether the columns already have the types that Spark will read; false if Spark will still prune fields of structs. */
    boolean hasTypesOfPlan = true;
    Observation observation = Observation.NONE;
    private Listing listing;
    private CatalogTable described;
    private IcebergFiles iceberg;

    /**
     * A possible filter on a scan: rows whose {@code column} is not among the values of {@code key} do not change the result of the
     * query.
     *
     * @param column a column of the scan
     * @param small the small side of a join, a plan that can be executed before the query
     * @param key a column of {@code small}
     * @param bytes the bytes that {@code small} reads
     */
    public record RuntimeFilter(Attribute column, LogicalPlan small, Attribute key, long bytes) {}

    private Scan(
            LogicalPlan relation, List<Expression> conjuncts, AttributeSet required, Aggregate aggregate, AttributeSet aggregated,
            List<Project> projections) {
        this.relation = relation;
        this.aggregated = aggregated;
        this.table = tableOf(relation);
        this.conjuncts = new ArrayList<>(conjuncts);
        this.conjunctsOfQuery = List.copyOf(conjuncts);
        this.aggregate = aggregate;
        this.projections = projections;
        this.columns = new ArrayList<>();
        for (Attribute column : Scala.list(relation.output())) {
            if (required == null || required.contains(column)) columns.add(column);
        }
    }

    private static CatalogTable tableOf(LogicalPlan relation) {
        if (relation instanceof DataSourceV2Relation iceberg) return IcebergTables.described(iceberg);
        return relation instanceof HiveTableRelation hive ? hive.tableMeta() : ((LogicalRelation) relation).catalogTable().get();
    }

    /**
     * Returns the scan of a plan that is a relation, or a filter right above a relation; null for any other plan. {@code required}
     * are the columns that the query needs (null: all).
     */
    public static Scan of(LogicalPlan plan, AttributeSet required) {
        return of(plan, required, null, List.of());
    }

    /**
     * Returns the scan below an aggregation. Null unless there are only projections and one filter in between, the filter right
     * above the relation.
     */
    public static Scan below(Aggregate aggregate) {
        List<Project> projections = new ArrayList<>();
        AttributeSet required = aggregate.references();
        LogicalPlan plan = aggregate.child();
        while (plan instanceof Project project) {
            projections.add(project);
            required = project.references();
            plan = project.child();
        }
        return of(plan, required, aggregate, projections);
    }

    private static Scan of(LogicalPlan plan, AttributeSet required, Aggregate aggregate, List<Project> projections) {
        if (isIndexable(plan)) return new Scan(plan, List.of(), required, aggregate, required, projections);
        if (!(plan instanceof Filter filter) || !isIndexable(filter.child())) return null;
        AttributeSet all = required == null ? null : required.$plus$plus(filter.references());
        return new Scan(filter.child(), Conditions.conjuncts(filter.condition()), all, aggregate, required, projections);
    }

    /**
     * Returns whether a plan is a relation that may be narrowed: a table of files in the session's catalog, or an Iceberg table,
     * that is not narrowed already.
     */
    public static boolean isIndexable(LogicalPlan plan) {
        return plan instanceof HiveTableRelation hive && isOfSessionCatalog(hive.tableMeta())
                || plan instanceof LogicalRelation relation
                && relation.catalogTable().isDefined()
                && isOfSessionCatalog(relation.catalogTable().get())
                && !relation.isStreaming()
                && relation.relation() instanceof HadoopFsRelation files
                && (isListing(files.location()) || DeltaFiles.arePrepared(files))
                || IcebergTables.isTable(plan);
    }

    /** Returns whether a plan {@link #isIndexable}, or will be once it is optimized, like the scan of a Delta table. */
    static boolean mayBeIndexable(LogicalPlan plan) {
        return isIndexable(plan)
                || plan instanceof LogicalRelation relation
                && relation.catalogTable().isDefined()
                && isOfSessionCatalog(relation.catalogTable().get())
                && relation.relation() instanceof HadoopFsRelation files
                && DeltaFiles.willBePrepared(files);
    }

    /**
     * Returns whether Spark lists the files in folders. For the output of a stream it does not: only the files that the stream's
     * log names belong to it.
     */
    private static boolean isListing(FileIndex location) {
        return location instanceof CatalogFileIndex || Listing.isListed(location);
    }

    /**
     * Returns whether a table belongs to the session's catalog, the only one with indexes. Other catalogs may describe their tables
     * in the same way.
     */
    private static boolean isOfSessionCatalog(CatalogTable table) {
        scala.Option<String> catalog = table.identifier().catalog();
        return catalog.isEmpty() || catalog.get().equalsIgnoreCase(Names.SESSION_CATALOG);
    }

    /**
     * Returns whether the query needs a hidden column such as {@code _metadata}, which has the file of a row and its position
     * there.
     */
    public boolean asksForFiles() {
        return columns.stream().anyMatch(column -> column.metadata().contains("__metadata_col"));
    }

    /** Returns whether no index could help, because nothing is tested and nothing is aggregated. */
    public boolean asksNothing() {
        return conjuncts.isEmpty() && aggregate == null && runtimeFilters.isEmpty();
    }

    /** Returns whether an index may help: a condition tests a column that may be indexed, or the scan is aggregated. */
    public boolean mayUseIndexes() {
        Stream<Attribute> tested = conjuncts.stream().flatMap(conjunct -> Scala.list(conjunct.references().toSeq()).stream());
        Stream<Attribute> filtered = runtimeFilters.stream().map(RuntimeFilter::column);
        return aggregate != null || Verdicts.mayIndex(table, Stream.concat(tested, filtered));
    }

    /**
     * Returns the code of the reason for which Python has left a scan like this one alone; null if Python has to be asked. The
     * files are listed only if there is a verdict to check.
     */
    public String verdict() {
        TableIdentifier name = table.identifier();
        String reason = isListedBySpark() ? Verdicts.reason(name, verdictKey(true), this::versionOfFiles) : null;
        return reason != null ? reason : Verdicts.reason(name, verdictKey(false), this::versionOfFiles);
    }

    /**
     * Adds the verdict that the scan is left alone: for the table under any condition if {@code anyCondition}, else under the
     * scan's own condition only. If Spark has not listed all files, only the files of the scan's partitions are known, and the
     * verdict holds under the scan's own condition only.
     *
     * @param version {@link Verdicts#version} when Python was asked
     * @param prices the version of the prices that the decision is based on
     */
    void addVerdict(String reason, boolean anyCondition, long version, long prices) {
        if (!isListedBySpark() && !isListed() && iceberg == null) return;
        boolean any = anyCondition && isListedBySpark();
        Verdicts.add(table.identifier(), verdictKey(any), versionOfFiles(), reason, any, version, prices);
    }

    /**
     * Returns everything but the files that a verdict on this scan depends on, by name or as a hash. If two scans have the same
     * hash, both are left alone, which is never wrong.
     */
    private List<Object> verdictKey(boolean anyCondition) {
        List<Object> key = new ArrayList<>();
        key.add(PythonRequest.settingsVersion());
        key.add(columns.stream().map(Attribute::name).toList());
        key.add(columns.stream().map(Attribute::dataType).toList());
        key.add(aggregate == null ? 0 : aggregate.canonicalized().hashCode());
        key.add(top == null ? "" : top);
        if (anyCondition) return key;
        key.add(conjuncts.stream().map(Expressions::sql).toList().hashCode());
        key.add(limit == null ? -1 : limit);
        key.add(first == null ? "" : first.rows());
        key.add(order);
        for (RuntimeFilter filter : runtimeFilters) {
            key.add(filter.column().name());
            key.add(filter.small().canonicalized().hashCode());
        }
        return key;
    }

    /**
     * Has the application observe this scan, in the thread that plans the query. If keys answer the aggregation, {@code keySets}
     * and {@code expressions} are those of the aggregation; otherwise null and none.
     */
    public void observeFor(Application application, List<List<String>> keySets, String sums, List<Expression> expressions) {
        if (!isOfSessionCatalog(table)) return; // advice names tables without their catalogs
        boolean all = columns.size() == Math.max(all().size(), table.schema().size()); // nested columns may have been pruned
        List<String> read = all ? List.of("*") : columns.stream().map(column -> column.name().toLowerCase(Locale.ROOT)).toList();
        observation = application.observe(table, all().get(0), dataConjuncts(), dataColumns(keySets), sums, possibleKeys(expressions), bytes(), read);
    }

    /** Returns the expressions in the conditions and the aggregation that could be keys. */
    private List<KeyExpressions.Key> possibleKeys(List<Expression> aggregation) {
        List<Expression> used = new ArrayList<>(dataConjuncts());
        used.addAll(aggregation);
        List<String> partitionColumns = Scala.list(table.partitionColumnNames());
        return PossibleKeys.of(used).stream().filter(key -> !partitionColumns.contains(key.tested().name())).toList();
    }

    /** Returns key sets without partition columns, which need no index. */
    private List<List<String>> dataColumns(List<List<String>> keySets) {
        if (keySets == null || Scala.list(table.partitionColumnNames()).isEmpty()) return keySets;
        List<String> partitionColumns = Scala.list(table.partitionColumnNames());
        return keySets.stream().map(keys -> keys.stream().filter(key -> !partitionColumns.contains(key)).toList()).toList();
    }

    /** Restricts the aggregation to the groups that a limit needs, if {@code limited} is about this scan's aggregation. */
    public void takeGroups(TopGroups.Of limited) {
        if (limited != null && limited.aggregate() == aggregate) top = limited.groups();
    }

    /**
     * Restricts the scan to the rows that a sort and a limit need, if {@code needed} is about this scan's relation, and the query
     * does not depend on the order of the scan's rows.
     */
    public void takeFirstRows(FirstRows.Of needed) {
        if (needed.relation() == relation && order == RowOrder.UNSEEN) first = needed;
    }

    /** Leaves the scan alone, for the reason with this code. */
    public void leaveAlone(String reason) {
        observation.leftAlone(reason);
    }

    /** Returns the conjuncts that do not test partition columns. */
    private List<Expression> dataConjuncts() {
        Set<String> partitionColumns = Set.copyOf(Scala.list(table.partitionColumnNames()));
        return conjuncts.stream().filter(conjunct -> Scala.list(conjunct.references().toSeq()).stream()
                .noneMatch(column -> partitionColumns.contains(column.name()))).toList();
    }

    /** Returns the bytes of the files that Spark would read; -1 if they are unknown without a listing. */
    long bytes() {
        if (isListedBySpark()) return files().location().sizeInBytes();
        scala.math.BigInt size = relation.stats().sizeInBytes();
        return size.isValidLong() && size.toLong() < SQLConf.get().defaultSizeInBytes() ? size.toLong() : -1;
    }

    /** Returns all columns of the relation. */
    List<Attribute> all() {
        return new ArrayList<>(Scala.list(relation.output()));
    }

    /**
     * Sets the keys of indexes that are expressions. {@link #keys} are those of them that occur in the query, of which it
     * uses functions, or that tests of columns or runtime filters imply.
     *
     * @param indexed the names of columns with an index of their own, in lower case; their tests imply nothing
     */
    void setKeys(List<KeyExpressions.Key> known, Set<String> indexed) {
        List<Expression> expressions = new ArrayList<>(conjuncts);
        for (Project projection : projections) expressions.addAll(Scala.list(projection.expressions()));
        if (aggregate != null) expressions.addAll(Scala.list(aggregate.expressions()));
        implying = known.stream().filter(key -> key.hasOneColumn() && !indexed.contains(key.tested().name().toLowerCase(Locale.ROOT))).toList();
        occurring = ReplacedKeys.needed(expressions, known, implying);
        Set<KeyExpressions.Key> used = new LinkedHashSet<>(occurring);
        used.addAll(overKeys(conjunctsOfRows()).keys);
        implying.stream().filter(key -> runtimeFilters.stream().anyMatch(filter -> filter.column().exprId().equals(key.tested().exprId())))
                .forEach(used::add);
        keys = List.copyOf(used);
    }

    /** Returns the keys of indexes, as expressions, that occur in the query or are implied by it. */
    List<KeyExpressions.Key> keys() {
        return keys;
    }

    /** Sets the aggregated expressions of indexes that the query may use. */
    void setMeasured(List<AggregatedExpressions.Measured> known) {
        measured = List.copyOf(known);
    }

    /** Returns the aggregated expressions of indexes that the query may use. */
    List<AggregatedExpressions.Measured> measured() {
        return measured;
    }

    /** Returns all columns of the relation, and the columns that stand for aggregated expressions. */
    List<Attribute> allWithMeasured() {
        List<Attribute> columns = all();
        measured.forEach(expression -> columns.add(expression.column()));
        return columns;
    }

    /** Returns all columns of the relation, and the columns that stand for keys. */
    List<Attribute> allWithKeys() {
        List<Attribute> columns = all();
        keys.forEach(key -> columns.add(key.column()));
        return columns;
    }

    /** Returns conjuncts rewritten over the columns of {@link #allWithKeys}. */
    ImpliedKeys overKeys(List<Expression> conjuncts) {
        List<Expression> replaced = conjuncts.stream().map(conjunct -> ReplacedKeys.inConjunct(conjunct, occurring)).toList();
        return ImpliedKeys.of(replaced, implying, occurring);
    }

    /** Returns a condition on rows as JSON for Python, over the columns of {@link #allWithKeys}. */
    ArrayNode tree(List<Expression> conjuncts) {
        ImpliedKeys condition = overKeys(conjuncts);
        return new Conditions(allWithKeys(), leaves, condition.implied).tree(condition.conjuncts);
    }

    /** Returns the relation's files; null for a table that Spark reads by Hive's SerDe. */
    HadoopFsRelation files() {
        return relation instanceof LogicalRelation files ? (HadoopFsRelation) files.relation() : null;
    }

    /** Returns the names of the query's options for the reader, beyond those of the table. */
    List<String> optionsOfQuery() {
        if (relation instanceof DataSourceV2Relation iceberg) return new ArrayList<>(iceberg.options().keySet());
        List<String> names = new ArrayList<>();
        if (files() == null) return names;
        Map<String, String> ofTable = new HashMap<>();
        Scala.javaMap(table.properties()).forEach((name, value) -> ofTable.put(name.toLowerCase(Locale.ROOT), value));
        Scala.javaMap(table.storage().properties()).forEach((name, value) -> ofTable.put(name.toLowerCase(Locale.ROOT), value));
        Scala.javaMap(files().options()).forEach((name, value) -> {
            if (!value.equals(ofTable.get(name.toLowerCase(Locale.ROOT)))) names.add(name);
        });
        return names;
    }

    /** Returns the files that Spark would read for this scan; null if Spark does not list the files. They are listed only once. */
    Listing listing() {
        if (listing == null && iceberg != null) listing = iceberg.listing(needsPartitions());
        if (listing == null && files() != null) {
            listing = isOfDelta()
                    ? DeltaFiles.listing(files().location(), needsPartitions()) : Listing.of(files(), partitionFilters(), isPrunedBySpark());
        }
        return listing;
    }

    /**
     * Returns the deleted rows of some files of a Delta or Iceberg table, as JSON for Python. {@code numbers} are the files'
     * numbers in the {@link #listing}.
     */
    StringBuilder deleted(List<Integer> numbers) {
        return iceberg != null ? iceberg.deleted(numbers) : DeltaFiles.deleted(files().location(), numbers);
    }

    /**
     * Returns a version of the files that Spark would read; null if Spark does not list the files. If two scans have the same
     * conditions, but different files, their versions differ.
     */
    String versionOfFiles() {
        if (iceberg != null) return iceberg.version();
        return listing() == null ? null : listing().fingerprint();
    }

    /** Returns whether the table is a Delta table with prepared files. */
    boolean isOfDelta() {
        return files() != null && DeltaFiles.isPrepared(files().location());
    }

    /** Returns the description of the table for Python, with the facts of the table's log if there is one. */
    CatalogTable described() {
        if (described == null && iceberg != null) described = iceberg.described(table);
        if (described == null) described = isOfDelta() ? DeltaFiles.described(table, files().location()) : table;
        return described;
    }

    /** Returns the files that Iceberg plans for the scan; null for other tables, and before {@link #isOfUnknownLake} is called. */
    IcebergFiles iceberg() {
        return iceberg;
    }

    /**
     * Reads the facts of the log of a Delta or Iceberg table. Returns whether its version is unsupported; the scan is then reported
     * as left alone.
     */
    public boolean isOfUnknownLake() {
        try {
            if (isOfDelta()) return listing() == null || described() == null;
            if (!(relation instanceof DataSourceV2Relation table)) return false;
            iceberg = new IcebergFiles(table, conjuncts.stream().map(this::named).toList());
            return described() == null;
        } catch (RuntimeException | LinkageError e) {
            LOG.info("a table with a log is left to Spark: {}", e.toString());
            String format = relation instanceof DataSourceV2Relation table ? "Iceberg " + IcebergTables.version(table) : "this Delta";
            String why = format + " differs from the supported versions: " + e.getMessage();
            Reports.add(List.of(Reports.leftAlone(table.identifier().unquotedString(), "unsupported", why)));
            return true;
        }
    }

    /** Returns whether Spark has already listed all files of the table, so that {@link #listing} costs nothing. */
    boolean isListedBySpark() {
        return files() != null && (Listing.isListed(files().location()) || isOfDelta());
    }

    /** Returns whether {@link #listing} has listed partitions that Spark had not listed. */
    boolean isListed() {
        return listing != null && files() != null && listing.index != files().location();
    }

    /** Returns the conjuncts that test only partition columns. */
    List<Expression> partitionFilters() {
        List<Expression> filters = new ArrayList<>();
        for (Expression conjunct : conjuncts) {
            if (Conditions.isOver(conjunct, partitionColumns())) filters.add(named(conjunct));
        }
        return filters;
    }

    /**
     * Returns whether the query's conditions restrict the partitions, so that Spark also lists the files when it plans the query.
     */
    private boolean isPrunedBySpark() {
        return !partitionFiltersOfSpark().isEmpty();
    }

    private List<Expression> partitionFiltersOfSpark() {
        List<Expression> tested = new ArrayList<>();
        for (Expression conjunct : conjunctsOfQuery) {
            if (Conditions.isOver(conjunct, all())) tested.add(named(conjunct));
        }
        return Scala.list(DataSourceUtils.getPartitionFiltersAndDataFilters(files().partitionSchema(), Scala.seq(tested))._1());
    }

    /**
     * Returns the size of the largest splits of Spark's own scan, which determines the order of the rows. Returns 0 if the order
     * depends on something else, if Spark reads other partitions than those listed here, or if the query depends on the partitions
     * of the scan, which only Spark's reader has.
     */
    long splitBytes() {
        if (order == RowOrder.PARTITIONS || listing() == null || files() == null || isOfDelta()) return 0;
        if (files().bucketSpec().isDefined() && SQLConf.get().bucketingEnabled()) return 0;
        if (!canonical(partitionFiltersOfSpark()).equals(canonical(partitionFilters()))) return 0;
        return listing.splitBytes(files().sparkSession().sparkContext());
    }

    private static Set<Expression> canonical(List<Expression> conditions) {
        return conditions.stream().map(condition -> (Expression) condition.canonicalized()).collect(Collectors.toSet());
    }

    /**
     * Returns whether the files must be listed by partition: partition columns occur in the aggregation, or under an aggregation in
     * a condition on rows.
     */
    private boolean needsPartitions() {
        if (aggregate == null) return false;
        Set<String> names = iceberg != null
                ? Set.copyOf(iceberg.identityColumns()) : partitionColumns().stream().map(Attribute::name).collect(Collectors.toSet());
        Stream<Attribute> tested = conjunctsOfRows().stream().flatMap(conjunct -> Scala.list(named(conjunct).references().toSeq()).stream());
        return Stream.concat(all().stream().filter(aggregated::contains), tested).anyMatch(column -> names.contains(column.name()));
    }

    /** Returns the conjuncts that may be false for rows of the listed files. Delta has applied the other ones to the files. */
    List<Expression> conjunctsOfRows() {
        if (!isOfDelta()) return conjuncts;
        return conjuncts.stream().filter(conjunct -> !(Conditions.isOver(conjunct, partitionColumns())
                && DeltaFiles.arePreparedBy(files().location(), conjunct))).toList();
    }

    /** Returns a condition with the table's column names, which a query may write in another case. */
    private Expression named(Expression condition) {
        return (Expression) condition.transform(Scala.replacing(node -> {
            if (!(node instanceof Attribute used)) return null;
            for (Attribute column : all()) {
                if (column.exprId().equals(used.exprId())) return column;
            }
            return null;
        }));
    }

    /** Returns the attributes of this relation that are partition columns. */
    List<Attribute> partitionColumns() {
        List<Attribute> columns = new ArrayList<>();
        for (String name : files().partitionSchema().fieldNames()) {
            for (Attribute column : Scala.list(relation.output())) {
                if (column.name().equals(name)) columns.add(column);
            }
        }
        return columns;
    }
}
