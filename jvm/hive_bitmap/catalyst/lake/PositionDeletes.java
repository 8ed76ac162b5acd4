package hive_bitmap.catalyst.lake;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.function.Function;
import java.util.function.LongConsumer;
import java.util.stream.LongStream;

/** The deletes of an Iceberg task as positions in its file; they come from files of position deletes, or from a deletion vector. */
record PositionDeletes(Object task, Object io) implements DeletedRows.OfFile {
    private static final String LOADER = "org.apache.iceberg.data.BaseDeleteLoader";
    private static final String BY_VALUES = "EQUALITY_DELETES";

    /** Returns whether a task has deletes by values, so that the deleted rows are known only to a reader of the rows. */
    static boolean hasOthers(Object task) {
        return all(task).stream().anyMatch(deleteFile -> String.valueOf(Reflected.<Object>get(deleteFile, "content")).equals(BY_VALUES));
    }

    private static Collection<Object> all(Object task) {
        return Reflected.get(task, "deletes");
    }

    /** Returns a version of the file's deletes; "" if only Iceberg's reader can apply them. */
    String id() {
        List<String> texts = new ArrayList<>();
        for (Object deleteFile : all(task)) {
            if (Reflected.get(deleteFile, "keyMetadata") != null) return ""; // it is encrypted
            Object offset = Reflected.get(deleteFile, "contentOffset"), size = Reflected.get(deleteFile, "contentSizeInBytes");
            texts.add(Reflected.<String>get(deleteFile, "location") + " " + offset + " " + size);
        }
        return hasOthers(task) ? "" : DeletedRows.id(texts.stream().sorted().toList());
    }

    /** Returns the number of rows in the files of deletes, including rows of other data files. */
    @Override
    public long most() {
        return all(task).stream().mapToLong(deleteFile -> Reflected.<Long>get(deleteFile, "recordCount")).sum();
    }

    @Override
    public long[] read() {
        Function<Object, Object> input = deleteFile -> Reflected.call(io, "newInputFile", deleteFile);
        Object loader = Reflected.make(Reflected.type(LOADER, task), input);
        String path = Reflected.get(Reflected.get(task, "file"), "location");
        Object index = Reflected.call(loader, "loadPositionDeletes", all(task), path);
        LongStream.Builder rows = LongStream.builder();
        Reflected.call(index, "forEach", (LongConsumer) rows::add);
        return rows.build().sorted().toArray();
    }
}
