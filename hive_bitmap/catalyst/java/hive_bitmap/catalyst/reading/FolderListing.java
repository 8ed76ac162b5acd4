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
 * In an executor: base files as the listing of their folder shows them, tags included. It is made once a stage, in place
 * of a request a file. A task that is tried again asks for each file itself: one was replaced since.
 */
final class Listed {
    private static final int MOST_FILES = 200_000;
    private static final Map<Key, Listed> KNOWN = new LinkedHashMap<>(16, 0.75f, true);

    private Map<String, FileStatus> files;

    private Listed() {}

    private record Key(String application, int stage, int attempt, Path folder) {}

    /** The status of a file of a store with tags, as of some moment since this stage began. */
    static FileStatus status(Path path, Configuration conf) throws IOException {
        TaskContext task = TaskContext.get();
        if (task == null || task.attemptNumber() > 0) return path.getFileSystem(conf).getFileStatus(path);
        String application = SparkEnv.get().conf().getAppId();
        Path folder = path.getParent();
        Map<String, FileStatus> files =
                of(new Key(application, task.stageId(), task.stageAttemptNumber(), folder)).listed(folder, conf);
        FileStatus found = files.get(path.getName());
        if (found == null || !(found instanceof EtagSource)) return path.getFileSystem(conf).getFileStatus(path);
        return found;
    }

    private static Listed of(Key key) {
        synchronized (KNOWN) {
            return KNOWN.computeIfAbsent(key, one -> new Listed());
        }
    }

    private synchronized Map<String, FileStatus> listed(Path folder, Configuration conf) throws IOException {
        if (files == null) {
            Map<String, FileStatus> found = new HashMap<>();
            try {
                for (FileStatus file : folder.getFileSystem(conf).listStatus(folder)) found.put(file.getPath().getName(), file);
            } catch (FileNotFoundException e) {
                found.clear(); // then each file is asked for, and says that it is gone
            }
            files = found;
            forget();
        }
        return files;
    }

    /** Let go of what was listed longest ago, as long as it is too much. */
    private static void forget() {
        synchronized (KNOWN) {
            long held = 0;
            for (Listed one : KNOWN.values()) held += one.files == null ? 0 : 1 + one.files.size();
            for (Iterator<Listed> eldest = KNOWN.values().iterator(); held > MOST_FILES && KNOWN.size() > 1 && eldest.hasNext(); ) {
                Listed one = eldest.next();
                held -= one.files == null ? 0 : 1 + one.files.size();
                eldest.remove();
            }
        }
    }
}
