//! What processes take of the machine, from `/proc`.

use std::fs;

use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::machine::load_average;

/// The kernel counts CPU time of a process in ticks, mostly of 10 ms, and each end of a window may be one off: of fewer
/// ticks than these that would be more than a tenth.
pub(crate) const CPU_TICKS_MIN: u32 = 20;

/// CPU time at one moment, to be compared with a later one.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    broker_pids: Vec<u32>,
    /// Of the generator's thread, or of the process.
    generator_clock: ClockId,
    broker_cpu_seconds: Option<f64>,
    generator_cpu_seconds: f64,
    generator_queued_seconds: f64,
    machine: Option<MachineTime>,
    memory: Option<ProcessMemory>,
}

/// Time of all processors of the machine together.
#[derive(Debug, Clone, Copy, PartialEq)]
struct MachineTime {
    busy_seconds: f64,
    idle_seconds: f64,
}

/// What was used between two moments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Usage {
    /// CPU seconds of the broker's processes; unknown if they run elsewhere, or one has ended.
    pub broker_cpu_seconds: Option<f64>,
    /// CPU seconds of the generator's thread, or its processes' threads; of its process, where a program's
    /// client makes the load.
    pub generator_cpu_seconds: f64,
    /// Seconds in which that thread, or the busiest of those, was working, or had records to fetch and batches
    /// to encode and waited for a file or a processor. Of several all that they waited for a processor: they take them
    /// from each other.
    pub generator_busy_seconds: f64,
    /// Seconds in which that thread, or all of those, were ready to go on and waited for a processor; 0 where the kernel
    /// does not say.
    pub generator_queued_seconds: f64,
    /// CPU seconds of everybody else on the machine.
    pub others_cpu_seconds: Option<f64>,
    /// How much of the time the machine's processors were busy, all of them together: from 0 to 1. What
    /// the host of a virtual machine took away is in it.
    pub machine_busy: Option<f64>,
    /// Processes that wanted to run, or waited for a disk, averaged over the minute before the end.
    pub load_average: Option<f64>,
    /// The broker's memory at the beginning.
    pub memory_before: Option<ProcessMemory>,
    /// And at the end.
    pub memory: Option<ProcessMemory>,
}

/// Resident memory of a process, or of several together, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct ProcessMemory {
    /// Now. Pages that several of the processes share, as those of their program, count once.
    pub resident_bytes: u64,
    /// The most since it was started; of several the sum of what each had at some moment.
    pub peak_bytes: u64,
}

impl Snapshot {
    /// Looks at the broker, if it runs here, the machine, and the calling thread, which makes the
    /// load.
    pub(crate) fn take(broker_pids: &[u32]) -> Snapshot {
        Snapshot::by_clock(broker_pids, ClockId::ThreadCPUTime)
    }

    /// The same where any thread of this process may make the load.
    pub(crate) fn of_process(broker_pids: &[u32]) -> Snapshot {
        Snapshot::by_clock(broker_pids, ClockId::ProcessCPUTime)
    }

    fn by_clock(broker_pids: &[u32], generator_clock: ClockId) -> Snapshot {
        let generator = clock_gettime(generator_clock);
        Snapshot {
            broker_pids: broker_pids.to_vec(),
            generator_clock,
            broker_cpu_seconds: of_all(broker_pids, process_cpu_seconds).map(|all| all.sum()),
            generator_cpu_seconds: generator.tv_sec as f64 + generator.tv_nsec as f64 / 1e9,
            generator_queued_seconds: fs::read_to_string("/proc/thread-self/schedstat")
                .ok()
                .and_then(|schedstat| queued_seconds(&schedstat))
                .unwrap_or(0.0),
            machine: fs::read_to_string("/proc/stat").ok().and_then(|stat| machine_time(&stat)),
            memory: ProcessMemory::of(broker_pids),
        }
    }

    /// What was used since then. For the thread that took it, unless it is of the process.
    pub(crate) fn until_now(&self) -> Usage {
        let now = Snapshot::by_clock(&self.broker_pids, self.generator_clock);
        let between = |from: Option<f64>, to: Option<f64>| Some(to? - from?);
        let broker = between(self.broker_cpu_seconds, now.broker_cpu_seconds);
        let generator = now.generator_cpu_seconds - self.generator_cpu_seconds;
        let busy = |time: MachineTime| time.busy_seconds;
        let idle = |time: MachineTime| time.idle_seconds;
        let machine = between(self.machine.map(busy), now.machine.map(busy));
        let idle = between(self.machine.map(idle), now.machine.map(idle));
        Usage {
            broker_cpu_seconds: broker,
            generator_cpu_seconds: generator,
            generator_busy_seconds: generator,
            generator_queued_seconds: now.generator_queued_seconds - self.generator_queued_seconds,
            others_cpu_seconds: machine
                .zip(broker)
                .map(|(machine, broker)| (machine - broker - generator).max(0.0)),
            machine_busy: machine
                .zip(idle)
                .and_then(|(busy, idle)| (busy + idle > 0.0).then(|| busy / (busy + idle))),
            load_average: load_average(),
            memory_before: self.memory,
            memory: now.memory,
        }
    }
}

impl Usage {
    /// The same where so many CPU seconds of others were the generator's, and so many it waited for a processor.
    pub(crate) fn with_generator(self, cpu_seconds: f64, queued_seconds: f64) -> Usage {
        Usage {
            generator_cpu_seconds: self.generator_cpu_seconds + cpu_seconds,
            generator_queued_seconds: self.generator_queued_seconds + queued_seconds,
            others_cpu_seconds: self
                .others_cpu_seconds
                .map(|others| (others - cpu_seconds).max(0.0)),
            ..self
        }
    }

    /// CPU seconds of the broker, if they are enough ticks for a figure to be made of them.
    pub(crate) fn resolved_broker_cpu_seconds(&self) -> Option<f64> {
        let least = f64::from(CPU_TICKS_MIN) / rustix::param::clock_ticks_per_second() as f64;
        // What is a number of ticks may be a little less as a difference of seconds.
        self.broker_cpu_seconds.filter(|&seconds| seconds > least * 0.99)
    }
}

impl ProcessMemory {
    /// Of processes together; `None` if there are none, or one has ended.
    ///
    /// Of several, the proportional set sizes are added up: resident sizes have each page of a common program once for each
    /// process.
    pub(crate) fn of(pids: &[u32]) -> Option<ProcessMemory> {
        let add = |sum: ProcessMemory, one: ProcessMemory| ProcessMemory {
            resident_bytes: sum.resident_bytes + one.resident_bytes,
            peak_bytes: sum.peak_bytes + one.peak_bytes,
        };
        let together = of_all(pids, process_memory)?.reduce(add)?;
        match pids {
            [_] => Some(together),
            _ => {
                let resident_bytes = of_all(pids, proportional_bytes)?.sum();
                Some(ProcessMemory { resident_bytes, ..together })
            }
        }
    }
}

/// What each process has; `None` if there are none, or one has nothing.
fn of_all<T>(pids: &[u32], of: impl Fn(u32) -> Option<T>) -> Option<impl Iterator<Item = T>> {
    let all: Option<Vec<T>> = pids.iter().copied().map(of).collect();
    all.filter(|all| !all.is_empty()).map(Vec::into_iter)
}

fn process_memory(pid: u32) -> Option<ProcessMemory> {
    memory(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn proportional_bytes(pid: u32) -> Option<u64> {
    bytes_of("Pss:", &fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
}

fn process_cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(ticks(&stat)? / rustix::param::clock_ticks_per_second() as f64)
}

/// `utime + stime`; the fields count from after the program's name, which may hold anything.
fn ticks(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The second field: nanoseconds in the queue of a processor.
fn queued_seconds(schedstat: &str) -> Option<f64> {
    let nanoseconds: f64 = schedstat.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(nanoseconds / 1e9)
}

/// Of the first line, `idle` and `iowait` are idle and all else is busy, without the guests' ticks, which
/// are in `user` already.
fn machine_time(stat: &str) -> Option<MachineTime> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let fields: Vec<f64> = line.split_ascii_whitespace().flat_map(str::parse).collect();
    let of_system = fields.get(..8)?;
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    let idle_ticks = of_system[3] + of_system[4];
    let busy_ticks = of_system.iter().sum::<f64>() - idle_ticks;
    Some(MachineTime {
        busy_seconds: busy_ticks / per_second,
        idle_seconds: idle_ticks / per_second,
    })
}

fn memory(status: &str) -> Option<ProcessMemory> {
    let (resident_bytes, peak_bytes) = (bytes_of("VmRSS:", status)?, bytes_of("VmHWM:", status)?);
    Some(ProcessMemory { resident_bytes, peak_bytes })
}

fn bytes_of(name: &str, table: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_files_are_read() {
        let stat = "17 (a) b) S 1 17 17 0 -1 4194560 1 2 3 4 250 50 0 0 20 0 9 0";
        assert_eq!(ticks(stat), Some(300.0));
        let status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n";
        let expected = ProcessMemory { resident_bytes: 1 << 20, peak_bytes: 2 << 20 };
        assert_eq!(memory(status), Some(expected));
        let rollup =
            "0-1 ---p 00000000 00:00 0    [rollup]\nRss:   9 kB\nPss:    3 kB\nPss_Dirty:  2 kB\n";
        assert_eq!(bytes_of("Pss:", rollup), Some(3 << 10));
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let machine = "cpu  100 1 50 900 30 2 3 4 60 0\ncpu0 1 2\n";
        let expected =
            MachineTime { busy_seconds: 160.0 / per_second, idle_seconds: 930.0 / per_second };
        assert_eq!(machine_time(machine), Some(expected));
        assert_eq!((ticks("x"), memory("x"), machine_time("x")), (None, None, None));
        assert_eq!(queued_seconds("1281406 1500000000 3\n"), Some(1.5));
        assert_eq!(queued_seconds("1281406"), None);
    }

    #[test]
    fn a_few_ticks_are_no_figure() {
        let tick_seconds = 1.0 / rustix::param::clock_ticks_per_second() as f64;
        let resolved = |ticks: u32| {
            let broker_cpu_seconds = Some(1000.0 + f64::from(ticks) * tick_seconds - 1000.0);
            Usage { broker_cpu_seconds, ..Usage::default() }.resolved_broker_cpu_seconds()
        };
        assert!(resolved(CPU_TICKS_MIN).is_some());
        assert_eq!((resolved(CPU_TICKS_MIN - 1), resolved(0)), (None, None));
        assert_eq!(Usage::default().resolved_broker_cpu_seconds(), None);
    }

    #[test]
    fn this_process_uses_something() {
        let pids = [std::process::id()];
        let before = Snapshot::take(&pids);
        let mut sum = 0_u64;
        while Snapshot::take(&pids).generator_cpu_seconds < before.generator_cpu_seconds + 0.05 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let usage = before.until_now();
        assert!(usage.generator_cpu_seconds >= 0.05);
        assert!(usage.broker_cpu_seconds.is_some_and(|seconds| seconds > 0.0));
        assert!(usage.machine_busy.is_some_and(|busy| (0.0..=1.0).contains(&busy)));
        assert!(usage.load_average.is_some_and(|load| load >= 0.0));
        assert!(usage.memory.is_some_and(|memory| memory.peak_bytes >= memory.resident_bytes));
    }

    #[test]
    fn a_process_is_charged_for_all_its_threads() {
        let before = Snapshot::of_process(&[]);
        let work = || {
            let begun = Snapshot::take(&[]);
            while begun.until_now().generator_cpu_seconds < 0.05 {}
        };
        std::thread::spawn(work).join().expect("it ends");
        assert!(before.until_now().generator_cpu_seconds >= 0.05);
    }

    #[test]
    fn several_processes_are_added_up_if_all_are_there() {
        let this = std::process::id();
        let once = ProcessMemory::of(&[this]).expect("it runs");
        let twice = ProcessMemory::of(&[this, this]).expect("it runs");
        assert!(twice.resident_bytes > once.resident_bytes);
        assert!(twice.peak_bytes >= once.peak_bytes * 2);
        assert_eq!(of_all(&[1, 2, 3], Some).map(|all| all.sum::<u32>()), Some(6));
        assert!(of_all(&[1, 2], |pid| (pid == 1).then_some(pid)).is_none());
        assert!(ProcessMemory::of(&[]).is_none() && ProcessMemory::of(&[this, 0]).is_none());
    }
}
