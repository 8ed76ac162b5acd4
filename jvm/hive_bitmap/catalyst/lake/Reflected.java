package hive_bitmap.catalyst.lake;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Calls methods and constructors of classes that are not available at compile time. */
final class Reflected {
    private Reflected() {}

    /** Thrown if the installed version of a library differs from the supported ones. */
    static final class Unknown extends RuntimeException {
        Unknown(String message, Throwable cause) {
            super(message, cause);
        }
    }

    /** Calls a public method without parameters and returns its result. */
    @SuppressWarnings("unchecked")
    static <T> T get(Object object, String name) {
        try {
            return (T) method(object.getClass(), name).invoke(object);
        } catch (IllegalAccessException e) {
            throw new Unknown(name + " cannot be called", e);
        } catch (InvocationTargetException e) {
            throw failed(name, e);
        }
    }

    /** Calls a public method that takes these arguments and returns its result. */
    @SuppressWarnings("unchecked")
    static <T> T call(Object object, String name, Object... arguments) {
        for (Method method : object.getClass().getMethods()) {
            if (!method.getName().equals(name) || !takes(method.getParameterTypes(), arguments)) continue;
            try {
                method.trySetAccessible(); // the class may not be public
                return (T) method.invoke(object, arguments);
            } catch (IllegalAccessException e) {
                throw new Unknown(name + " cannot be called", e);
            } catch (InvocationTargetException e) {
                throw failed(name, e);
            }
        }
        throw new Unknown(object.getClass().getName() + " has no method " + name + " for these arguments", null);
    }

    /** Calls a method without parameters, which need not be public, and returns its result. */
    @SuppressWarnings("unchecked")
    static <T> T hidden(Object object, String name) {
        return (T) called(object, name, new Class<?>[0]);
    }

    /** Calls a method with one parameter of this type; it need not be public. */
    static void hidden(Object object, String name, Class<?> type, Object argument) {
        called(object, name, new Class<?>[] {type}, argument);
    }

    /** Sets a field of an object; a superclass may declare it. */
    static void set(Object object, String name, Object value) {
        for (Class<?> declaring = object.getClass(); declaring != null; declaring = declaring.getSuperclass()) {
            try {
                Field field = declaring.getDeclaredField(name);
                field.setAccessible(true);
                field.set(object, value);
                return;
            } catch (NoSuchFieldException e) {
                continue;
            } catch (IllegalAccessException | RuntimeException e) {
                throw new Unknown(name + " cannot be set", e);
            }
        }
        throw new Unknown(object.getClass().getName() + " has no field " + name, null);
    }

    /** Calls a method, which need not be public, and returns its result. */
    private static Object called(Object object, String name, Class<?>[] types, Object... arguments) {
        try {
            return declared(object.getClass(), name, types).invoke(object, arguments);
        } catch (IllegalAccessException e) {
            throw new Unknown(name + " cannot be called", e);
        } catch (InvocationTargetException e) {
            throw failed(name, e);
        }
    }

    /** Returns the method that a class or its nearest superclass declares. */
    private static Method declared(Class<?> type, String name, Class<?>... types) {
        for (Class<?> declaring = type; declaring != null; declaring = declaring.getSuperclass()) {
            try {
                Method method = declaring.getDeclaredMethod(name, types);
                method.setAccessible(true);
                return method;
            } catch (NoSuchMethodException e) {
                continue;
            } catch (RuntimeException e) {
                throw new Unknown(name + " cannot be called", e);
            }
        }
        throw new Unknown(type.getName() + " has no method " + name, null);
    }

    /** Calls a static public method with one parameter of this type and returns its result. */
    @SuppressWarnings("unchecked")
    static <T> T ofType(Class<?> type, String name, Class<?> parameter, Object argument) {
        try {
            return (T) type.getMethod(name, parameter).invoke(null, argument);
        } catch (NoSuchMethodException | IllegalAccessException e) {
            throw new Unknown(type.getName() + " has no method " + name, e);
        } catch (InvocationTargetException e) {
            throw failed(name, e);
        }
    }

    /** Returns a class by its name, from the library that also has the class of {@code neighbour}. */
    static Class<?> type(String name, Object neighbour) {
        try {
            return Class.forName(name, true, neighbour.getClass().getClassLoader());
        } catch (ClassNotFoundException | LinkageError e) {
            throw new Unknown("there is no class " + name, e);
        }
    }

    /** Returns the instance of a Scala object. */
    static Object module(String name, Object neighbour) {
        try {
            return type(name + "$", neighbour).getField("MODULE$").get(null);
        } catch (ReflectiveOperationException e) {
            throw new Unknown("there is no object " + name, e);
        }
    }

    /** Constructs an object by the public constructor that takes these arguments. */
    static Object make(Class<?> type, Object... arguments) {
        for (Constructor<?> constructor : type.getConstructors()) {
            if (!takes(constructor.getParameterTypes(), arguments)) continue;
            try {
                return constructor.newInstance(arguments);
            } catch (InvocationTargetException e) {
                throw failed(type.getName(), e);
            } catch (ReflectiveOperationException e) {
                throw new Unknown("no " + type.getName() + " can be made", e);
            }
        }
        throw new Unknown(type.getName() + " has no constructor for " + arguments.length + " arguments of these types", null);
    }

    private static boolean takes(Class<?>[] types, Object[] arguments) {
        if (types.length != arguments.length) return false;
        for (int at = 0; at < types.length; at++) {
            boolean simple = types[at] == boolean.class && arguments[at] instanceof Boolean
                    || types[at] == int.class && arguments[at] instanceof Integer;
            if (!simple && !types[at].isInstance(arguments[at])) return false;
        }
        return true;
    }

    /** Returns the exception to throw for a call that failed. */
    private static RuntimeException failed(String name, InvocationTargetException e) {
        return e.getCause() instanceof RuntimeException cause ? cause : new Unknown(name + " failed", e.getCause());
    }

    private static Method method(Class<?> type, String name) {
        try {
            Method method = type.getMethod(name);
            method.trySetAccessible(); // the class may not be public
            return method;
        } catch (NoSuchMethodException e) {
            throw new Unknown(type.getName() + " has no method " + name, e);
        }
    }
}
