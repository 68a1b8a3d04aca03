"""A NameNode and a DataNode of Hadoop in one process, and what is in their files."""

import json
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from agents import AgentProcess

from harness.broker import TESTS
from harness.ports import free_port

HERE = Path(__file__).parent
JARS = TESTS / ".work" / "agent" / "hdfs"
DEADLINE_S = 60
# Programs that run for seconds are not worth to be compiled twice.
JAVA = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]


class HdfsCluster(AgentProcess):
    """Its files stay when it is killed and started again, at the same ports."""

    # It takes 16 s on a quiet machine.
    ready_s_max = 600

    def __init__(self, case, directory: Path):
        subprocess.run([TESTS / "harness" / "maven", HERE / "hdfs" / "pom.xml", "dependency:copy-dependencies"], check=True)
        super().__init__(case, directory, "hdfs", "")
        self.port, self.http_port, self.data_port = free_port(), free_port(), free_port()
        self.data = directory / "data"
        self.details = directory / "details.json"
        self.url = f"hdfs://127.0.0.1:{self.port}"

    def command(self):
        first = [] if self.data.exists() else ["-format"]
        self.details.unlink(missing_ok=True)
        ports = ["-nnport", str(self.port), "-httpport", str(self.http_port), "-datanodes", "1"]
        return [*JAVA, "-Xmx256m", f"-Dtest.build.data={self.data}", "-cp", f"{JARS}/*", "org.apache.hadoop.test.MiniDFSClusterManager", *first, *ports, "-writeDetails", str(self.details)]

    def is_ready(self, log: str) -> bool:
        return self.details.exists()

    def ask(self, path: str, operation: str) -> bytes:
        url = f"http://127.0.0.1:{self.http_port}/webhdfs/v1{path}?op={operation}"
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:
            return answer.read()

    def files(self, directory: str) -> list[str]:
        """The paths of all files below a directory, with those that grow."""
        try:
            listed = json.loads(self.ask(directory, "LISTSTATUS"))["FileStatuses"]["FileStatus"]
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return []
            raise
        found = []
        for entry in listed:
            path = f"{directory}/{entry['pathSuffix']}"
            found += self.files(path) if entry["type"] == "DIRECTORY" else [path]
        return found

    def read(self, path: str) -> bytes:
        """What is in a file, as far as readers see it."""
        return self.ask(path, "OPEN")

    def lines(self, directory: str) -> list[str]:
        """The lines of all files below a directory. One that is being renamed, or whose end is being recovered, is left out."""
        found = []
        for path in self.files(directory):
            try:
                found += self.read(path).decode().splitlines()
            except urllib.error.HTTPError:
                continue
        return found

    def recover(self, path: str):
        """Has a file ended that nobody writes any more, as the NameNode does it by itself after twenty minutes."""
        # The NameNode begins a recovery that failed again after 90 s (PendingRecoveryBlocks); a retry comes after 5 s.
        self.hadoop("org.apache.hadoop.hdfs.tools.DebugAdmin", "recoverLease", "-path", path, "-retries", "60")

    def text(self, pattern: str) -> list[str]:
        """The lines of files as Hadoop's own shell unpacks them."""
        return self.hadoop("org.apache.hadoop.fs.FsShell", "-text", pattern).splitlines()

    def hadoop(self, *words: str) -> str:
        """What one of Hadoop's programs prints."""
        configuration = self.file.parent / "configuration"
        configuration.mkdir(exist_ok=True)
        address = f"<property><name>fs.defaultFS</name><value>{self.url}</value></property>"
        (configuration / "core-site.xml").write_text(f"<configuration>{address}</configuration>\n")
        command = [*JAVA, "-cp", f"{configuration}:{JARS}/*", *words]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout
