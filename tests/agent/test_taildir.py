"""Files that are rotated while they are read, by an agent that is killed: every line is in Logway."""

import os
import random
import shutil
import subprocess
import threading
import time

from agents import BrokerCase

from harness.logway import BINARY
from harness.seed import SEED
from harness.waiting import wait_until

FILES = 4
LINES = 2000
KILLS = 4
# So that a case is about a file that grows, and not about one that is there.
PAUSE_S, LINES_A_PAUSE = 0.02, 10
DEADLINE_S = 120


class Rotation(BrokerCase):
    def logway(self, *words: str) -> str:
        command = [BINARY, *words, "--brokers", self.broker.bootstrap]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def stored(self) -> list[str]:
        return self.logway("consume", "lines", "--exit-at-end").splitlines()

    def end_offset(self) -> int:
        return len(self.stored())

    def write(self, name: str, rotate):
        """Writes lines into one file, and has it rotated now and then."""
        path, chance = self.logs / f"{name}.log", random.Random(f"{SEED}{name}")
        rotations = 0
        file = path.open("a")
        for number in range(LINES):
            file.write(f"{name} {number} {'x' * chance.randrange(80)}\n")
            if chance.randrange(50) == 0:
                file.flush()
            if number % LINES_A_PAUSE == 0:
                time.sleep(PAUSE_S)
            if chance.randrange(400) == 0:
                file.flush()
                rotations += 1
                file = rotate(file, path, self.logs / f"{name}.log.{rotations}")
        file.close()

    def run_rotated(self, rotate, kills: int = KILLS):
        self.logs = self.made("logs")
        self.logway("topic", "create", "lines", "--partitions", "3")
        agent = self.tailing(self.logs).start()
        names = [f"f{number}" for number in range(FILES)]
        writers = [threading.Thread(target=self.write, args=(name, rotate)) for name in names]
        for writer in writers:
            writer.start()
        for _ in range(kills):
            before = self.end_offset()
            wait_until(lambda: self.end_offset() > before or not any(w.is_alive() for w in writers), "lines", DEADLINE_S)
            agent.kill()
            agent.start()
        for writer in writers:
            writer.join()
        expected = {f"{name} {number}" for name in names for number in range(LINES)}

        def missing() -> set[str]:
            return expected - {" ".join(line.split(" ")[:2]) for line in self.stored()}

        try:
            wait_until(lambda: not missing(), "every line", DEADLINE_S)
        except AssertionError:
            self.fail(f"{len(missing())} lines are missing, such as {sorted(missing())[:5]} (SEED={SEED})")
        print(f"{len(expected)} lines, {kills} kills: {self.end_offset() - len(expected)} came again (SEED={SEED})", flush=True)
        self.assertEqual(agent.stop(), 0)

    @staticmethod
    def rename(file, path, to):
        file.close()
        os.rename(path, to)
        return path.open("a")

    def test_renamed(self):
        self.run_rotated(self.rename)

    def test_renamed_without_kills_each_line_comes_once(self):
        self.run_rotated(self.rename, kills=0)
        self.assertEqual(self.end_offset(), FILES * LINES)

    def test_copied_and_truncated(self):
        def rotate(file, path, to):
            # Under another name first, as logrotate does not do it: so that the copy is there as a whole.
            shutil.copyfile(path, self.directory / to.name)
            os.rename(self.directory / to.name, to)
            file.truncate(0)
            return file

        self.run_rotated(rotate)
