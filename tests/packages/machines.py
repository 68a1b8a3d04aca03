"""Machines with a package: copies of this system, each with a network address, processes and a service of its own.

What is changed on them is in memory and goes with them. There is no systemd: a script that does what the unit says has its place.
"""

import subprocess
from pathlib import Path

HERE = Path(__file__).parent
COMMAND_S = 300

# $1 is the package, $2 the directory of this file. The first process of the machine takes away what has ended.
MACHINE = """
copy=$(mktemp -d)
mount --make-rprivate /
mount -t tmpfs copy "$copy"
mkdir "$copy"/{changed,work,root}
mount -t overlay copy -o "lowerdir=/,upperdir=$copy/changed,workdir=$copy/work" "$copy/root"
mount -t proc proc "$copy/root/proc"
mount --rbind /dev "$copy/root/dev"
mount -t tmpfs run "$copy/root/run"
cp "$1" "$copy/root/root/"
install -m 755 "$2/systemctl" "$copy/root/usr/local/bin/systemctl"
ip link set lo up
exec chroot "$copy/root" bash -c 'echo started; while :; do sleep 60 & wait $!; done'
"""
SWITCH = "ip link set lo up; ip link add br0 type bridge; ip link set br0 up; echo started; exec sleep infinity"
ENVIRONMENT = {"HOME": "/root", "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM": "dumb"}


class Machines:
    """So many machines on one network, 10.0.0.1 and on; they end with the block."""

    def __init__(self, count: int, package: Path):
        self.count, self.package = count, package
        self.holders: list[subprocess.Popen] = []

    def __enter__(self):
        try:
            switch = self._hold("--net", "bash", "-ec", SWITCH)
            self.first_processes = [self._machine() for _ in range(self.count)]
            for number, process in enumerate(self.first_processes, 1):
                self._in_network(switch.pid, "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", str(process))
                self._in_network(switch.pid, "link", "set", f"v{number}", "master", "br0", "up")
                self._in_network(process, "addr", "add", f"10.0.0.{number}/24", "dev", "eth0")
                self._in_network(process, "link", "set", "eth0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for holder in self.holders:
            holder.kill()
            holder.wait()
            holder.stdout.close()

    def _hold(self, *command: str) -> subprocess.Popen:
        """A process that keeps namespaces, once it says that they are there."""
        holder = subprocess.Popen(["unshare", "--kill-child", *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.holders.append(holder)
        said = holder.stdout.readline()
        if said != "started\n":
            raise AssertionError(f"this system makes no namespaces: {said}{holder.stdout.read()}")
        return holder

    def _machine(self) -> int:
        """Makes one; returns the number of its first process."""
        holder = self._hold("--mount", "--net", "--pid", "--fork", "bash", "-euc", MACHINE, "machine", str(self.package), str(HERE))
        return int(Path(f"/proc/{holder.pid}/task/{holder.pid}/children").read_text().split()[0])

    @staticmethod
    def _in_network(process: int, *what: str):
        subprocess.run(["nsenter", "--target", str(process), "--net", "ip", *what], check=True, capture_output=True)

    def run(self, number: int, script: str) -> str:
        """What root's commands print on a machine, numbered from 1, which fails at the first that does not succeed."""
        inside = ["nsenter", "--target", str(self.first_processes[number - 1]), "--mount", "--net", "--pid", "--root", "--wd"]
        command = [*inside, "bash", "-euc", f"cd /root\n{script}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, env=ENVIRONMENT, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise AssertionError(f"machine {number} ended with {done.returncode}:\n{script}\n{done.stdout}{done.stderr}")
        return done.stdout
