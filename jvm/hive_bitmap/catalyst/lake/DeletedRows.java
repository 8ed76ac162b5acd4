package hive_bitmap.catalyst.lake;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CancellationException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Reads the deleted rows of files by the formats' own classes, for counts from an index. If the deletes of a file cannot be read,
 * Spark counts the file. If Spark cannot read them either, the query fails as it would without an index.
 */
final class DeletedRows {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final long MOST = 4 << 20; // deleted rows of all files together; each takes four bytes on the way to Python
    private static final int TOGETHER = 8; // files read at once, as in hive_bitmap/spark/preparing/index_lookup.py

    private DeletedRows() {}

    /** The deletes of a file. */
    interface OfFile {
        /** Returns an upper bound of the number of deleted rows. */
        long most();

        /** Returns the positions of the deleted rows in the file, ascending. */
        long[] read();
    }

    /** Returns a version of a file's deletes: a digest of texts that identify each of them. */
    static String id(List<String> deletes) {
        try {
            byte[] text = String.join("\n", deletes).getBytes(StandardCharsets.UTF_8);
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(text));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every JVM has SHA-256", e);
        }
    }

    /**
     * Returns the deleted rows of files as a JSON array. The item for a file has the positions of its deleted rows as little-endian
     * integers of four bytes, in Base64. It is null if the deletes cannot be read, or if this file and those before it have too
     * many deleted rows together.
     */
    static StringBuilder text(List<OfFile> files) {
        ExecutorService readers = Executors.newFixedThreadPool(Math.min(Math.max(files.size(), 1), TOGETHER));
        try {
            List<Future<String>> texts = new ArrayList<>();
            long remaining = MOST;
            for (OfFile file : files) {
                boolean fits = file.most() <= remaining;
                if (fits) remaining -= file.most();
                texts.add(readers.submit(() -> fits ? encoded(file) : "null"));
            }
            StringBuilder text = new StringBuilder("[");
            for (Future<String> fileText : texts) text.append(text.length() == 1 ? "" : ",").append(fileText.get());
            return text.append(']');
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new CancellationException("the deleted rows are no longer waited for");
        } catch (ExecutionException e) {
            throw new IllegalStateException(e.getCause());
        } finally {
            readers.shutdownNow();
        }
    }

    private static String encoded(OfFile file) {
        try {
            long[] rows = file.read();
            ByteBuffer bytes = ByteBuffer.allocate(Integer.BYTES * rows.length).order(ByteOrder.LITTLE_ENDIAN);
            for (long row : rows) bytes.putInt(Math.toIntExact(row));
            return '"' + Base64.getEncoder().encodeToString(bytes.array()) + '"';
        } catch (RuntimeException | LinkageError e) {
            LOG.info("Spark counts a file, because its deleted rows are unknown: {}", e.toString());
            return "null";
        }
    }
}
