package hive_bitmap.catalyst.reading;

import hive_bitmap.catalyst.spark.Scala;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.datasources.InsertIntoHadoopFsRelationCommand;

/**
 * A log of the folders that commands of this JVM have begun to write to. A write to a table invalidates the listings of its own
 * session, but not those of other sessions. A write to a path, without a table, invalidates no listing.
 */
public final class WrittenFolders {
    private static final int MOST_KEPT = 1_000;
    private static final String ANY = "";
    /** Prefixes of the names of commands that write no files of tables; any other command may write. */
    private static final List<String> HARMLESS = List.of(
            "Show", "Describe", "Explain", "SetCommand", "SetCatalogCommand", "SetNamespaceCommand", "ResetCommand", "CacheTable",
            "UncacheTable");
    private static final Map<Folder, Long> WRITTEN = new LinkedHashMap<>(); // the number of the last write into each folder
    private static long last; // the number of the last write
    private static long forgotten; // the number of the last write that was evicted

    private WrittenFolders() {}

    /** A folder that was written to. {@code byPath} says whether the write named the folder itself and no table. */
    private record Folder(String path, boolean byPath) {
        boolean overlaps(String other) {
            return isIn(path, other) || isIn(other, path);
        }

        private static boolean isIn(String inner, String outer) {
            return inner.equals(outer) || inner.startsWith(outer.endsWith("/") || outer.equals(ANY) ? outer : outer + "/");
        }
    }

    /**
     * Records the commands of a plan that may write, before they are executed. There may be several: an INSERT into several tables
     * is a union of commands.
     */
    public static void note(LogicalPlan plan) {
        plan.exists(Scala.predicate(node -> {
            if (node instanceof Command) noteCommand(node);
            return false;
        }));
    }

    private static void noteCommand(LogicalPlan command) {
        if (command instanceof InsertIntoHadoopFsRelationCommand write) {
            add(new Folder(pathOf(write.outputPath()), write.catalogTable().isEmpty()));
        } else if (HARMLESS.stream().noneMatch(command.getClass().getSimpleName()::startsWith)) {
            add(new Folder(ANY, false));
        }
    }

    private static synchronized void add(Folder folder) {
        WRITTEN.remove(folder);
        WRITTEN.put(folder, ++last);
        if (WRITTEN.size() <= MOST_KEPT) return;
        Iterator<Long> eldest = WRITTEN.values().iterator();
        forgotten = eldest.next();
        eldest.remove();
    }

    /** Returns the number of the last write that has begun. */
    static synchronized long last() {
        return last;
    }

    /**
     * Returns whether commands that began after the write with the number {@code since} may have written files in these folders.
     * With {@code byPath}, only writes to paths, without a table, are considered.
     */
    static synchronized boolean areWritten(Supplier<List<Path>> folders, long since, boolean byPath) {
        if (since < forgotten) return true;
        if (since == last) return false;
        List<String> paths = folders.get().stream().map(WrittenFolders::pathOf).toList();
        for (Map.Entry<Folder, Long> write : WRITTEN.entrySet()) {
            if (write.getValue() <= since || byPath && !write.getKey().byPath) continue;
            if (paths.stream().anyMatch(write.getKey()::overlaps)) return true;
        }
        return false;
    }

    /** Returns a path without its scheme, which the path of a command may lack. */
    private static String pathOf(Path path) {
        return path.toUri().getPath();
    }
}
