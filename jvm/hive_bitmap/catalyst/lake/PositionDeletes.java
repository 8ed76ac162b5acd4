package hive_bitmap.catalyst.lake;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.function.Function;
import java.util.function.LongConsumer;
import java.util.stream.LongStream;

/** The deletes of a task of Iceberg's as positions in its file: files of position deletes, or a deletion vector. */
record PositionDeletes(Object task, Object io) implements DeletedRows.OfFile {
    private static final String LOADER = "org.apache.iceberg.data.BaseDeleteLoader";
    private static final String BY_VALUES = "EQUALITY_DELETES";

    /** Whether a task has deletes by values, of which only a reader of the rows can tell which rows they are. */
    static boolean hasOthers(Object task) {
        return all(task).stream().anyMatch(one -> String.valueOf(Reflected.<Object>get(one, "content")).equals(BY_VALUES));
    }

    private static Collection<Object> all(Object task) {
        return Reflected.get(task, "deletes");
    }

    /** Returns what tells the deletes from those of the file at other times; "" if only Iceberg's reader applies them. */
    String id() {
        List<String> texts = new ArrayList<>();
        for (Object one : all(task)) {
            if (Reflected.get(one, "keyMetadata") != null) return ""; // it is encrypted
            Object offset = Reflected.get(one, "contentOffset"), size = Reflected.get(one, "contentSizeInBytes");
            texts.add(Reflected.<String>get(one, "location") + " " + offset + " " + size);
        }
        return hasOthers(task) ? "" : DeletedRows.id(texts.stream().sorted().toList());
    }

    /** Returns how many rows the files of deletes name, also of other data files. */
    @Override
    public long most() {
        return all(task).stream().mapToLong(one -> Reflected.<Long>get(one, "recordCount")).sum();
    }

    @Override
    public long[] read() {
        Function<Object, Object> input = one -> Reflected.call(io, "newInputFile", one);
        Object loader = Reflected.make(Reflected.type(LOADER, task), input);
        String path = Reflected.get(Reflected.get(task, "file"), "location");
        Object index = Reflected.call(loader, "loadPositionDeletes", all(task), path);
        LongStream.Builder rows = LongStream.builder();
        Reflected.call(index, "forEach", (LongConsumer) rows::add);
        return rows.build().sorted().toArray();
    }
}
