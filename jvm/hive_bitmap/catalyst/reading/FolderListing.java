package hive_bitmap.catalyst.reading;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;

/**
 * The listing of a folder with base files, tags included, cached in an executor for the time of a stage: one request
 * instead of one for each file. A retried task does not use it but asks for each file, since one may have been replaced.
 */
final class FolderListing {
    private static final int MAX_FILES = 200_000;
    private static final Map<Key, FolderListing> CACHE = new LinkedHashMap<>(16, 0.75f, true);

    private Map<String, FileStatus> files;

    private FolderListing() {}

    private record Key(String application, int stage, int attempt, Path folder) {}

    /** Returns the status that a file of a store with tags had at some moment since this stage began. */
    static FileStatus status(Path path, Configuration conf) throws IOException {
        TaskContext task = TaskContext.get();
        if (task == null || task.attemptNumber() > 0) return path.getFileSystem(conf).getFileStatus(path);
        String application = SparkEnv.get().conf().getAppId();
        Path folder = path.getParent();
        Map<String, FileStatus> files =
                of(new Key(application, task.stageId(), task.stageAttemptNumber(), folder)).files(folder, conf);
        FileStatus found = files.get(path.getName());
        if (found == null || !(found instanceof EtagSource)) return path.getFileSystem(conf).getFileStatus(path);
        return found;
    }

    private static FolderListing of(Key key) {
        synchronized (CACHE) {
            return CACHE.computeIfAbsent(key, one -> new FolderListing());
        }
    }

    private synchronized Map<String, FileStatus> files(Path folder, Configuration conf) throws IOException {
        if (files == null) {
            Map<String, FileStatus> found = new HashMap<>();
            try {
                for (FileStatus file : folder.getFileSystem(conf).listStatus(folder)) found.put(file.getPath().getName(), file);
            } catch (FileNotFoundException e) {
                found.clear(); // the request for the file itself then reports that it is missing
            }
            files = found;
            evict();
        }
        return files;
    }

    /** Evicts the least recently used listings while all of them hold more than MAX_FILES files. */
    private static void evict() {
        synchronized (CACHE) {
            long held = 0;
            for (FolderListing one : CACHE.values()) held += one.files == null ? 0 : 1 + one.files.size();
            for (Iterator<FolderListing> eldest = CACHE.values().iterator(); held > MAX_FILES && CACHE.size() > 1 && eldest.hasNext(); ) {
                FolderListing one = eldest.next();
                held -= one.files == null ? 0 : 1 + one.files.size();
                eldest.remove();
            }
        }
    }
}
