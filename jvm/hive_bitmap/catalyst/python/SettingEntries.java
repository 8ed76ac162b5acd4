package hive_bitmap.catalyst.python;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.UnaryOperator;
import org.apache.commons.text.similarity.LevenshteinDistance;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SQLConf$;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Tuple2;
import scala.runtime.AbstractFunction1;

/**
 * Registers the settings of hive_bitmap as entries of Spark's configuration, so that SET and {@code spark.conf.set} refuse invalid
 * values. Names, kinds and defaults are in hive_bitmap/core/planning/settings.json, which is also in the jar.
 */
public final class SettingEntries {
    private static final Logger LOG = LoggerFactory.getLogger("hive_bitmap");
    private static final String OURS = "hive_bitmap.";
    private static final String SPARKS = "spark.";
    private static final String STORES = OURS + "stores."; // the rest of such a name is Hadoop's and is not checked
    private static final List<String> STRATEGIES = List.of("index only", "rows", "blocks", "files", "full scan");
    private static final JsonNode RESOURCE = resource();
    private static final List<String> OF_SERVERS = texts("of_servers").stream().map(name -> SPARKS + OURS + name).toList();
    private static final int NEAR = 3; // the most letters in which a misspelt word may differ from the right word

    /** Checks a value. Returns null if it is valid, else what a valid value is, for the message: the words after "it takes". */
    private interface Check {
        String problem(String value);
    }

    private static final Map<String, Check> CHECKS = new TreeMap<>();

    static {
        RESOURCE.get("settings").fields().forEachRemaining(setting ->
                CHECKS.put(OURS + setting.getKey(), check(setting.getValue().get("kind").asText(), setting.getValue().get("default").asText())));
    }

    private SettingEntries() {}

    private static Check check(String kind, String byDefault) {
        return switch (kind) {
            case "flag" -> value -> isAmong(value, List.of("true", "false")) ? null : "true or false";
            case "bytes" -> value -> value.strip().toLowerCase(Locale.ROOT).matches("\\d{1,18}\\s*([kmg]?b?)")
                    ? null : "bytes, such as " + byDefault;
            case "strategy" -> SettingEntries::strategyProblem;
            case "seconds" -> value -> isNumber(value) ? null : "seconds, such as 1 or 0.5";
            case "names" -> value -> null;
            case "database" -> value -> value.strip().matches("\\w*") ? null : "the name of a database";
            default -> throw new IllegalStateException("not a kind of settings: " + kind);
        };
    }

    private static JsonNode resource() {
        try (InputStream resource = SettingEntries.class.getResourceAsStream("/hive_bitmap/settings.json")) {
            return new ObjectMapper().readTree(resource);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static List<String> texts(String name) {
        List<String> texts = new ArrayList<>();
        RESOURCE.get(name).forEach(text -> texts.add(text.asText()));
        return texts;
    }

    /** Returns the names of Hadoop's settings that determine what readers see. */
    static List<String> ofReaders() {
        return texts("of_readers");
    }

    /** Returns the default value of a setting. */
    static String byDefault(String name) {
        return RESOURCE.get("settings").get(name.substring(OURS.length())).get("default").asText();
    }

    /** Registers the entries once per JVM, and warns of wrong settings in the application's configuration. */
    public static synchronized void register(SparkConf application) {
        CHECKS.keySet().forEach(name -> {
            register(name, name);
            register(SPARKS + name, name);
        });
        for (Tuple2<String, String> setting : application.getAllWithPrefix(SPARKS + OURS)) {
            String name = OURS + setting._1();
            String problem = problemOfName(SPARKS + name);
            if (problem == null && CHECKS.containsKey(name)) problem = problem(name, setting._2());
            if (problem != null) LOG.warn("the configuration of the application has an invalid setting: {}", problem);
        }
    }

    /** Registers an entry that takes the values of a setting, unless the entry exists. */
    private static void register(String entry, String name) {
        if (SQLConf$.MODULE$.containsConfigKey(entry)) return;
        SQLConf.buildConf(entry).doc("A setting of hive_bitmap.").stringConf().transform(checked(value -> {
            String problem = problem(name, value);
            if (problem != null) throw new IllegalArgumentException(problem);
            return value;
        })).createOptional();
    }

    /**
     * Returns why a name is not one of hive_bitmap's settings, with a suggestion. Null if it is one, or if it does not look like
     * one.
     */
    public static String problemOfName(String name) {
        String setting = name.startsWith(SPARKS + OURS) ? name.substring(SPARKS.length()) : name;
        if (!setting.startsWith(OURS) || setting.startsWith(STORES) || CHECKS.containsKey(setting) || OF_SERVERS.contains(name)) return null;
        String suggestion = nearest(setting, CHECKS.keySet());
        return "hive_bitmap has no setting " + name + (suggestion == null ? ": they are " + String.join(", ", CHECKS.keySet())
                : "; did you mean '" + (setting.equals(name) ? "" : SPARKS) + suggestion + "'?");
    }

    private static String problem(String name, String value) {
        String takes = CHECKS.get(name).problem(value);
        return takes == null ? null : name + " is '" + value + "'; it takes " + takes;
    }

    private static String strategyProblem(String value) {
        String strategy = value.strip().toLowerCase(Locale.ROOT).replace('_', ' ');
        if (strategy.isEmpty() || STRATEGIES.contains(strategy)) return null;
        String suggestion = nearest(strategy, STRATEGIES);
        return String.join(", ", STRATEGIES) + (suggestion == null ? "" : "; did you mean '" + suggestion + "'?");
    }

    private static boolean isAmong(String value, List<String> allowed) {
        return allowed.contains(value.strip().toLowerCase(Locale.ROOT));
    }

    private static boolean isNumber(String value) {
        try {
            return Double.parseDouble(value.strip()) >= 0;
        } catch (NumberFormatException e) {
            return false;
        }
    }

    /** Returns the candidate closest to a word; null if all differ in more than {@link #NEAR} letters. */
    private static String nearest(String word, Iterable<String> candidates) {
        LevenshteinDistance distance = new LevenshteinDistance(NEAR);
        String nearest = null;
        int least = NEAR + 1;
        for (String candidate : candidates) {
            int letters = distance.apply(word, candidate);
            if (letters >= 0 && letters < least) {
                nearest = candidate;
                least = letters;
            }
        }
        return nearest;
    }

    private static AbstractFunction1<String, String> checked(UnaryOperator<String> check) {
        return new AbstractFunction1<String, String>() {
            @Override
            public String apply(String value) {
                return check.apply(value);
            }
        };
    }
}
