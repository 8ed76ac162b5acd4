# Start Spark's Thrift Server in $SHARED/spark.
set -eu
umask 0
mkdir -p "$SHARED/spark"
cd "$SHARED/spark"
exec spark-submit --master 'local[2]' --driver-memory 1g \
    --conf spark.sql.warehouse.dir="$SHARED/spark/warehouse" \
    --conf spark.ui.enabled=false \
    --conf spark.sql.shuffle.partitions=2 \
    --conf spark.hadoop.fs.permissions.umask-mode=000 \
    --conf spark.hadoop.javax.jdo.option.ConnectionURL="jdbc:derby:;databaseName=$SHARED/spark/metastore;create=true" \
    --conf spark.hadoop.datanucleus.schema.autoCreateAll=true \
    --conf spark.hadoop.hive.metastore.schema.verification=false \
    --class org.apache.spark.sql.hive.thriftserver.HiveThriftServer2 spark-internal
