//! What the kernel tells of the threads of this process.
//!
//! Elsewhere than on Linux it is not asked, and all threads count as asleep.

#[cfg(target_os = "linux")]
pub(super) use linux::{Tasks, current_id};
#[cfg(not(target_os = "linux"))]
pub(super) use nowhere::{Tasks, current_id};

/// A thread, as the kernel numbers it; the younger one has the greater number.
pub(super) type TaskId = u32;

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::fs::{self, File};
    use std::io;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::Path;

    use super::TaskId;

    const TASKS_DIR: &str = "/proc/self/task";

    /// The threads that began after this was made, and the one that made it.
    #[derive(Debug)]
    pub(in super::super) struct Tasks {
        strangers: BTreeSet<TaskId>,
        known: Vec<Task>,
        /// How many threads the process had when `known` was listed.
        listed_count: u64,
    }

    /// A thread, and what tells of it.
    #[derive(Debug)]
    struct Task {
        id: TaskId,
        /// Its state, among many numbers.
        stat: File,
        /// For how long it has run, in nanoseconds, first of three numbers.
        times: Option<File>,
    }

    /// What a thread did when it was looked at.
    #[derive(Debug, PartialEq, Eq)]
    enum Doing {
        Runs,
        /// It sleeps, and has run for so many nanoseconds before.
        Sleeps(u64),
        /// It has ended.
        Nothing,
    }

    impl Tasks {
        /// This thread, and all that begin from now on.
        pub(in super::super) fn from_now_on() -> Tasks {
            let own = current_id();
            let strangers = ids().into_iter().filter(|&id| id != own).collect();
            Tasks { strangers, known: Vec::new(), listed_count: 0 }
        }

        /// Whether there was a moment, since this was called, at which all of them slept but those
        /// that are left out.
        ///
        /// A thread that was seen asleep may have been woken by one that was seen asleep after it.
        /// So all are looked at twice: where none has run meanwhile, nobody was there to wake them.
        pub(in super::super) fn all_sleep(&mut self, is_left_out: impl Fn(TaskId) -> bool) -> bool {
            let count = count();
            if count != self.listed_count {
                self.list();
                self.listed_count = count;
            }
            let asked: Vec<&Task> =
                self.known.iter().filter(|task| !is_left_out(task.id)).collect();
            let mut first = Vec::with_capacity(asked.len());
            for task in &asked {
                match task.doing() {
                    Doing::Runs => return false,
                    doing => first.push(doing),
                }
            }
            let is_same = |(task, before): (&&Task, Doing)| task.doing() == before;
            asked.iter().zip(first).all(is_same) && self::count() == count
        }

        fn list(&mut self) {
            let ids = ids();
            self.known.retain(|task| ids.contains(&task.id));
            for id in ids {
                let is_known = self.known.iter().any(|task| task.id == id);
                if !is_known && !self.strangers.contains(&id) {
                    // One that has ended meanwhile is none.
                    self.known.extend(Task::open(id));
                }
            }
        }
    }

    impl Task {
        fn open(id: TaskId) -> Option<Task> {
            let dir = Path::new(TASKS_DIR).join(id.to_string());
            let stat = File::open(dir.join("stat")).ok()?;
            Some(Task { id, stat, times: File::open(dir.join("schedstat")).ok() })
        }

        fn doing(&self) -> Doing {
            let mut buf = [0; 512];
            let Ok(stat) = read(&self.stat, &mut buf) else { return Doing::Nothing };
            // The name before it is in parentheses, and can have some itself.
            let state =
                stat.iter().rposition(|&byte| byte == b')').and_then(|end| stat.get(end + 2));
            match state {
                Some(b'S') => Doing::Sleeps(self.run_ns()),
                Some(b'Z' | b'X') | None => Doing::Nothing,
                Some(_) => Doing::Runs,
            }
        }

        fn run_ns(&self) -> u64 {
            let mut buf = [0; 128];
            let times = self.times.as_ref().and_then(|times| read(times, &mut buf).ok());
            let digits = times.unwrap_or_default().iter().take_while(|byte| byte.is_ascii_digit());
            digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
        }
    }

    fn read<'a>(file: &File, buf: &'a mut [u8]) -> io::Result<&'a [u8]> {
        let read = file.read_at(buf, 0)?;
        Ok(&buf[..read])
    }

    /// How many threads the process has: the links of their directory, less its own two.
    fn count() -> u64 {
        fs::metadata(TASKS_DIR).map_or(0, |metadata| metadata.nlink())
    }

    fn ids() -> BTreeSet<TaskId> {
        let entries = fs::read_dir(TASKS_DIR).expect("the kernel lists this process's threads");
        let id = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
        entries.filter_map(id).collect()
    }

    /// The number of this thread.
    pub(in super::super) fn current_id() -> TaskId {
        thread_local! {
            static ID: TaskId = {
                let link = fs::read_link("/proc/thread-self").unwrap_or_default();
                let name = link.file_name().and_then(|name| name.to_str());
                name.and_then(|name| name.parse().ok()).expect("the kernel numbers its threads")
            };
        }
        ID.with(|id| *id)
    }
}

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::TaskId;

    /// Nobody knows of any thread.
    #[derive(Debug)]
    pub(in super::super) struct Tasks;

    impl Tasks {
        pub(in super::super) fn from_now_on() -> Tasks {
            Tasks
        }

        pub(in super::super) fn all_sleep(&mut self, _: impl Fn(TaskId) -> bool) -> bool {
            true
        }
    }

    /// A number that no other thread has.
    pub(in super::super) fn current_id() -> TaskId {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        thread_local! {
            static ID: TaskId = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        ID.with(|id| *id)
    }
}
