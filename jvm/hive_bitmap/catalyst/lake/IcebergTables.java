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
 * Recognises Iceberg tables in plans, and describes them, because Spark itself has no description of them. A branch, a tag or a
 * version of a table is recognised as the table. Metadata tables are not recognised, nor are tables whose name may mean another
 * table in another catalog.
 */
public final class IcebergTables {
    private static final String TABLE = "org.apache.iceberg.spark.source.SparkTable";
    private static final String OF_ROWS = "org.apache.iceberg.BaseTable"; // a table of rows, not of metadata
    private static final String SCHEMAS = "org.apache.iceberg.SchemaParser";
    private static final String SPECS = "org.apache.iceberg.PartitionSpecParser";
    private static final String PROVIDER = "iceberg";
    private static final String MAIN = "main"; // the branch that is the table
    private static final String OWNER = "owner"; // the property of a table, and the field of its description
    /** The suffix of a table's name that chooses a version in Iceberg's catalogs. */
    private static final Pattern VERSION = Pattern.compile("(branch|tag)_.*|(snapshot_id|at_timestamp)_\\d+");
    /** Names that mean the same in catalogs with and without case sensitivity. */
    private static final Pattern NAME = Pattern.compile("[a-z0-9_]+");
    private static final int REQUIRED = 4; // the parameters of CatalogTable without a default

    private IcebergTables() {}

    /** Returns whether a plan reads the rows of an Iceberg table, or of a version of it, by name. */
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

    /** Returns the name of the table with catalog and database; null if a table with this name cannot have indexes. */
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
        boolean isOfSession = catalog.equalsIgnoreCase(Names.SESSION_CATALOG);
        String database = isOfSession ? namespace[0].toLowerCase(Locale.ROOT) : namespace[0];
        String name = isOfSession ? table.toLowerCase(Locale.ROOT) : table;
        if (!NAME.matcher(database).matches() || !NAME.matcher(name).matches()) return null;
        return new TableIdentifier(name, Option.apply(database), Option.apply(isOfSession ? Names.SESSION_CATALOG : catalog));
    }

    /** Returns the description of a table, without the facts that {@link #withFacts} adds. */
    public static CatalogTable described(DataSourceV2Relation relation) {
        Object table = Reflected.get(relation.table(), "table");
        Map<String, String> properties = relation.table().properties();
        URI location = path(Reflected.get(table, "location")).toUri();
        CatalogStorageFormat storage = FileRelations.copied(CatalogStorageFormat.empty(), "locationUri", Option.apply(location));
        CatalogTable plain = catalogTable(name(relation), storage, relation);
        CatalogTable owned = FileRelations.copied(plain, "owner", properties.getOrDefault(OWNER, ""));
        return FileRelations.copied(owned, "provider", Option.apply(PROVIDER));
    }

    /** Constructs a CatalogTable with default values for the other fields. */
    private static CatalogTable catalogTable(TableIdentifier name, CatalogStorageFormat storage, DataSourceV2Relation relation) {
        List<Object> arguments = new ArrayList<>(List.of(name, CatalogTableType.EXTERNAL(), storage, relation.table().schema()));
        try { // by reflection, since each version of Spark has added parameters to the constructor
            int parameters = CatalogTable.class.getConstructors()[0].getParameterCount();
            for (int at = REQUIRED + 1; at <= parameters; at++) {
                arguments.add(CatalogTable.class.getMethod("$lessinit$greater$default$" + at).invoke(null));
            }
            CatalogTable table = (CatalogTable) CatalogTable.class.getConstructors()[0].newInstance(arguments.toArray());
            return FileRelations.copied(table, "createTime", 0L);
        } catch (InvocationTargetException e) {
            throw new IllegalStateException("a table cannot be described in this version of Spark", e.getCause());
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("a table cannot be described in this version of Spark", e);
        }
    }

    /**
     * Adds the facts of a table to its description. {@code schema} is Iceberg's schema of its columns. If the description has no
     * owner, the owner comes from the metastore.
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

    /** Returns the version of Iceberg that reads a table, as text for people. */
    public static String version(DataSourceV2Relation relation) {
        try {
            return (String) Reflected.type("org.apache.iceberg.IcebergBuild", relation.table()).getMethod("version").invoke(null);
        } catch (ReflectiveOperationException | RuntimeException e) {
            return "of an unknown version";
        }
    }

    /** Returns a path of Iceberg, on the default file system if it names none. */
    static Path path(String location) {
        Path path = new Path(location);
        if (path.toUri().getScheme() != null) return path;
        URI home = FileSystem.getDefaultUri(SparkContext.getOrCreate().hadoopConfiguration());
        return path.makeQualified(home, new Path("/"));
    }
}
