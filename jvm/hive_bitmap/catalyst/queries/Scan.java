package hive_bitmap.catalyst.queries;

import hive_bitmap.catalyst.lake.DeltaFiles;
import hive_bitmap.catalyst.lake.IcebergFiles;
import hive_bitmap.catalyst.lake.IcebergTables;
import hive_bitmap.catalyst.observing.Application;
import hive_bitmap.catalyst.observing.Observation;
import hive_bitmap.catalyst.python.IndexedColumns;
import hive_bitmap.catalyst.python.Reports;
import hive_bitmap.catalyst.reading.Listing;
import hive_bitmap.catalyst.spark.Conditions;
import hive_bitmap.catalyst.spark.Names;
import hive_bitmap.catalyst.spark.RowOrder;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.InternalRow;
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
 * A table that a query reads: the relation, the conjuncts of the filter right above it and conjuncts that were inferred, and
 * the columns that the query needs. {@code aggregate} is the aggregation over this scan alone, or null.
 */
public final class Scan {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");

    public final LogicalPlan relation;
    public final CatalogTable table;
    public final List<Expression> conjuncts;
    private final List<Expression> conjunctsOfQuery;
    final List<Attribute> columns;
    public final Aggregate aggregate;
    /** The columns that {@code aggregate} takes, through the projections. */
    private final AttributeSet aggregated;
    /** The projections between {@code aggregate} and this scan, from top to bottom. */
    final List<Project> projections;
    /** The expressions that Python asks Spark to evaluate over keys, by their numbers. */
    final List<Expression> leaves = new ArrayList<>();
    public final List<RuntimeFilter> runtimeFilters = new ArrayList<>();
    /** The small sides that were executed for runtime filters on this scan, and their rows. */
    final Map<LogicalPlan, List<InternalRow>> readFirst = new IdentityHashMap<>();
    /** The query for any row that {@code aggregate}, a count, stands for; null if the query has the aggregation itself. */
    public Existence existence;
    /** After how many rows of the scan that satisfy the filter Spark stops reading; null if it reads all. */
    public Integer limit;
    /** What the query sees of the order of the rows. */
    public RowOrder order = RowOrder.SEEN;
    Observation observation = Observation.NONE;
    private Listing listing;
    private CatalogTable described;
    private IcebergFiles iceberg;

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

    /** Returns the scan of a relation, or of a filter right above one, of which a query needs some columns (null: all). */
    public static Scan of(LogicalPlan plan, AttributeSet required) {
        return of(plan, required, null, List.of());
    }

    /**
     * Returns the scan below an aggregation if there is nothing in between but projections and a filter right above the
     * relation; null otherwise.
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

    /** Whether a plan is a table of the session's catalog that consists of files, or one of Iceberg, and is not narrowed yet. */
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

    /** Whether a plan that is not optimized yet {@link #isIndexable}, or is a Delta table that will be. */
    static boolean mayBeIndexable(LogicalPlan plan) {
        return isIndexable(plan)
                || plan instanceof LogicalRelation relation
                && relation.catalogTable().isDefined()
                && isOfSessionCatalog(relation.catalogTable().get())
                && relation.relation() instanceof HadoopFsRelation files
                && DeltaFiles.willBePrepared(files);
    }

    /** Whether the files are those that a listing shows. A stream's output is what its log names, whatever lies beside. */
    private static boolean isListing(FileIndex location) {
        return location instanceof CatalogFileIndex || Listing.isListed(location);
    }

    /** Whether a table is of the catalog whose tables are indexed; other ones, too, may describe theirs as Spark's do. */
    private static boolean isOfSessionCatalog(CatalogTable table) {
        scala.Option<String> catalog = table.identifier().catalog();
        return catalog.isEmpty() || catalog.get().equalsIgnoreCase(Names.SESSION_CATALOG);
    }

    /** Whether the query needs a hidden column such as {@code _metadata}, which has the file of a row and its place in it. */
    public boolean asksForFiles() {
        return columns.stream().anyMatch(column -> column.metadata().contains("__metadata_col"));
    }

    /** Whether no index can help, whichever there are: nothing is tested and nothing aggregated. */
    public boolean asksNothing() {
        return conjuncts.isEmpty() && aggregate == null && runtimeFilters.isEmpty();
    }

    /** Whether an index may help: a condition tests a column that may be indexed, or the scan is aggregated. */
    public boolean mayUseIndexes() {
        Stream<Attribute> tested = conjuncts.stream().flatMap(one -> Scala.list(one.references().toSeq()).stream());
        Stream<Attribute> filtered = runtimeFilters.stream().map(RuntimeFilter::column);
        return aggregate != null || IndexedColumns.mayInclude(table, Stream.concat(tested, filtered));
    }

    /** Has the application observe this scan, which the query that this thread plans has. */
    public void observeFor(Application application, List<List<String>> keySets) {
        if (!isOfSessionCatalog(table)) return; // advice is by the names of databases and tables alone
        boolean all = columns.size() == all().size();
        List<String> read = all ? List.of("*") : columns.stream().map(column -> column.name().toLowerCase(Locale.ROOT)).toList();
        observation = application.observe(table, all().get(0), dataConjuncts(), dataColumns(keySets), bytes(), read);
    }

    /** Returns the same sets without partition columns, which need no index. */
    private List<List<String>> dataColumns(List<List<String>> keySets) {
        if (keySets == null || Scala.list(table.partitionColumnNames()).isEmpty()) return keySets;
        List<String> partitionColumns = Scala.list(table.partitionColumnNames());
        return keySets.stream().map(keys -> keys.stream().filter(key -> !partitionColumns.contains(key)).toList()).toList();
    }

    /** Leaves the scan alone, for the reason with this code. */
    public void leaveAlone(String reason) {
        observation.leftAlone(reason);
    }

    private List<Expression> dataConjuncts() {
        Set<String> partitionColumns = Set.copyOf(Scala.list(table.partitionColumnNames()));
        return conjuncts.stream().filter(one -> Scala.list(one.references().toSeq()).stream()
                .noneMatch(column -> partitionColumns.contains(column.name()))).toList();
    }

    /** Returns the bytes of the files that Spark would read, as far as it knows them without a listing; -1 if it does not. */
    long bytes() {
        if (isListedBySpark()) return files().location().sizeInBytes();
        scala.math.BigInt known = relation.stats().sizeInBytes();
        return known.isValidLong() && known.toLong() < SQLConf.get().defaultSizeInBytes() ? known.toLong() : -1;
    }

    /** Returns all columns of the relation. */
    List<Attribute> all() {
        return new ArrayList<>(Scala.list(relation.output()));
    }

    /** Returns the relation's files; null for a table that Spark reads by Hive's SerDe. */
    HadoopFsRelation files() {
        return relation instanceof LogicalRelation files ? (HadoopFsRelation) files.relation() : null;
    }

    /** Returns the names of the options that the query gives to the reader, past those of the table. */
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

    /** Returns the files that Spark would read for this scan, listed once; null if Spark does not tell them. */
    Listing listing() {
        if (listing == null && iceberg != null) listing = iceberg.listing(needsPartitions());
        if (listing == null && files() != null) {
            listing = isOfDelta()
                    ? DeltaFiles.listing(files().location(), needsPartitions()) : Listing.of(files(), partitionFilters(), isPrunedBySpark());
        }
        return listing;
    }

    /** Returns which rows are deleted of the files of these numbers of a {@link #listing} of a log, as JSON for Python. */
    StringBuilder deleted(List<Integer> numbers) {
        return iceberg != null ? iceberg.deleted(numbers) : DeltaFiles.deleted(files().location(), numbers);
    }

    /** Returns what tells whether Spark would read other files under the same conditions; null if it does not tell them. */
    String versionOfFiles() {
        if (iceberg != null) return iceberg.version();
        return listing() == null ? null : listing().fingerprint();
    }

    /** Whether the files are those that Delta has prepared for the query. */
    boolean isOfDelta() {
        return files() != null && DeltaFiles.isPrepared(files().location());
    }

    /** Returns the table as Python is told of it: with what its log says of it, if it has one. */
    CatalogTable described() {
        if (described == null && iceberg != null) described = iceberg.described(table);
        if (described == null) described = isOfDelta() ? DeltaFiles.described(table, files().location()) : table;
        return described;
    }

    /** Returns the files that Iceberg plans for the scan; null for any other table, or before {@link #isOfUnknownLake}. */
    IcebergFiles iceberg() {
        return iceberg;
    }

    /** Whether the table is one of Delta or Iceberg, in a version that is not as it is known. If not, its facts are known then. */
    public boolean isOfUnknownLake() {
        try {
            if (isOfDelta()) return listing() == null || described() == null;
            if (!(relation instanceof DataSourceV2Relation table)) return false;
            iceberg = new IcebergFiles(table, conjuncts.stream().map(this::named).toList());
            return described() == null;
        } catch (RuntimeException | LinkageError e) {
            LOG.info("a table with a log is left to Spark: {}", e.toString());
            String of = relation instanceof DataSourceV2Relation table ? "Iceberg " + IcebergTables.version(table) : "this Delta";
            String why = of + " is not as it is known: " + e.getMessage();
            Reports.add(List.of(Reports.leftAlone(table.identifier().unquotedString(), "unsupported", why)));
            return true;
        }
    }

    /** Whether Spark has listed the files already, so that {@link #listing} costs nothing. */
    boolean isListedBySpark() {
        return files() != null && (Listing.isListed(files().location()) || isOfDelta());
    }

    /** Whether {@link #listing} has listed partitions that Spark had not listed before. */
    boolean isListed() {
        return listing != null && files() != null && listing.index != files().location();
    }

    /** Returns the conjuncts that test only partition columns. */
    List<Expression> partitionFilters() {
        List<Expression> found = new ArrayList<>();
        for (Expression one : conjuncts) {
            if (Conditions.isOver(one, partitionColumns())) found.add(named(one));
        }
        return found;
    }

    /** Whether Spark, too, lists the files when it plans the query, as conditions of the query restrict the partitions. */
    private boolean isPrunedBySpark() {
        return !partitionFiltersOfSpark().isEmpty();
    }

    private List<Expression> partitionFiltersOfSpark() {
        List<Expression> tested = new ArrayList<>();
        for (Expression one : conjunctsOfQuery) {
            if (Conditions.isOver(one, all())) tested.add(named(one));
        }
        return Scala.list(DataSourceUtils.getPartitionFiltersAndDataFilters(files().partitionSchema(), Scala.seq(tested))._1());
    }

    /**
     * Returns the size of the largest splits of Spark's own scan, by which it orders its rows; 0 if it orders them otherwise, or reads
     * files of other partitions than those of the listing, or if its partitions are seen, too: only Spark's reader has these.
     */
    long splitBytes() {
        if (order == RowOrder.PARTITIONS || listing() == null || files() == null || isOfDelta()) return 0;
        if (files().bucketSpec().isDefined() && SQLConf.get().bucketingEnabled()) return 0;
        if (!canonical(partitionFiltersOfSpark()).equals(canonical(partitionFilters()))) return 0;
        return listing.splitBytes(files().sparkSession().sparkContext());
    }

    private static Set<Expression> canonical(List<Expression> conditions) {
        return conditions.stream().map(one -> (Expression) one.canonicalized()).collect(Collectors.toSet());
    }

    /** Whether an aggregation takes values of partition columns, or conditions test them that are not only over them. */
    private boolean needsPartitions() {
        if (aggregate == null) return false;
        Set<String> names = iceberg != null
                ? Set.copyOf(iceberg.identityColumns()) : partitionColumns().stream().map(Attribute::name).collect(Collectors.toSet());
        Stream<Attribute> tested = conjunctsOfRows().stream().flatMap(one -> Scala.list(named(one).references().toSeq()).stream());
        return Stream.concat(all().stream().filter(aggregated::contains), tested).anyMatch(column -> names.contains(column.name()));
    }

    /** Returns the conjuncts but for those that all rows of the listed files satisfy, since Delta has listed them by these. */
    List<Expression> conjunctsOfRows() {
        if (!isOfDelta()) return conjuncts;
        return conjuncts.stream().filter(one -> !(Conditions.isOver(one, partitionColumns())
                && DeltaFiles.arePreparedBy(files().location(), one))).toList();
    }

    /** Returns a condition with the column names of the table, which a query may write in another case. */
    private Expression named(Expression condition) {
        return (Expression) condition.transform(Scala.replacing(one -> {
            if (!(one instanceof Attribute used)) return null;
            for (Attribute column : all()) {
                if (column.exprId().equals(used.exprId())) return column;
            }
            return null;
        }));
    }

    /** Returns the attributes of this relation that are partition columns. */
    List<Attribute> partitionColumns() {
        List<Attribute> found = new ArrayList<>();
        for (String name : files().partitionSchema().fieldNames()) {
            for (Attribute column : Scala.list(relation.output())) {
                if (column.name().equals(name)) found.add(column);
            }
        }
        return found;
    }
}
