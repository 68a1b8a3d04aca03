"""Two hundred files that `logrotate` rotates while an agent reads them and is killed: every line is in Logway."""

import os
import random
import subprocess
import threading

from agents import BrokerCase, libraries_of, needed

from harness.logway import BINARY
from harness.seed import SEED
from harness.waiting import wait_until

FILES = 200
# LOGROTATE_BYTES=2000000000 is for a night, not for each change.
BYTES = int(os.environ.get("LOGROTATE_BYTES", 20_000_000))
ROTATIONS, KILLS = 6, 4
LINE_BYTES = 100
LINES = BYTES // LINE_BYTES // FILES
DEADLINE_S = 300 + BYTES // 1_000_000


class Logrotate(BrokerCase):
    def setUp(self):
        super().setUp()
        self.unpacked = needed("logrotate")
        self.logs = self.made("logs")
        self.paths = [self.logs / f"{number:03}.log" for number in range(FILES)]

    def write(self, is_renamed: bool):
        """All files at once, a few lines each in turn. A file that was renamed is opened again, as daemons do it upon their signal."""
        chance = random.Random(SEED)
        files = [path.open("a") for path in self.paths]
        written = [0] * FILES
        while True:
            going = [number for number in range(FILES) if written[number] < LINES]
            if not going:
                break
            # While a file is copied and truncated nothing is written: what is written between the two is lost with any reader.
            with self.rotating:
                for number in going:
                    upto = min(LINES, written[number] + chance.randrange(1, 50))
                    files[number].write("".join(f"{number:03} {line:08} {'x' * (LINE_BYTES - 14)}\n" for line in range(written[number], upto)))
                    files[number].flush()
                    self.lines_written += upto - written[number]
                    written[number] = upto
                if is_renamed and self.is_rotated:
                    self.is_rotated = False
                    for file in files:
                        file.close()
                    files = [path.open("a") for path in self.paths]
        for file in files:
            file.close()

    def rotate(self, how: str):
        configuration, state = self.directory / "logrotate.conf", self.directory / "logrotate.state"
        configuration.write_text(f"{self.logs}/*.log {{\n rotate 100\n {how}\n missingok\n su root root\n}}\n")
        program = self.unpacked / "usr/sbin/logrotate"
        with self.rotating:
            subprocess.run([program, "--force", "--state", state, configuration], check=True, env=libraries_of(self.unpacked))
            self.is_rotated = True

    def counts(self) -> list[bytearray]:
        """How often each line of each file is in the topic."""
        counts = [bytearray(LINES) for _ in range(FILES)]
        command = [BINARY, "consume", "lines", "--exit-at-end", "--brokers", self.broker.bootstrap]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as consumer:
            for line in consumer.stdout:
                file, number, _ = line.split(" ")
                counts[int(file)][int(number)] = min(255, counts[int(file)][int(number)] + 1)
        return counts

    def run_rotated(self, how: str, kills: int) -> int:
        """How many lines came more than once."""
        self.rotating, self.is_rotated, self.lines_written = threading.Lock(), False, 0
        subprocess.run([BINARY, "topic", "create", "lines", "--partitions", "3", "--brokers", self.broker.bootstrap], check=True, capture_output=True)
        for path in self.paths:
            path.touch()
        agent = self.tailing(self.logs, "flumeBatchSize = 1000\n").start()
        writer = threading.Thread(target=self.write, args=("copytruncate" not in how,))
        writer.start()
        steps = [("rotate", step) for step in range(1, ROTATIONS + 1)] + [("kill", step + 0.5) for step in range(1, kills + 1)]
        for what, step in sorted(steps, key=lambda one: one[1]):
            share = int(LINES * FILES * step / (ROTATIONS + 1))
            wait_until(lambda share=share: self.lines_written >= share, "lines to be written", DEADLINE_S)
            if what == "rotate":
                self.rotate(how)
            else:
                agent.kill()
                agent.start()
        writer.join()

        def missing() -> list[tuple[int, int]]:
            counts = self.counts()
            return [(file, line) for file in range(FILES) for line in range(LINES) if counts[file][line] == 0]

        try:
            wait_until(lambda: not missing(), "every line", DEADLINE_S)
        except AssertionError:
            lost = missing()
            files = len({file for file, _ in lost})
            self.fail(f"{len(lost)} lines of {files} files are missing, such as {lost[:3]} and {lost[-3:]} (SEED={SEED})")
        wait_until(lambda: agent.count("CHANNEL.c", "ChannelSize") == 0, "the channel to be empty", DEADLINE_S)
        again = sum(sum(of_file) - LINES for of_file in self.counts())
        print(f"{LINES * FILES} lines of {FILES} files, {ROTATIONS} rotations ({how}), {kills} kills: {again} came again (SEED={SEED})", flush=True)
        self.assertEqual(agent.stop(), 0)
        return again

    def test_renamed(self):
        self.run_rotated("nocreate", KILLS)

    def test_copied_and_truncated(self):
        self.run_rotated("copytruncate", KILLS)

    def test_each_line_comes_once_without_kills(self):
        self.assertEqual(self.run_rotated("nocreate", 0), 0)
