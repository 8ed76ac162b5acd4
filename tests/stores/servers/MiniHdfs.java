import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** A name node and a data node in one process: java -cp JARS MiniHdfs.java FOLDER PORT. */
public class MiniHdfs {
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    conf.set("hdfs.minidfs.basedir", arguments[0]);
    conf.set("dfs.replication", "1");
    conf.set("dfs.namenode.acls.enabled", "true");
    conf.set("dfs.namenode.fs-limits.min-block-size", "1024");
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(1)
        .nameNodePort(Integer.parseInt(arguments[1])).format(true).build();
    cluster.waitActive();
    System.out.println("READY " + cluster.getURI());
    Thread.currentThread().join();
  }
}
