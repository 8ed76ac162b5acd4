---- Statements in openLooKeng's words; how to read this file is said in hive.sql. O is Dialect.OPENLOOKENG.

---- CREATE INDEX, clause by clause
CREATE INDEX i USING bitmap ON t (a);
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O)
CREATE INDEX cube USING aggregate ON t (a, b) WITH (aggregates = 'sum(c)');
--> CreateIndex(name="cube", table=T("t"), columns=("a", "b"), type="AGGREGATE", dialect=O, properties=(("aggregates", "sum(c)"),))
create index if not exists HDFS using BITMAP on hive.Shop.Sales (a, "b c");
--> CreateIndex(name="hdfs", table=T("Sales", "Shop", "hive"), columns=("a", "b c"), dialect=O, if_not_exists=True)
CREATE INDEX "i" USING bitmap ON "hive"."db"."t" ("a");
--> CreateIndex(name="i", table=T("t", "db", "hive"), columns=("a",), dialect=O)
CREATE INDEX i USING bitmap ON t (a) WITH (encoding = gap, 'compression' = 'snappy', "comment" = "c d");
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, properties=(("encoding", "gap"), ("compression", "snappy"), ("comment", "c d")))
CREATE INDEX i USING bitmap ON t (a) WITH (level='stripe', autoload = true, bitmap.values_per_node = 64);
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, properties=(("level", "stripe"), ("autoload", "true"), ("bitmap.values_per_node", "64")))
CREATE INDEX i USING bitmap ON t (a) WITH ("level"='UNDEFINED', 'bitmap.values_per_node'='64', 'autoload'='FALSE');
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, properties=(("level", "UNDEFINED"), ("bitmap.values_per_node", "64"), ("autoload", "FALSE")))
CREATE INDEX i USING bitmap ON t (a) WITH (encoding='ewah') WHERE p = 1;
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, properties=(("encoding", "ewah"),), where=Where("`p` = 1", ("p",)))

---- WHERE as it was
CREATE INDEX i USING bitmap ON t (a) WHERE p = 'it''s';
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, where=Where("`p` = CAST(X'69742773' AS STRING)", ("p",)))
CREATE INDEX i USING bitmap ON t (a) WHERE p = 1 OR p = 2 or p=-3;
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, where=Where("`p` = 1 OR `p` = 2 OR `p` = -3", ("p",)))
CREATE INDEX i USING bitmap ON t (a) WHERE "p" IN (1, 2, 3);
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, where=Where("`p` IN (1, 2, 3)", ("p",)))
CREATE INDEX i USING bitmap ON t (a) WHERE (p = 1 OR (p IN ('x'))) OR p=true;
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, where=Where("(`p` = 1 OR (`p` IN ('x'))) OR `p` = TRUE", ("p",)))
CREATE INDEX i USING bitmap ON t (a) WHERE p = DATE '2021-01-01' OR p = bigint '5' OR p = varchar 'x';
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, where=Where("`p` = DATE '2021-01-01' OR `p` = CAST('5' AS BIGINT) OR `p` = CAST('x' AS STRING)", ("p",)))
CREATE INDEX i USING bitmap ON t (a) WHERE p = 'a\nb';
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, where=Where("`p` = CAST(X'615c6e62' AS STRING)", ("p",)))

---- WHERE beyond that
CREATE INDEX i USING bitmap ON t (a) WHERE p > 1 AND p <= 5.5 AND q <> 'x' OR q != 'y' OR q >= 'z' AND p < 0;
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, where=Where("`p` > 1 AND `p` <= 5.5 AND `q` <> 'x' OR `q` != 'y' OR `q` >= 'z' AND `p` < 0", ("p", "q")))
CREATE INDEX i USING bitmap ON t (a) WHERE p BETWEEN 1 AND 3 AND NOT (q NOT BETWEEN 'a' AND 'b') AND r NOT IN (1);
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, where=Where("`p` BETWEEN 1 AND 3 AND NOT (`q` NOT BETWEEN 'a' AND 'b') AND `r` NOT IN (1)", ("p", "q", "r")))
CREATE INDEX i USING bitmap ON t (a) WHERE p IS NULL OR NOT NOT q IS NOT NULL;
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, where=Where("`p` IS NULL OR NOT NOT `q` IS NOT NULL", ("p", "q")))

---- WHERE that cannot be
CREATE INDEX i USING bitmap ON t (a) WHERE f(p) = 1;
--> InvalidStatement: line 1, column 45: mismatched input '(' in WHERE, which takes partition columns, compared with literals (=, <>, <, <=, >, >=, IN, BETWEEN, IS NULL), joined by AND, OR and NOT
CREATE INDEX i USING bitmap ON t (a) WHERE p = q;
--> InvalidStatement: line 1, column 48: mismatched input 'q' in WHERE, which takes ..
CREATE INDEX i USING bitmap ON t (a) WHERE p = "q";
--> InvalidStatement: line 1, column 48: mismatched input '"q"' in WHERE, which takes ..
CREATE INDEX i USING bitmap ON t (a) WHERE 1 = p;
--> InvalidStatement: line 1, column 44: mismatched input '1' in WHERE, which takes ..
CREATE INDEX i USING bitmap ON t (a) WHERE p LIKE 'x%';
--> InvalidStatement: line 1, column 46: mismatched input 'LIKE' in WHERE, which takes ..
CREATE INDEX i USING bitmap ON t (a) WHERE p IN (SELECT 1);
--> InvalidStatement: line 1, column 50: mismatched input 'SELECT' in WHERE, which takes ..
CREATE INDEX i USING bitmap ON t (a) WHERE p = 1 + 1;
--> InvalidStatement: line 1, column 50: mismatched input '+' in WHERE, which takes ..
CREATE INDEX i USING bitmap ON t (a) WHERE p = NULL;
--> InvalidStatement: line 1, column 48: mismatched input 'NULL' in WHERE, which takes ..
CREATE INDEX i USING bitmap ON t (a) WHERE p = -'x';
--> InvalidStatement: line 1, column 49: mismatched input ''x'' in WHERE, which takes ..
CREATE INDEX i USING bitmap ON t (a) WHERE (p = 1;
--> InvalidStatement: line 1, column 50: mismatched input '<EOF>' in WHERE, which takes ..
CREATE INDEX i USING bitmap ON t (a) WHERE;
--> InvalidStatement: line 1, column 43: mismatched input '<EOF>' in WHERE, which takes ..
CREATE INDEX i USING bitmap ON t (a) WHERE p BETWEEN 1 OR 2;
--> InvalidStatement: line 1, column 56: mismatched input 'OR' in WHERE, which takes ..

---- CREATE INDEX that cannot be
CREATE INDEX i USING bloom ON t (a);
--> Unsupported: index type BLOOM is not supported: use USING bitmap, which answers the same predicates
CREATE INDEX i USING MINMAX ON t (a) WHERE p = 1;
--> Unsupported: index type MINMAX is not supported: ..
CREATE INDEX i USING btree ON t (a);
--> Unsupported: index type BTREE is not supported: ..
CREATE INDEX i USING wrong_filter ON t (a);
--> InvalidStatement: line 1, column 22: mismatched input 'wrong_filter', expecting BITMAP or AGGREGATE
CREATE INDEX i USING bitmap ON t ();
--> InvalidStatement: line 1, column 35: mismatched input ')', expecting a name
CREATE INDEX i USING bitmap ON t;
--> InvalidStatement: line 1, column 33: mismatched input '<EOF>', expecting (
CREATE INDEX i USING bitmap t (a);
--> InvalidStatement: line 1, column 29: mismatched input 't', expecting ON
CREATE INDEX i USING bitmap ON mysql.db.t (a);
--> Unsupported: table mysql.db.t is in catalog 'mysql', which has no bitmap indexes
CREATE INDEX i USING bitmap ON t ("p=1");
--> Unsupported: a partition cannot be a column of an index: choose partitions with WHERE
CREATE INDEX i USING bitmap ON t (a) WHERE p = 1 WITH (encoding=gap);
--> InvalidStatement: line 1, column 50: mismatched input 'WITH' in WHERE, which takes ..
CREATE INDEX i USING bitmap ON t (a) AS 'BITMAP';
--> InvalidStatement: line 1, column 38: mismatched input 'AS', expecting WITH or WHERE or the end
CREATE INDEX i USING bitmap ON t (a) WITH ();
--> InvalidStatement: line 1, column 44: mismatched input ')', expecting a name
CREATE INDEX i USING bitmap ON t (a) WITH (encoding);
--> InvalidStatement: line 1, column 52: mismatched input ')', expecting =
CREATE INDEX i USING bitmap ON t (a) WITH (encoding = );
--> InvalidStatement: line 1, column 55: mismatched input ')', expecting a value
CREATE INDEX i USING bitmap ON t (a) WITH (level='partition');
--> InvalidProperty: unknown level 'partition'; known: stripe
CREATE INDEX i USING bitmap ON t (a) WITH (autoload=maybe);
--> InvalidProperty: unknown value of autoload 'maybe'; known: true, false
CREATE INDEX i USING bitmap ON t (a) WITH (bitmap.values_per_node=many);
--> InvalidProperty: bitmap.values_per_node is 'many', which is not a number
CREATE INDEX i USING bitmap ON t (a) WITH ('bloom.fpp'='0.001');
--> CreateIndex(name="i", table=T("t"), columns=("a",), dialect=O, properties=(("bloom.fpp", "0.001"),))
CREATE INDEX i USING bitmap ON t (a) WITH (encodings=gap);
--> InvalidProperty: unknown property 'encodings'; did you mean 'encoding'?

---- UPDATE INDEX
UPDATE INDEX i;
--> RebuildIndex("i")
UPDATE INDEX IF EXISTS "I";
--> RebuildIndex("i", if_exists=True)
UPDATE INDEX i ON t;
--> RebuildIndex("i", T("t"))
UPDATE INDEX i WHERE p = 1;
--> InvalidStatement: line 1, column 16: mismatched input 'WHERE', expecting ON or the end
UPDATE INDEX;
--> InvalidStatement: line 1, column 13: mismatched input '<EOF>', expecting a name
UPDATE index SET a = 1;
--> None
UPDATE index i SET a = 1;
--> None
UPDATE index AS i SET a = 1;
--> None
UPDATE index.t SET a = 1;
--> None
UPDATE `index` SET a = 1;
--> None

---- ALTER INDEX
ALTER INDEX a RENAME TO b;
--> RenameIndex("a", "b")
ALTER INDEX IF EXISTS A RENAME TO "B";
--> RenameIndex("a", "b", if_exists=True)
ALTER INDEX a ON t RENAME TO b;
--> RenameIndex("a", "b", T("t"))
ALTER INDEX a RENAME b;
--> InvalidStatement: line 1, column 22: mismatched input 'b', expecting TO
ALTER INDEX a RENAME TO b.c;
--> InvalidStatement: line 1, column 26: mismatched input '.', expecting the end

---- DROP INDEX
DROP INDEX i;
--> DropIndex("i")
DROP INDEX IF EXISTS HDFS;
--> DropIndex("hdfs", if_exists=True)
DROP INDEX i WHERE p = 1 OR p IN (2, 3);
--> DropIndex("i", where=Where("`p` = 1 OR `p` IN (2, 3)", ("p",)))
DROP INDEX i ON hive.db.t WHERE p = 1;
--> DropIndex("i", T("t", "db", "hive"), where=Where("`p` = 1", ("p",)))
DROP INDEX i, j;
--> InvalidStatement: line 1, column 13: mismatched input ',', expecting ON or WHERE or the end

---- SHOW INDEX
SHOW INDEX;
--> ShowIndexes()
SHOW INDEX I;
--> ShowIndexes(name="i")
SHOW INDEX IF EXISTS i;
--> ShowIndexes(name="i")
SHOW INDEX i j;
--> InvalidStatement: line 1, column 14: mismatched input 'j', expecting the end
