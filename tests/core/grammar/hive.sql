---- Statements in Hive's words. What each is to be read as stands behind it: a value, None where Spark is to
---- read it, or an error and its text (a text that ends in .. is the beginning). T is TableName.

---- CREATE INDEX, clause by clause
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' WITH DEFERRED REBUILD;
--> CreateIndex(name="i", table=T("t"), columns=("a",), deferred=True)
create index Sales_Idx on table Shop.Sales (b, `c d`, A) as "bitmap";
--> CreateIndex(name="sales_idx", table=T("Sales", "Shop"), columns=("b", "c d", "A"))
CREATE INDEX i ON TABLE t(a) AS 'COMPACT' WITH DEFERRED REBUILD;
--> CreateIndex(name="i", table=T("t"), columns=("a",), type="COMPACT", deferred=True)
CREATE INDEX i ON TABLE t (a) AS 'org.apache.hadoop.hive.ql.index.compact.CompactIndexHandler';
--> CreateIndex(name="i", table=T("t"), columns=("a",), type="COMPACT")
CREATE INDEX i ON TABLE t (a) AS 'org.apache.hadoop.hive.ql.index.bitmap.BitmapIndexHandler';
--> CreateIndex(name="i", table=T("t"), columns=("a",))
CREATE INDEX IF NOT EXISTS i ON TABLE t (a) AS 'Bitmap';
--> CreateIndex(name="i", table=T("t"), columns=("a",), if_not_exists=True)
CREATE INDEX i ON t (a) AS 'BITMAP';
--> CreateIndex(name="i", table=T("t"), columns=("a",))
CREATE INDEX i ON t (a);
--> CreateIndex(name="i", table=T("t"), columns=("a",))
CREATE INDEX IF NOT EXISTS i ON TABLE db.t (a, b) WITH DEFERRED REBUILD IDXPROPERTIES ('encoding'='ewah') COMMENT 'c';
--> CreateIndex(name="i", table=T("t", "db"), columns=("a", "b"), if_not_exists=True, deferred=True, properties=(("encoding", "ewah"),), comment="c")
CREATE INDEX i ON TABLE spark_catalog.db.t (a) AS 'BITMAP';
--> CreateIndex(name="i", table=T("t", "db", "spark_catalog"), columns=("a",))
CREATE INDEX i ON TABLE `a.b`.`c``d` (a) AS 'BITMAP';
--> CreateIndex(name="i", table=T("c`d", "a.b"), columns=("a",))
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' IDXPROPERTIES ('encoding'='roaring', "COMPRESSION"="snappy");
--> CreateIndex(name="i", table=T("t"), columns=("a",), properties=(("encoding", "roaring"), ("compression", "snappy")))
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' IN TABLE x;
--> CreateIndex(name="i", table=T("t"), columns=("a",), index_table=T("x"))
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' IN TABLE db.x;
--> CreateIndex(name="i", table=T("t"), columns=("a",), index_table=T("x", "db"))
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' STORED AS PARQUET LOCATION '/w/i';
--> CreateIndex(name="i", table=T("t"), columns=("a",), location="/w/i")
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' ROW FORMAT SERDE 'org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe' WITH SERDEPROPERTIES ('x'='y') STORED AS INPUTFORMAT 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat' OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat';
--> CreateIndex(name="i", table=T("t"), columns=("a",))
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' TBLPROPERTIES ('owner'='ops', 'k'='');
--> CreateIndex(name="i", table=T("t"), columns=("a",), table_properties=(("owner", "ops"), ("k", "")))
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' COMMENT 'it''s "new"';
--> CreateIndex(name="i", table=T("t"), columns=("a",), comment="it's \"new\"")
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' COMMENT "one\ttab, it's \"new\" \u00e9 \101 \\ \q\Z";
--> CreateIndex(name="i", table=T("t"), columns=("a",), comment='one\ttab, it\'s "new" é A \\ q\x1a')
/* all of it */ CREATE INDEX i -- in the order of the grammar
ON TABLE db.t (a, b) AS 'BITMAP'
  WITH DEFERRED REBUILD
  IDXPROPERTIES ('encoding'='ewah')
  IN TABLE x
  STORED AS PARQUET
  LOCATION 'hdfs://nn:8020/w/i'
  TBLPROPERTIES ('k'='v')
  COMMENT 'c; d';
--> CreateIndex(name="i", table=T("t", "db"), columns=("a", "b"), deferred=True, properties=(("encoding", "ewah"),), index_table=T("x"), location="hdfs://nn:8020/w/i", table_properties=(("k", "v"),), comment="c; d")
CREATE INDEX index ON TABLE table.on (select) AS 'BITMAP';
--> CreateIndex(name="index", table=T("on", "table"), columns=("select",))

CREATE INDEX i ON TABLE t (a) AS 'aggregate' IDXPROPERTIES ('AGGREGATES'='count(a), sum(b)');
--> CreateIndex(name="i", table=T("t"), columns=("a",), type="AGGREGATE", properties=(("aggregates", "count(a), sum(b)"),))
CREATE INDEX i ON TABLE t (a) AS 'org.apache.hadoop.hive.ql.index.AggregateIndexHandler' WITH DEFERRED REBUILD;
--> CreateIndex(name="i", table=T("t"), columns=("a",), type="AGGREGATE", deferred=True)

---- CREATE INDEX that cannot be
CREATE INDEX i ON TABLE t (a) AS 'UNKNOWN' WITH DEFERRED REBUILD;
--> InvalidProperty: unknown index type 'UNKNOWN'; known: BITMAP, COMPACT, AGGREGATE
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' IDXPROPERTIES ('prop1'='val1');
--> CreateIndex(name="i", table=T("t"), columns=("a",), properties=(("prop1", "val1"),))
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' IDXPROPERTIES ('Encodng'='gap');
--> InvalidProperty: unknown property 'Encodng'; did you mean 'encoding'?
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' IDXPROPERTIES ('hive_bitmap.enabled'='false');
--> InvalidProperty: unknown property 'hive_bitmap.enabled'; did you mean 'enabled'?
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' TBLPROPERTIES ('hive_bitmap.encoding'='gap');
--> InvalidProperty: hive_bitmap.encoding cannot be set in TBLPROPERTIES: set it in IDXPROPERTIES, like ('encoding'='gap')
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' STORED AS RCFILE;
--> InvalidStatement: line 1, column 43: an index table is stored as Parquet and cannot be stored otherwise: leave it out
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' STORED BY 'org.apache.hadoop.hive.hbase.HBaseStorageHandler';
--> InvalidStatement: line 1, column 43: an index table is stored as Parquet and cannot..
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' STORED AS INPUTFORMAT 'a.B' OUTPUTFORMAT 'c.D';
--> InvalidStatement: line 1, column 43: an index table is stored as Parquet and cannot..
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' ROW FORMAT DELIMITED FIELDS TERMINATED BY ',';
--> InvalidStatement: line 1, column 43: an index table is Parquet and has no other ROW FORMAT: leave it out
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' ROW FORMAT SERDE 'a.B';
--> InvalidStatement: line 1, column 43: an index table is Parquet and has no other ROW FORMAT: leave it out
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' COMMENT 'c' WITH DEFERRED REBUILD;
--> InvalidStatement: line 1, column 55: mismatched input 'WITH', expecting one of WITH DEFERRED REBUILD, IDXPROPERTIES, IN TABLE, ROW FORMAT, STORED, LOCATION, TBLPROPERTIES, COMMENT in this order or the end
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' PARTITIONED BY (ds);
--> InvalidStatement: line 1, column 43: mismatched input 'PARTITIONED', expecting one of WITH DEFERRED REBUILD..
CREATE INDEX i ON TABLE t (a) OPTIONS ('k'='v');
--> InvalidStatement: line 1, column 31: mismatched input 'OPTIONS', expecting AS or one of WITH DEFERRED REBUILD..
CREATE INDEX i ON TABLE t;
--> InvalidStatement: line 1, column 26: mismatched input '<EOF>', expecting (
CREATE INDEX i ON TABLE t (a) AS BITMAP;
--> InvalidStatement: line 1, column 34: mismatched input 'BITMAP', expecting a quoted string
CREATE INDEX i ON TABLE t () AS 'BITMAP';
--> InvalidStatement: line 1, column 28: mismatched input ')', expecting a name
CREATE INDEX i ON TABLE t (a b) AS 'BITMAP';
--> InvalidStatement: line 1, column 30: mismatched input 'b', expecting , or )
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' WITH DEFERRED;
--> InvalidStatement: line 1, column 56: mismatched input '<EOF>', expecting REBUILD
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' IDXPROPERTIES ('encoding');
--> InvalidStatement: line 1, column 68: mismatched input ')', expecting =
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' IN x;
--> InvalidStatement: line 1, column 46: mismatched input 'x', expecting TABLE
CREATE INDEX
  i ON TABLE t (a)
  'BITMAP';
--> InvalidStatement: line 3, column 3: mismatched input ''BITMAP'', expecting AS or one of WITH DEFERRED REBUILD..
CREATE INDEX i FOR t;
--> InvalidStatement: line 1, column 16: mismatched input 'FOR', expecting ON TABLE or USING
CREATE INDEX `` ON TABLE t (a) AS 'BITMAP';
--> InvalidStatement: line 1, column 14: a name cannot be empty
CREATE INDEX i ON TABLE a.b.c.d (a) AS 'BITMAP';
--> InvalidStatement: line 1, column 25: a table is [catalog.][database.]table, but this name has 4 parts
CREATE INDEX i ON TABLE ${db}.t (a) AS 'BITMAP';
--> InvalidStatement: line 1, column 25: mismatched input '$', expecting a name
CREATE INDEX i ON TABLE t (a) AS 'BITMAP' COMMENT 'never ends;
--> InvalidStatement: line 1, column 51: this ' is not closed
CREATE INDEX i ON TABLE t (a) /* never ends;
--> InvalidStatement: line 1, column 31: this /* is not closed

---- ALTER INDEX
ALTER INDEX i ON t REBUILD;
--> RebuildIndex("i", T("t"))
ALTER INDEX I ON db.t PARTITION (ds='2008-04-08', hr=11) REBUILD;
--> RebuildIndex("i", T("t", "db"), (("ds", "2008-04-08"), ("hr", "11")))
ALTER INDEX i ON t PARTITION (`a b`=-1.5, n=NULL, h='__HIVE_DEFAULT_PARTITION__', d=DATE '2024-02-29', b=TRUE) REBUILD;
--> RebuildIndex("i", T("t"), (("a b", "-1.5"), ("n", None), ("h", None), ("d", "2024-02-29"), ("b", "true")))
ALTER INDEX i ON t SET IDXPROPERTIES ('encoding'='plain', 'comment'='');
--> SetProperties("i", T("t"), (("encoding", "plain"), ("comment", "")))
ALTER INDEX i ON t PARTITION (ds='x') SET IDXPROPERTIES ('enabled'='false');
--> SetProperties("i", T("t"), (("enabled", "false"),))
ALTER INDEX i ON t SET IDXPROPERTIES ('colour'='red');
--> SetProperties("i", T("t"), (("colour", "red"),))
ALTER INDEX i ON t SET TBLPROPERTIES ('a'='b');
--> InvalidStatement: line 1, column 20: mismatched input 'SET', expecting PARTITION or REBUILD or SET IDXPROPERTIES or RENAME TO
ALTER INDEX i ON t REBUILD NOW;
--> InvalidStatement: line 1, column 28: mismatched input 'NOW', expecting the end
ALTER INDEX i ON t PARTITION (ds) REBUILD;
--> InvalidStatement: line 1, column 33: mismatched input ')', expecting =
ALTER INDEX i ON t PARTITION (ds=now()) REBUILD;
--> InvalidStatement: line 1, column 34: mismatched input 'now', expecting a value
ALTER INDEX i REBUILD;
--> InvalidStatement: line 1, column 15: mismatched input 'REBUILD', expecting ON or RENAME TO

---- REFRESH INDEX
REFRESH INDEX i ON t;
--> RefreshIndex("i", T("t"))
refresh index if exists `I` on table db.t;
--> RefreshIndex("i", T("t", "db"), if_exists=True)
REFRESH INDEX i ON jdbc.db.t;
--> None
REFRESH INDEX i ON jdbc.db.t (and whatever);
--> None
REFRESH INDEX;
--> None
REFRESH TABLE t;
--> None
REFRESH INDEX i;
--> InvalidStatement: line 1, column 16: mismatched input '<EOF>', expecting ON
REFRESH INDEX i ON t PARTITION (p = 1);
--> InvalidStatement: line 1, column 22: mismatched input 'PARTITION', expecting the end

---- DROP INDEX
DROP INDEX i ON t;
--> DropIndex("i", T("t"))
DROP INDEX IF EXISTS i ON db.t
;
--> DropIndex("i", T("t", "db"), if_exists=True)
DROP INDEX i ON TABLE t;
--> DropIndex("i", T("t"))
DROP INDEX i ON jdbc.db.t;
--> None
DROP INDEX ON t;
--> InvalidStatement: line 1, column 15: mismatched input 't', expecting ON or WHERE or the end
DROP INDEX i ON t CASCADE;
--> InvalidStatement: line 1, column 19: mismatched input 'CASCADE', expecting WHERE or the end

---- SHOW INDEX
SHOW INDEX ON t;
--> ShowIndexes(T("t"))
SHOW FORMATTED INDEXES ON t;
--> ShowIndexes(T("t"))
SHOW FORMATTED INDEX ON db.t;
--> ShowIndexes(T("t", "db"))
SHOW INDEXES ON t FROM db;
--> ShowIndexes(T("t", "db"))
SHOW INDEXES ON t IN `d b`;
--> ShowIndexes(T("t", "d b"))
SHOW INDEXES ON a.t IN b;
--> InvalidStatement: line 1, column 24: the database is already given in a.t
SHOW FORMATTED INDEXES;
--> InvalidStatement: line 1, column 23: mismatched input '<EOF>', expecting ON
SHOW INDEX ON t LIKE 'x';
--> InvalidStatement: line 1, column 17: mismatched input 'LIKE', expecting FROM or the end

---- DROP TABLE and DROP DATABASE take the indexes along
DROP TABLE t;
--> DropTable(T("t"))
DROP TABLE IF EXISTS spark_catalog.`d b`.t PURGE;
--> DropTable(T("t", "d b", "spark_catalog"), if_exists=True, purge=True)
DROP TABLE jdbc.db.t;
--> None
DROP TABLE IDENTIFIER('t');
--> None
DROP TABLE t CASCADE;
--> None
DROP DATABASE IF EXISTS db CASCADE;
--> DropDatabase("db", if_exists=True)
DROP SCHEMA spark_catalog.db CASCADE;
--> DropDatabase("db", "spark_catalog")
DROP NAMESPACE jdbc.db CASCADE;
--> None
DROP DATABASE db;
--> None
DROP DATABASE db RESTRICT;
--> None
DROP DATABASE a.b.c CASCADE;
--> None

---- Spark's own
SELECT 1;
--> None
WITH drop AS (SELECT 'CREATE INDEX i ON TABLE t (a)') SELECT * FROM drop;
--> None
CREATE TABLE index (a int);
--> None
CREATE INDEX i ON jdbc.db.t (a);
--> None
CREATE INDEX i ON TABLE jdbc.db.t USING btree (a) OPTIONS (x = 'y');
--> None
SHOW TABLES;
--> None
SHOW FORMATTED TABLES;
--> None
ALTER TABLE t RENAME TO u;
--> None
DROP VIEW i;
--> None
UPDATE index SET a = 1;
--> None
SELECT 'never ends;
--> None
