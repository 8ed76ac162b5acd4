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
 * The listing of a folder with base files, including their tags. An executor caches it during a stage, so that one request replaces
 * a request for each file. A retried task does not use the cache, because a file may have been replaced.
 */
final class FolderListing {
    private static final int MAX_FILES = 200_000;
    private static final Map<Key, FolderListing> CACHE = new LinkedHashMap<>(16, 0.75f, true);

    private Map<String, FileStatus> files;

    private FolderListing() {}

    private record Key(String application, int stage, int attempt, Path folder) {}

    /** Returns the status of a file in a store with tags, at most as old as this stage. */
    static FileStatus status(Path path, Configuration conf) throws IOException {
        TaskContext task = TaskContext.get();
        if (task == null || task.attemptNumber() > 0) return path.getFileSystem(conf).getFileStatus(path);
        String application = SparkEnv.get().conf().getAppId();
        Path folder = path.getParent();
        Map<String, FileStatus> files =
                of(new Key(application, task.stageId(), task.stageAttemptNumber(), folder)).files(folder, conf);
        FileStatus file = files.get(path.getName());
        if (file == null || !(file instanceof EtagSource)) return path.getFileSystem(conf).getFileStatus(path);
        return file;
    }

    private static FolderListing of(Key key) {
        synchronized (CACHE) {
            return CACHE.computeIfAbsent(key, absent -> new FolderListing());
        }
    }

    private synchronized Map<String, FileStatus> files(Path folder, Configuration conf) throws IOException {
        if (files == null) {
            Map<String, FileStatus> listed = new HashMap<>();
            try {
                for (FileStatus file : folder.getFileSystem(conf).listStatus(folder)) listed.put(file.getPath().getName(), file);
            } catch (FileNotFoundException e) {
                listed.clear(); // the request for the file itself then reports that it is missing
            }
            files = listed;
            evict();
        }
        return files;
    }

    /** Evicts the least recently used listings while the cache holds more than MAX_FILES files. */
    private static void evict() {
        synchronized (CACHE) {
            long held = 0;
            for (FolderListing listing : CACHE.values()) held += listing.files == null ? 0 : 1 + listing.files.size();
            for (Iterator<FolderListing> eldest = CACHE.values().iterator(); held > MAX_FILES && CACHE.size() > 1 && eldest.hasNext(); ) {
                FolderListing listing = eldest.next();
                held -= listing.files == null ? 0 : 1 + listing.files.size();
                eldest.remove();
            }
        }
    }
}
