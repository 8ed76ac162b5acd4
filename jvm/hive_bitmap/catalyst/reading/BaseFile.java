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

/** Checks whether a base file is unchanged since it was indexed. The rules are those of hive_bitmap/core/index/fingerprint.py. */
final class BaseFile {
    private static final int TAIL_BYTES = 65_536;

    private BaseFile() {}

    static FileStatus status(Path path, Configuration conf) throws IOException {
        return path.getFileSystem(conf).getFileStatus(path);
    }

    /**
     * Returns the status of a file before it is read. If the index has a tag of the file, the status comes from a listing of its
     * folder.
     */
    static FileStatus status(Path path, FileChoice indexed, Configuration conf) throws IOException {
        return isLocal(path) || indexed.tag().isEmpty() ? status(path, conf) : FolderListing.status(path, conf);
    }

    static boolean isUnchanged(FileStatus current, FileChoice indexed, Configuration conf) throws IOException {
        if (current.getLen() != indexed.size() || !sameTime(current, indexed)) return false;
        String tag = tag(current);
        if (!tag.isEmpty()) return tag.equals(indexed.tag());
        return tailCrc32(current, conf) == indexed.tailCrc32();
    }

    /**
     * Compares modification times. On object stores, which have tags, whole seconds are compared, because only listings have
     * fractions.
     */
    private static boolean sameTime(FileStatus current, FileChoice indexed) {
        long unit = indexed.tag().isEmpty() || isLocal(current.getPath()) ? 1 : 1000;
        return current.getModificationTime() / unit == indexed.modified() / unit;
    }

    private static boolean isLocal(Path path) {
        String scheme = path.toUri().getScheme();
        return scheme == null || "file".equals(scheme);
    }

    /** Returns the tag of a file ({@link FileChoice#tag}), without the quotes that some stores add; "" if it has none. */
    private static String tag(FileStatus file) throws IOException {
        if (file instanceof EtagSource source) return source.getEtag() == null ? "" : source.getEtag().replace("\"", "");
        Path path = file.getPath();
        if (!isLocal(path)) return "";
        try {
            Map<String, Object> attributes =
                    Files.readAttributes(java.nio.file.Path.of(path.toUri().getPath()), "unix:ino,ctime");
            FileTime changed = (FileTime) attributes.get("ctime");
            return attributes.get("ino") + "-" + changed.to(TimeUnit.NANOSECONDS);
        } catch (UnsupportedOperationException | IllegalArgumentException e) {
            return ""; // not a POSIX file system
        }
    }

    private static long tailCrc32(FileStatus file, Configuration conf) throws IOException {
        byte[] tail = new byte[(int) Math.min(file.getLen(), TAIL_BYTES)];
        try (FSDataInputStream stream = file.getPath().getFileSystem(conf).open(file.getPath())) {
            stream.readFully(file.getLen() - tail.length, tail);
        }
        CRC32 sum = new CRC32();
        sum.update(tail);
        return sum.getValue();
    }
}
