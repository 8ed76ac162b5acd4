package hive_bitmap.catalyst.lake;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import hive_bitmap.catalyst.reading.FileRelations;
import hive_bitmap.catalyst.spark.Names;
import hive_bitmap.catalyst.spark.Scala;
import java.lang.reflect.InvocationTargetException;
import java.net.URI;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.ExternalCatalog;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;

/**
 * Tables of Iceberg in plans: which relations are such a table, and what it is as a description of a table, which Spark has not of
 * them. A branch, a tag or a version of a table is that table; its metadata tables, and tables whose names other catalogs could take
 * for another's, are none.
 */
public final class IcebergTables {
    private static final String TABLE = "org.apache.iceberg.spark.source.SparkTable";
    private static final String OF_ROWS = "org.apache.iceberg.BaseTable"; // and of no metadata
    private static final String SCHEMAS = "org.apache.iceberg.SchemaParser";
    private static final String SPECS = "org.apache.iceberg.PartitionSpecParser";
    private static final String PROVIDER = "iceberg";
    private static final String MAIN = "main"; // the branch that is the table
    private static final String OWNER = "owner"; // the property of a table, and the field of its description
    /** What follows the name of a table to choose a version of it, as Iceberg's catalogs take it. */
    private static final Pattern VERSION = Pattern.compile("(branch|tag)_.*|(snapshot_id|at_timestamp)_\\d+");
    /** Names that mean the same in a catalog that knows upper case and in one that does not. */
    private static final Pattern NAME = Pattern.compile("[a-z0-9_]+");
    private static final int REQUIRED = 4; // the parameters of CatalogTable without a default

    private IcebergTables() {}

    /** Whether a plan is an Iceberg table, or a version of one, whose rows are read by its name. */
    public static boolean isTable(LogicalPlan plan) {
        if (!(plan instanceof DataSourceV2Relation relation) || !relation.table().getClass().getName().equals(TABLE)) return false;
        try {
            Object table = Reflected.get(relation.table(), "table");
            TableIdentifier name = name(relation);
            if (name == null || !table.getClass().getName().equals(OF_ROWS)) return false;
            String full = name.catalog().get() + "." + name.database().get() + "." + name.table();
            return full.equals(Reflected.<String>get(table, "name").toLowerCase(Locale.ROOT))
                    || full.equals(Reflected.<String>get(table, "name"));
        } catch (RuntimeException | LinkageError e) {
            return false;
        }
    }

    /** Returns the name of the table with catalog and database; null if it is not one that indexes have. */
    private static TableIdentifier name(DataSourceV2Relation relation) {
        if (relation.catalog().isEmpty() || relation.identifier().isEmpty()) return null;
        String[] namespace = relation.identifier().get().namespace();
        String table = relation.identifier().get().name();
        if (namespace.length == 2 && VERSION.matcher(table).matches()) {
            table = namespace[1];
        } else if (namespace.length != 1) {
            return null;
        }
        String catalog = relation.catalog().get().name();
        boolean own = catalog.equalsIgnoreCase(Names.SESSION_CATALOG);
        String database = own ? namespace[0].toLowerCase(Locale.ROOT) : namespace[0];
        String name = own ? table.toLowerCase(Locale.ROOT) : table;
        if (!NAME.matcher(database).matches() || !NAME.matcher(name).matches()) return null;
        return new TableIdentifier(name, Option.apply(database), Option.apply(own ? Names.SESSION_CATALOG : catalog));
    }

    /** Returns the description of a table, without the facts of its log. */
    public static CatalogTable described(DataSourceV2Relation relation) {
        Object table = Reflected.get(relation.table(), "table");
        Map<String, String> properties = relation.table().properties();
        URI location = path(Reflected.get(table, "location")).toUri();
        CatalogStorageFormat storage = FileRelations.copied(CatalogStorageFormat.empty(), "locationUri", Option.apply(location));
        CatalogTable plain = made(name(relation), storage, relation);
        CatalogTable owned = FileRelations.copied(plain, "owner", properties.getOrDefault(OWNER, ""));
        return FileRelations.copied(owned, "provider", Option.apply(PROVIDER));
    }

    private static CatalogTable made(TableIdentifier name, CatalogStorageFormat storage, DataSourceV2Relation relation) {
        List<Object> arguments = new ArrayList<>(List.of(name, CatalogTableType.EXTERNAL(), storage, relation.table().schema()));
        try { // by reflection, since each version of Spark has added parameters to the constructor
            int all = CatalogTable.class.getConstructors()[0].getParameterCount();
            for (int at = REQUIRED + 1; at <= all; at++) {
                arguments.add(CatalogTable.class.getMethod("$lessinit$greater$default$" + at).invoke(null));
            }
            CatalogTable made = (CatalogTable) CatalogTable.class.getConstructors()[0].newInstance(arguments.toArray());
            return FileRelations.copied(made, "createTime", 0L);
        } catch (InvocationTargetException e) {
            throw new IllegalStateException("a table cannot be described in this version of Spark", e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("a table cannot be described in this version of Spark", e);
        }
    }

    /**
     * Returns the same with its owner, if only the metastore knows that, and with the facts that the table has of the columns with this
     * schema of Iceberg's.
     */
    static CatalogTable withFacts(CatalogTable described, DataSourceV2Relation relation, Object schema) {
        Map<String, String> properties = new HashMap<>(Scala.javaMap(described.properties()));
        properties.put(LakeFacts.PROPERTY, facts(relation, schema));
        CatalogTable owned = described.owner().isEmpty() ? FileRelations.copied(described, OWNER, owner(described.identifier())) : described;
        return FileRelations.copied(owned, "properties", Scala.map(properties));
    }

    private static String owner(TableIdentifier table) {
        if (!table.catalog().get().equals(Names.SESSION_CATALOG)) return "";
        ExternalCatalog metastore = ((org.apache.spark.sql.classic.SparkSession) SparkSession.active()).sharedState().externalCatalog();
        String database = table.database().get();
        return metastore.tableExists(database, table.table()) ? metastore.getTable(database, table.table()).owner() : "";
    }

    private static String facts(DataSourceV2Relation relation, Object schema) {
        Object table = Reflected.get(relation.table(), "table");
        ObjectNode facts = JsonNodeFactory.instance.objectNode();
        Class<?> ofSchema = Reflected.type("org.apache.iceberg.Schema", table);
        facts.put("schema", Reflected.<String>ofType(Reflected.type(SCHEMAS, table), "toJson", ofSchema, schema));
        ArrayNode specs = facts.putArray("specs");
        Class<?> ofSpec = Reflected.type("org.apache.iceberg.PartitionSpec", table);
        for (Object spec : Reflected.<Map<Integer, Object>>get(table, "specs").values()) {
            specs.add(Reflected.<String>ofType(Reflected.type(SPECS, table), "toJson", ofSpec, spec));
        }
        Map<String, String> properties = Reflected.get(table, "properties");
        facts.put("format", properties.getOrDefault("write.format.default", "parquet"));
        facts.put("version", String.valueOf(relation.table().properties().get("format-version")));
        String branch = Reflected.get(relation.table(), "branch");
        boolean isMain = branch == null || branch.equals(MAIN);
        facts.put("past", Reflected.get(relation.table(), "snapshotId") != null || !isMain);
        return facts.toString();
    }

    /** Returns the version of Iceberg that a table is read by, for people. */
    public static String version(DataSourceV2Relation relation) {
        try {
            return (String) Reflected.type("org.apache.iceberg.IcebergBuild", relation.table()).getMethod("version").invoke(null);
        } catch (ReflectiveOperationException | RuntimeException e) {
            return "of an unknown version";
        }
    }

    /** Returns a path of Iceberg's, on the default file system if it names none. */
    static Path path(String location) {
        Path path = new Path(location);
        if (path.toUri().getScheme() != null) return path;
        URI home = FileSystem.getDefaultUri(SparkContext.getOrCreate().hadoopConfiguration());
        return path.makeQualified(home, new Path("/"));
    }
}
