package hive_bitmap.catalyst.observing;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.List;
import java.util.Set;
import java.util.concurrent.locks.LockSupport;

/**
 * A local file to which lines are appended, for its owner alone. A file that is full becomes the one before ({@code .1}), in place of
 * an older one. No link is followed in place of a file. Several processes may append to one file: one at a time does, under the lock
 * of a file beside it.
 */
final class AdviceFile {
    private static final Set<OpenOption> OPTIONS = Set.of(
            StandardOpenOption.CREATE, StandardOpenOption.WRITE, StandardOpenOption.APPEND, LinkOption.NOFOLLOW_LINKS);

    private static final int MAX_TRIES = 100;
    private static final long TRY_NANOSECONDS = 20_000_000;

    private final Path path;
    private final long maxBytes;

    AdviceFile(Path path, long maxBytes) {
        this.path = path;
        this.maxBytes = maxBytes;
    }

    /** Appends lines. Throws IOException if the file cannot be written, or is a link. */
    synchronized void append(List<String> lines) throws IOException {
        ByteBuffer text = StandardCharsets.UTF_8.encode(String.join("\n", lines) + "\n");
        try (FileChannel beside = open(besides(".lock")); FileLock lock = locked(beside)) {
            if (Files.exists(path) && Files.size(path) + text.remaining() > maxBytes) {
                Files.move(path, besides(".1"), StandardCopyOption.REPLACE_EXISTING);
            }
            try (FileChannel file = open(path)) {
                while (text.hasRemaining()) file.write(text);
            }
        }
    }

    /**
     * Locks a file, if that is possible within a short while. A process holds a lock but once, and classes that a later SparkContext
     * has loaded know nothing of these ones.
     */
    private static FileLock locked(FileChannel file) throws IOException {
        for (int tries = 0; tries < MAX_TRIES; tries++) {
            try {
                FileLock lock = file.tryLock();
                if (lock != null) return lock;
            } catch (OverlappingFileLockException e) {
                // by this process, like a lock of another one
            }
            LockSupport.parkNanos(TRY_NANOSECONDS);
        }
        throw new IOException("another process holds the lock");
    }

    private Path besides(String suffix) {
        return path.resolveSibling(path.getFileName() + suffix);
    }

    private static FileChannel open(Path path) throws IOException {
        boolean isThere = Files.exists(path, LinkOption.NOFOLLOW_LINKS);
        if (isThere && !Files.isRegularFile(path, LinkOption.NOFOLLOW_LINKS)) throw new IOException(path + " is not a regular file");
        return FileChannel.open(path, OPTIONS, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------")));
    }
}
