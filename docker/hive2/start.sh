# Start HiveServer2 in $SHARED/hive2, where its log is too. Hive 2 casts its class loader to URLClassLoader, which
# Java's own class loader has not been since Java 9. Hadoop's launcher provides such a loader for all packages except
# Java's.
set -eu
umask 0
mkdir -p "$SHARED/hive2"
cd "$SHARED/hive2"
export HADOOP_USE_CLIENT_CLASSLOADER=true HADOOP_CLASSPATH="/opt/hive/conf:/opt/hive/lib/*" LC_ALL=C.UTF-8
export HADOOP_CLIENT_CLASSLOADER_SYSTEM_CLASSES=java.,javax.,jdk.,sun.,org.w3c.dom.,org.xml.sax.
opened=""
for package in java.lang java.lang.reflect java.lang.invoke java.io java.net java.nio java.util java.util.concurrent \
    java.util.concurrent.atomic java.util.regex java.time java.text sun.nio.ch sun.nio.cs sun.security.action \
    sun.util.calendar; do
    opened="$opened --add-opens=java.base/$package=ALL-UNNAMED"
done
# shellcheck disable=SC2086 # $opened is a list of options, one per word
exec java -Xmx768m $opened -Dshared="$SHARED" -Dhadoop.tmp.dir="$SHARED/hive2/unpacked" -cp "$HADOOP_CLASSPATH" \
    org.apache.hadoop.util.RunJar /opt/hive/lib/hive-service-2.3.10.jar org.apache.hive.service.server.HiveServer2 \
    >> log 2>&1
