import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;

/**
 * The local file system with the rename of HDFS: it fails where the target exists. Hadoop's own looks first and then
 * renames over whatever has come there since.
 */
public class NoOverwriteFileSystem extends LocalFileSystem {
  public NoOverwriteFileSystem() {
    super(new Raw());
    setVerifyChecksum(false);
    setWriteChecksum(false);
  }

  private static class Raw extends RawLocalFileSystem {
    @Override
    public boolean rename(Path source, Path target) throws IOException {
      if (!pathToFile(source).isFile()) {
        return super.rename(source, target);
      }
      try {
        Files.createLink(pathToFile(target).toPath(), pathToFile(source).toPath());
      } catch (FileAlreadyExistsException taken) {
        return false;
      }
      return pathToFile(source).delete();
    }
  }
}
