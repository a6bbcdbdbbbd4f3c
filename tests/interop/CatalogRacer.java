import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.data.parquet.GenericParquetWriter;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.rest.RESTCatalog;

/**
 * Threads that append to one table through a REST catalog, each with a client of its own; retries are off by the
 * table's properties. Arguments: URI, table, how (fast, merging or transaction), threads, appends of each. A row's id
 * is the thread's number times 1000 plus that of the append. Any refused commit ends the program with an exception.
 */
public final class CatalogRacer {
  public static void main(String[] args) throws Exception {
    int threads = Integer.parseInt(args[3]);
    int appends = Integer.parseInt(args[4]);
    CountDownLatch start = new CountDownLatch(threads);
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    List<Future<?>> running = new ArrayList<>();
    for (int thread = 0; thread < threads; thread++) {
      int writer = thread;
      running.add(pool.submit(() -> {
        append(args[0], TableIdentifier.parse(args[1]), args[2], writer, appends, start);
        return null;
      }));
    }
    pool.shutdown();
    for (Future<?> one : running) {
      one.get();
    }
  }

  private static void append(
      String uri, TableIdentifier name, String how, int writer, int appends, CountDownLatch start) throws Exception {
    try (RESTCatalog catalog = new RESTCatalog()) {
      catalog.setConf(new Configuration());
      catalog.initialize("race", Map.of("uri", uri));
      Table table = catalog.loadTable(name);
      start.countDown();
      start.await();
      for (int turn = 0; turn < appends; turn++) {
        DataFile file = write(table, writer * 1000L + turn, writer);
        switch (how) {
          case "fast" -> table.newFastAppend().appendFile(file).commit();
          case "merging" -> table.newAppend().appendFile(file).commit();
          case "transaction" -> {
            Transaction transaction = table.newTransaction();
            transaction.newAppend().appendFile(file).commit();
            transaction.updateProperties().set("writer-" + writer, "" + turn).commit();
            transaction.commitTransaction();
          }
          default -> throw new IllegalArgumentException(how);
        }
      }
    }
  }

  private static DataFile write(Table table, long id, int writer) throws Exception {
    Record row = GenericRecord.create(table.schema());
    row.setField("id", id);
    row.setField("writer", "" + writer);
    String path = table.locationProvider().newDataLocation(UUID.randomUUID() + ".parquet");
    DataWriter<Record> out =
        Parquet.writeData(table.io().newOutputFile(path))
            .forTable(table)
            .createWriterFunc(type -> GenericParquetWriter.create(table.schema(), type))
            .build();
    try (out) {
      out.write(row);
    }
    return out.toDataFile();
  }
}
