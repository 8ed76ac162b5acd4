package hive_bitmap.catalyst.reading;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.FileTime;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.EtagSource;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/** Whether a base file is the one that was indexed, as hive_bitmap/index/fingerprint.py tells it. */
final class BaseFile {
    private static final int TAIL_BYTES = 65_536;

    private BaseFile() {}

    static FileStatus status(Path path, Configuration conf) throws IOException {
        return path.getFileSystem(conf).getFileStatus(path);
    }

    /** The same before a file is read: where the store has tags a listing of the folder tells of all files in it. */
    static FileStatus status(Path path, FileChoice indexed, Configuration conf) throws IOException {
        return isLocal(path) || indexed.tag().isEmpty() ? status(path, conf) : Listed.status(path, conf);
    }

    static boolean is(FileStatus now, FileChoice indexed, Configuration conf) throws IOException {
        if (now.getLen() != indexed.size() || !sameTime(now, indexed)) return false;
        String tag = indexed.tag().isEmpty() ? "" : tag(now);
        if (!tag.isEmpty()) return tag.equals(indexed.tag());
        return tailCrc32(now, conf) == indexed.tailCrc32();
    }

    /** Object stores, which have tags, tell parts of a second in a listing and not of a file: there, seconds are compared. */
    private static boolean sameTime(FileStatus now, FileChoice indexed) {
        long unit = indexed.tag().isEmpty() || isLocal(now.getPath()) ? 1 : 1000;
        return now.getModificationTime() / unit == indexed.modified() / unit;
    }

    private static boolean isLocal(Path path) {
        String scheme = path.toUri().getScheme();
        return scheme == null || "file".equals(scheme);
    }

    /** The store's tag of a file, without the quotes that some put around it; empty where it has none. */
    private static String tag(FileStatus file) throws IOException {
        if (file instanceof EtagSource source) return source.getEtag() == null ? "" : source.getEtag().replace("\"", "");
        Path path = file.getPath();
        if (!isLocal(path)) return "";
        try {
            Map<String, Object> found = Files.readAttributes(java.nio.file.Path.of(path.toUri().getPath()), "unix:ino,ctime");
            FileTime changed = (FileTime) found.get("ctime");
            return found.get("ino") + "-" + changed.to(TimeUnit.NANOSECONDS);
        } catch (UnsupportedOperationException | IllegalArgumentException e) {
            return ""; // no POSIX file system
        }
    }

    private static long tailCrc32(FileStatus file, Configuration conf) throws IOException {
        int wanted = (int) Math.min(file.getLen(), TAIL_BYTES);
        byte[] tail = new byte[wanted];
        try (FSDataInputStream stream = file.getPath().getFileSystem(conf).open(file.getPath())) {
            stream.readFully(file.getLen() - wanted, tail);
        }
        CRC32 sum = new CRC32();
        sum.update(tail);
        return sum.getValue();
    }
}
