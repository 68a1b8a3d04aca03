//! The assignor by itself.

use super::*;

fn worker(id: &str, process: &str, had: TargetTasks) -> Worker {
    Worker { id: MemberId::from(id), process_id: process.into(), had: Arc::new(had) }
}

fn work(subtopology: &str, task_count: i32, is_stateful: bool) -> Work {
    Work { subtopology: subtopology.into(), task_count, is_stateful }
}

/// Assigns, and begins the next time with what that gave.
fn again(workers: &[Worker], work: &[Work], replicas: usize) -> Vec<Worker> {
    let assigned: HashMap<MemberId, TargetTasks> =
        assign(workers, work, replicas).into_iter().collect();
    let next = |it: &Worker| Worker { had: Arc::new(assigned[&it.id].clone()), ..it.clone() };
    workers.iter().map(next).collect()
}

fn all(tasks: &Tasks) -> BTreeSet<(Arc<str>, PartitionId)> {
    let each = tasks.iter().flat_map(|(id, of)| of.iter().map(move |it| (Arc::clone(id), *it)));
    each.collect()
}

/// Every task is active once, processes have a task once, and the active load is even.
fn check(workers: &[Worker], work: &[Work], replicas: usize) {
    let count: usize =
        work.iter().map(|of| usize::try_from(of.task_count).expect("is small")).sum();
    let mut active = BTreeSet::new();
    let mut in_process: HashMap<&str, BTreeSet<_>> = HashMap::new();
    let mut followers: HashMap<_, usize> = HashMap::new();
    for worker in workers {
        for task in all(&worker.had.active) {
            assert!(active.insert(task.clone()), "{task:?} is active twice");
            assert!(in_process.entry(&worker.process_id).or_default().insert(task));
        }
        for task in all(&worker.had.standby) {
            *followers.entry(task.clone()).or_default() += 1;
            assert!(in_process.entry(&worker.process_id).or_default().insert(task));
        }
    }
    assert_eq!(active.len(), count);
    let counts = workers.iter().map(|it| all(&it.had.active).len());
    let (least, most) = (counts.clone().min(), counts.max());
    assert!(most.zip(least).is_none_or(|(most, least)| most - least <= 1), "{most:?} {least:?}");
    let stateful = work.iter().filter(|of| of.is_stateful);
    for of in stateful {
        for number in 0..of.task_count {
            let task = (Arc::clone(&of.subtopology), PartitionId(number));
            let wanted = replicas.min(in_process.len().saturating_sub(1));
            assert_eq!(followers.get(&task).copied().unwrap_or(0), wanted, "{task:?}");
        }
    }
}

#[test]
fn tasks_are_spread_evenly_and_standbys_are_elsewhere() {
    let work = [work("0", 7, false), work("1", 5, true)];
    for members in 1..=8 {
        for replicas in 0..=2 {
            let none = TargetTasks::default;
            let ids = (0..members).map(|number| format!("m{number}"));
            let workers: Vec<_> = ids.map(|id| worker(&id, &id, none())).collect();
            check(&again(&workers, &work, replicas), &work, replicas);
        }
    }
}

#[test]
fn nothing_moves_where_nothing_has_changed() {
    let work = [work("0", 6, false), work("1", 9, true)];
    let none = TargetTasks::default;
    let workers = [worker("a", "p", none()), worker("b", "p", none()), worker("c", "q", none())];
    let once = again(&workers, &work, 1);
    let twice = again(&once, &work, 1);
    for (one, other) in once.iter().zip(&twice) {
        assert_eq!(one.had, other.had, "{}", one.id);
    }
}

#[test]
fn who_stays_keeps_what_it_has_and_state_is_followed() {
    let work = [work("1", 6, true)];
    let none = TargetTasks::default;
    let workers = [worker("a", "a", none()), worker("b", "b", none()), worker("c", "c", none())];
    let before = again(&workers, &work, 1);
    let left = again(&before[..2], &work, 1);
    check(&left, &work, 1);
    for (had, has) in before.iter().zip(&left) {
        assert!(
            all(&had.had.active).is_subset(&all(&has.had.active)),
            "{} keeps its tasks",
            has.id
        );
    }
    // What c had goes to where its state is, as far as the load allows.
    let gone = all(&before[2].had.active);
    let followed = left.iter().enumerate().filter(|(place, worker)| {
        let came = all(&worker.had.active);
        gone.intersection(&came).any(|task| all(&before[*place].had.standby).contains(task))
    });
    assert!(followed.count() > 0);
    let more = [left[0].clone(), left[1].clone(), worker("d", "d", none())];
    let next = again(&more, &work, 1);
    check(&next, &work, 1);
    assert_eq!(all(&next[2].had.active).len(), 2, "a new member gets its share");
}
