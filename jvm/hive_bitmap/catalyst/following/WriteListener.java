package hive_bitmap.catalyst.following;

import hive_bitmap.catalyst.spark.Names;
import hive_bitmap.catalyst.spark.Scala;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.UnionExec;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;
import org.apache.spark.sql.util.ExecutionListenerManager;
import org.apache.spark.sql.util.QueryExecutionListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.Tuple2;

/** Listens to the successful commands of a session, and passes those that change a table's files to {@link Writes}. */
public final class WriteListener implements QueryExecutionListener {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");

    /**
     * Commands by their class names, with the names of their fields: the field with the table, and after it the field with the
     * partitions, if there is one.
     */
    private static final Map<String, List<String>> COMMANDS = Map.ofEntries(
            Map.entry("LoadDataCommand", List.of("table", "partition")),
            Map.entry("AlterTableAddPartitionCommand", List.of("tableName", "partitionSpecsAndLocs")),
            Map.entry("AlterTableDropPartitionCommand", List.of("tableName", "specs")),
            Map.entry("AlterTableRenamePartitionCommand", List.of("tableName")),
            Map.entry("AlterTableSetLocationCommand", List.of("tableName", "partitionSpec")),
            Map.entry("TruncateTableCommand", List.of("tableName", "partitionSpec")),
            Map.entry("RepairTableCommand", List.of("tableName")),
            Map.entry("CreateDataSourceTableAsSelectCommand", List.of("table")),
            Map.entry("CreateHiveTableAsSelectCommand", List.of("tableDesc")),
            Map.entry("SaveAsV1TableCommand", List.of("tableDesc")));

    private WriteListener() {}

    /** Registers a listener with a session unless it has one. (A clone of a session has the listeners of the session.) */
    static void register(SparkSession session) {
        ExecutionListenerManager manager = ((org.apache.spark.sql.classic.SparkSession) session).sessionState().listenerManager();
        synchronized (WriteListener.class) {
            for (QueryExecutionListener listener : manager.listListeners()) {
                if (listener instanceof WriteListener) return;
            }
            manager.register(new WriteListener());
        }
    }

    @Override
    public void onSuccess(String function, QueryExecution execution, long nanoseconds) {
        follow(execution);
    }

    /** Reports all commands of a union if one failed, because those before it have written. */
    @Override
    public void onFailure(String function, QueryExecution execution, Exception error) {
        if (execution.logical() instanceof Union) follow(execution);
    }

    private static void follow(QueryExecution execution) {
        try {
            List<LogicalPlan> commands = commands(execution.analyzed());
            List<SparkPlan> planned = planned(execution.sparkPlan());
            for (int at = 0; at < Math.min(commands.size(), planned.size()); at++) {
                if (Followed.is(planned.get(at))) follow(execution.sparkSession(), commands.get(at));
            }
        } catch (Exception | LinkageError e) { // Spark's own checked errors are not declared
            LOG.debug("a command is not followed", e);
        }
    }

    private static void follow(org.apache.spark.sql.classic.SparkSession session, LogicalPlan command) {
        Write write = write(session, command);
        if (write != null) Writes.committed(session, write);
    }

    /** Returns the commands of an execution. An INSERT into several tables is a union of commands. */
    private static List<LogicalPlan> commands(LogicalPlan plan) {
        return plan instanceof Union union ? Scala.list(union.children()) : List.of(plan);
    }

    /** Returns the physical plans of the {@link #commands}, in the same order. */
    private static List<SparkPlan> planned(SparkPlan plan) {
        return plan instanceof UnionExec union ? Scala.list(union.children()) : List.of(plan);
    }

    /** Returns the write of a command; null if it has written nothing, or reports its write itself. */
    private static Write write(org.apache.spark.sql.classic.SparkSession session, LogicalPlan command) {
        if (command instanceof InsertIntoHadoopFsRelationCommand insert) {
            return FollowedInsert.isDynamic(insert) ? null : FollowedInsert.write(insert);
        }
        if (HiveInserts.is(command)) return HiveInserts.isDynamic(command) ? null : HiveInserts.write(command);
        TableIdentifier ofLog = LogWrites.table(command);
        if (ofLog != null) return Write.toTable(isOfAnother(ofLog) ? ofLog : session.sessionState().catalog().qualifyIdentifier(ofLog));
        List<String> fields = COMMANDS.get(command.getClass().getSimpleName());
        if (fields == null) return null;
        Object value = field(command, fields.get(0));
        TableIdentifier table = value instanceof CatalogTable described ? described.identifier() : (TableIdentifier) value;
        TableIdentifier qualified = session.sessionState().catalog().qualifyIdentifier(table);
        List<Map<String, String>> partitions =
                fields.size() > 1 ? partitions(field(command, fields.get(1))) : List.of();
        return Write.bySpecs(qualified, partitions);
    }

    /** Returns whether a table is in a catalog other than the session's own. */
    private static boolean isOfAnother(TableIdentifier table) {
        return table.catalog().isDefined() && !table.catalog().get().equals(Names.SESSION_CATALOG);
    }

    private static Object field(LogicalPlan command, String name) {
        for (int position = 0; position < command.productArity(); position++) {
            if (command.productElementName(position).equals(name)) return command.productElement(position);
        }
        throw new IllegalStateException(command.getClass().getName() + " has no field " + name);
    }

    /** Returns the partition specs in a field: an option of a spec, or a sequence of specs, each perhaps with a location. */
    @SuppressWarnings("unchecked")
    private static List<Map<String, String>> partitions(Object field) {
        List<Map<String, String>> specs = new ArrayList<>();
        if (field instanceof Option<?> option && option.isDefined()) {
            specs.add(Scala.javaMap((scala.collection.Map<String, String>) option.get()));
        } else if (field instanceof scala.collection.Seq<?> items) {
            for (Object item : Scala.list(items)) {
                Object spec = item instanceof Tuple2<?, ?> located ? located._1() : item;
                specs.add(Scala.javaMap((scala.collection.Map<String, String>) spec));
            }
        }
        return specs;
    }
}
