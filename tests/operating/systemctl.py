"""Takes the place of systemctl for the test of docs/OPERATING.md: one service, below the directory $ROOT.

It does what the unit that was installed there says: runs its ExecStart, waits until the broker says that it is ready,
and ends it with SIGTERM. Users, limits and the rest of the unit are systemd's, and not tried here.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from relocation import relocated
from supervisor import Supervisor

ROOT = Path(os.environ["ROOT"])
UNIT = ROOT / "etc/systemd/system/logway.service"
PID_FILE = ROOT / "pid"
DEADLINE_S = 60


def start():
    lines = UNIT.read_text().splitlines()
    assert "Type=notify" in lines
    (command,) = [line.removeprefix("ExecStart=") for line in lines if line.startswith("ExecStart=")]
    # The settings name places of the whole system; what they are here is written beside them.
    config = ROOT / "etc/logway/logway.toml"
    config.with_suffix(".relocated").write_text(relocated(config.read_text(), ROOT))
    command = relocated(command, ROOT).replace(str(config), str(config.with_suffix(".relocated")))
    socket = ROOT / "notify"
    socket.unlink(missing_ok=True)
    supervisor = Supervisor(socket)
    # Of the service, not of who starts it: that one ends, and its output with it.
    with (ROOT / "log").open("ab") as log:
        broker = subprocess.Popen(command.split(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  env=supervisor.environment, start_new_session=True)
    PID_FILE.write_text(str(broker.pid))
    assert supervisor.next_state(broker) == "READY=1"


def stop():
    pid = int(PID_FILE.read_text())
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + DEADLINE_S
    while is_running(pid):
        assert time.monotonic() < deadline, "the broker does not end"
        time.sleep(0.01)
    PID_FILE.unlink()


def is_running(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    # Who started it may not have noticed yet that it has ended.
    return status.rsplit(")", 1)[1].split()[0] != "Z"


def main(words: list[str]):
    match words:
        case ["daemon-reload"]:
            pass
        case ["enable", "--now", "logway"] | ["start", "logway"]:
            start()
        case ["disable", "--now", "logway"] | ["stop", "logway"]:
            stop()
        case ["show", "--property", "MainPID", "--value", "logway"]:
            print(PID_FILE.read_text())
        case ["restart", "logway"]:
            stop()
            start()
        case _:
            raise SystemExit(f"systemctl {' '.join(words)} is not known here")


if __name__ == "__main__":
    main(sys.argv[1:])
