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
 * A local file that lines are appended to, accessible only to its owner. A full file is renamed to {@code .1}, which replaces an
 * older file of this name. Links are not followed. Several processes may append to the same file: a lock file beside it ensures
 * that they do so one after the other.
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

    /** Appends lines; throws IOException if the file cannot be written, or is a link. */
    synchronized void append(List<String> lines) throws IOException {
        ByteBuffer text = StandardCharsets.UTF_8.encode(String.join("\n", lines) + "\n");
        try (FileChannel lockFile = open(besides(".lock")); FileLock lock = locked(lockFile)) {
            if (Files.exists(path) && Files.size(path) + text.remaining() > maxBytes) {
                Files.move(path, besides(".1"), StandardCopyOption.REPLACE_EXISTING);
            }
            try (FileChannel file = open(path)) {
                while (text.hasRemaining()) file.write(text);
            }
        }
    }

    /**
     * Locks a file, with retries for a short while; throws IOException if it is still locked. The lock may also be held in this
     * process, which can hold it only once: this class may be loaded again for a later SparkContext.
     */
    private static FileLock locked(FileChannel file) throws IOException {
        for (int tries = 0; tries < MAX_TRIES; tries++) {
            try {
                FileLock lock = file.tryLock();
                if (lock != null) return lock;
            } catch (OverlappingFileLockException e) {
                // held in this process; retried like a lock of another process
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
