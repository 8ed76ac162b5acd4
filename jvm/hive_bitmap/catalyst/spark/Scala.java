package hive_bitmap.catalyst.spark;

import java.util.List;
import scala.PartialFunction;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/** Converts between Java's and Scala's collections and functions. */
public final class Scala {
    private Scala() {}

    public static <T> List<T> list(scala.collection.Seq<T> items) {
        return CollectionConverters.asJava(items);
    }

    @SuppressWarnings("unchecked")
    public static <T> Seq<T> seq(List<? extends T> items) {
        scala.collection.mutable.Buffer<T> buffer = CollectionConverters.asScala((List<T>) items);
        return (Seq<T>) scala.collection.immutable.Seq$.MODULE$.from(buffer);
    }

    @SuppressWarnings("unchecked")
    public static <T> scala.collection.immutable.Set<T> set(java.util.Set<T> items) {
        scala.collection.Iterable<T> iterable = CollectionConverters.asScala((Iterable<T>) items);
        return (scala.collection.immutable.Set<T>) scala.collection.immutable.Set$.MODULE$.from(iterable);
    }

    /** Returns the number of items; a call of {@code size} of a Scala collection is ambiguous in Java. */
    public static int size(scala.collection.Iterable<?> items) {
        return items.size();
    }

    @SuppressWarnings("unchecked")
    public static <K, V> java.util.Map<K, V> javaMap(scala.collection.Map<K, V> items) {
        return scala.jdk.javaapi.CollectionConverters.asJava(items);
    }

    public static <K, V> scala.collection.immutable.Map<K, V> map(java.util.Map<K, V> items) {
        scala.collection.mutable.Map<K, V> mutableMap = CollectionConverters.asScala(items);
        return (scala.collection.immutable.Map<K, V>) scala.collection.immutable.Map$.MODULE$.from(mutableMap);
    }

    public static <T> scala.Function1<T, Object> predicate(java.util.function.Predicate<T> test) {
        return new scala.runtime.AbstractFunction1<>() {
            @Override
            public Object apply(T value) {
                return test.test(value);
            }
        };
    }

    /** Returns {@code replace} as a partial function for {@code transform}, undefined where {@code replace} returns null. */
    public static <T> PartialFunction<T, T> replacing(java.util.function.Function<T, T> replace) {
        return new Replacing<>(replace);
    }

    private static final class Replacing<T> extends AbstractPartialFunction<T, T> {
        private final java.util.function.Function<T, T> replace;

        Replacing(java.util.function.Function<T, T> replace) {
            this.replace = replace;
        }

        @Override
        public boolean isDefinedAt(T node) {
            return replace.apply(node) != null;
        }

        @Override
        @SuppressWarnings("unchecked")
        public <A extends T, B> B applyOrElse(A node, scala.Function1<A, B> otherwise) {
            T replacement = replace.apply(node);
            return replacement == null ? otherwise.apply(node) : (B) replacement;
        }
    }
}
