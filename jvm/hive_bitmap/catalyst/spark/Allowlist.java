package hive_bitmap.catalyst.spark;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.function.Function;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StringType$;

/**
 * The expressions and types that may be computed from the distinct keys of an index instead of rows, with the same result.
 * tests/spark/catalyst/test_allowlist.py tests each entry. Everything else is left to Spark.
 *
 * <p>An expression is listed if equal arguments always give equal values: it is deterministic, has no state, and runs neither a
 * query nor a user's function. Its modes (ANSI, time zone, collation) are part of it. Classes are listed by name, since some
 * versions of Spark lack some of them.
 */
public final class Allowlist {
    private static final String CATALYST = "org.apache.spark.sql.catalyst.";
    private static final String PACKAGE = CATALYST + "expressions.";
    private static final Set<String> EXPRESSIONS = names("""
            Literal Cast Alias TryEval
            And Or Not EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In InSet
            IsNull IsNotNull If CaseWhen Coalesce Greatest Least
            Add Subtract Multiply Divide IntegralDivide Remainder Pmod UnaryMinus Abs Signum
            BitwiseAnd BitwiseOr BitwiseXor BitwiseNot BitwiseCount BitwiseGet ShiftLeft ShiftRight ShiftRightUnsigned
            Ceil Floor RoundCeil RoundFloor Round BRound Rint Factorial WidthBucket Bin Conv Hex Unhex
            Sqrt Cbrt Exp Expm1 Log Log10 Log1p Log2 Logarithm Pow Hypot ToDegrees ToRadians IsNaN NaNvl
            Sin Cos Tan Cot Sec Csc Asin Acos Atan Atan2 Sinh Cosh Tanh Asinh Acosh Atanh
            Concat ConcatWs Elt Length OctetLength BitLength Lower Upper InitCap Reverse StringRepeat StringSpace StringReplace
            StringTranslate StringTrim StringTrimLeft StringTrimRight StringLPad StringRPad Substring SubstringIndex
            StringInstr StringLocate FindInSet Overlay Ascii Chr SoundEx Levenshtein FormatString FormatNumber Mask
            StartsWith EndsWith Contains Like RLike
            RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace StringSplit StringSplitSQL GetJsonObject
            Md5 Sha1 Sha2 Crc32 Murmur3Hash XxHash64 UnBase64
            CreateArray Size ElementAt GetArrayItem ArrayContains ArrayPosition ArrayJoin ArrayMin ArrayMax ArrayDistinct
            SortArray
            Year Quarter Month DayOfMonth DayOfWeek DayOfYear WeekDay WeekOfYear Hour Minute Second SecondWithFraction
            DayName MonthName DateAdd DateSub DateDiff AddMonths MonthsBetween LastDay NextDay TruncDate TruncTimestamp
            MakeDate DateFormatClass GetTimestamp DateFromUnixDate UnixDate UnixSeconds UnixMillis UnixMicros
            SecondsToTimestamp MillisToTimestamp MicrosToTimestamp FromUnixTime UnixTimestamp ToUnixTimestamp
            FromUTCTimestamp ToUTCTimestamp ConvertTimezone TimestampDiff
            """);
    /** Static methods that Spark calls for functions without an expression class: class and method. */
    private static final Set<String> CALLS = names("""
            CharVarcharCodegenUtils.readSidePadding Encode.encode StringDecode.decode Base64.encode UrlCodec$.encode
            UrlCodec$.decode ExpressionImplUtils.isLuhnNumber JsonExpressionUtils.lengthOfJsonArray
            """);
    /** The types with equal bytes for equal values, so a key is the exact value of all its rows. */
    private static final Set<DataType> EXACT = Set.of(
            DataTypes.BooleanType, DataTypes.ByteType, DataTypes.ShortType, DataTypes.IntegerType, DataTypes.LongType,
            DataTypes.DateType, DataTypes.TimestampType, DataTypes.TimestampNTZType, DataTypes.BinaryType, StringType$.MODULE$);
    /** The types that have one key for 0.0 and -0.0, and one for all NaNs. They may only be counted, grouped and compared. */
    private static final Set<DataType> FLOATS = Set.of(DataTypes.FloatType, DataTypes.DoubleType);
    private static final Set<String> FLOAT_TESTS = names("""
            EqualTo EqualNullSafe LessThan LessThanOrEqual GreaterThan GreaterThanOrEqual In IsNull IsNotNull
            """);
    private static final String CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING";
    private static final String PADDING = "CharVarcharCodegenUtils.readSidePadding";

    /** The functions whose second argument is a Java regular expression, which may take exponentially long. */
    private static final Set<String> REGEXES = names("""
            RLike RegExpExtract RegExpExtractAll RegExpInStr RegExpReplace StringSplit
            """);
    private static final Pattern BACKTRACKING = Pattern.compile("\\\\[0-9k]|\\)[*+?{]");
    private static final Pattern REPETITION = Pattern.compile("[*+{]");
    private static final int MAX_REPETITIONS = 3;

    private Allowlist() {}

    /**
     * Returns whether a regular expression is simple: a constant without backreferences and repeated groups, with few repetitions.
     */
    private static boolean isSimple(Expression pattern) {
        if (!(pattern instanceof Literal literal) || literal.value() == null) return false;
        String text = literal.value().toString();
        return !BACKTRACKING.matcher(text).find() && REPETITION.matcher(text).results().count() <= MAX_REPETITIONS;
    }

    /** Returns whether no expression can distinguish equal values of a type, unlike 0.0 and -0.0. */
    public static boolean isExact(DataType type) {
        return EXACT.contains(type) || type instanceof DecimalType;
    }

    /** Returns why an expression must not be evaluated over keys; null if it may be. */
    public static String refusal(Expression expression) {
        if (isTestOfFloat(expression)) return null;
        return expression instanceof AttributeReference column ? refusal(column) : refusal(expression, Allowlist::refusal);
    }

    /**
     * Returns why an expression must not be evaluated over keys; null if it may be. {@code refusalOfChild} does the same for its
     * children.
     */
    public static String refusal(Expression expression, Function<Expression, String> refusalOfChild) {
        if (!expression.deterministic()) return Expressions.sql(expression) + " is not deterministic";
        String name = listed(expression);
        if (name == null) return Expressions.sql(expression) + " is not known to be the same for a key as for its rows";
        if (isCollated(expression.dataType())) return Expressions.sql(expression) + " has a collation";
        List<Expression> children = Scala.list(expression.children());
        if (REGEXES.contains(name) && !isSimple(children.get(1))) {
            return "the regular expression of " + Expressions.sql(expression) + " may take long for a key that no selected row has";
        }
        if (name.equals(PADDING) && children.get(0) instanceof AttributeReference) return null; // keys of CHAR are padded
        return children.stream().map(refusalOfChild).filter(Objects::nonNull).findFirst().orElse(null);
    }

    /**
     * Returns why an expression must not be an argument of an aggregate over keys; null if it may be. A bare float column may be.
     */
    public static String refusalAsArgument(Expression expression) {
        return isFloat(expression) ? null : refusal(expression);
    }

    /** Returns why rows must not be grouped by an expression over keys; null if they may be. */
    public static String refusalAsKey(Expression expression) {
        String why = refusalAsArgument(expression);
        if (why != null || isFloat(expression) || isExact(expression.dataType())) return why;
        return "equal values of " + Expressions.sql(expression) + ", a " + expression.dataType().sql() + ", may differ";
    }

    private static String refusal(AttributeReference column) {
        if (isChar(column)) return "it tests the CHAR column " + column.name() + " as the files have it";
        if (isFloat(column)) return "it may tell 0.0 from -0.0, of which an index of " + column.name() + " keeps one";
        return isExact(column.dataType()) ? null : column.name() + " is a " + column.dataType().sql();
    }

    /** Returns the listed name of an expression; null if it is not listed. */
    private static String listed(Expression expression) {
        if (expression instanceof StaticInvoke call) {
            String owner = call.staticObject().getName();
            String name = owner.substring(owner.lastIndexOf('.') + 1) + "." + call.functionName();
            return owner.startsWith(CATALYST) && CALLS.contains(name) ? name : null;
        }
        return nameOf(expression, EXPRESSIONS);
    }

    private static String nameOf(Expression expression, Set<String> names) {
        String name = expression.getClass().getName();
        if (!name.startsWith(PACKAGE)) return null;
        String simple = name.substring(PACKAGE.length());
        return names.contains(simple) ? simple : null;
    }

    /** Returns whether an expression compares a bare float column with literals, or tests it for NULL. */
    private static boolean isTestOfFloat(Expression expression) {
        if (nameOf(expression, FLOAT_TESTS) == null) return false;
        List<Expression> children = Scala.list(expression.children());
        return children.stream().filter(Allowlist::isFloatOrWidened).count() == 1
                && children.stream().allMatch(child -> child instanceof Literal || isFloatOrWidened(child));
    }

    private static boolean isFloatOrWidened(Expression expression) {
        return isFloat(expression) || expression instanceof Cast cast && isFloat(cast.child()) && FLOATS.contains(cast.dataType());
    }

    private static boolean isFloat(Expression expression) {
        return expression instanceof AttributeReference column && FLOATS.contains(column.dataType());
    }

    private static boolean isCollated(DataType type) {
        return type instanceof StringType && !type.equals(StringType$.MODULE$);
    }

    /** Returns whether a column is a CHAR, whose keys an index pads as Spark does. */
    public static boolean isChar(Attribute column) {
        return column.metadata().contains(CHAR_TYPE) && column.metadata().getString(CHAR_TYPE).startsWith("char(");
    }

    private static Set<String> names(String text) {
        return Arrays.stream(text.strip().split("\\s+")).collect(Collectors.toUnmodifiableSet());
    }
}
