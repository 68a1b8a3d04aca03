//! Threads that change a simulated disk in turns.
//!
//! A file of its own: the turns are about all threads of the process that begin meanwhile.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::io::IoSlice;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use logway_log::fs::sim::Turns;
use logway_log::fs::{File, Fs, OpenMode, SimFs};

const PATH: &str = "file";

fn create(fs: &SimFs) -> Arc<dyn File> {
    fs.open(Path::new(PATH), OpenMode::CreateOrOpen).expect("is opened")
}

fn exists(fs: &SimFs) -> bool {
    fs.exists(Path::new(PATH)).expect("the machine runs")
}

/// In which order three threads write, each of them ten times.
fn order_of_writes(seed: u64) -> Vec<usize> {
    let turns = Turns::begin(seed);
    let fs = SimFs::in_turns(1, &turns);
    let order = Mutex::new(Vec::new());
    let file = create(&fs);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|number| {
                let (file, order) = (&file, &order);
                let work = move || {
                    for round in 0..10 {
                        let slices = [IoSlice::new(&[0])];
                        file.write_all_at(&slices, round).expect("is written");
                        order.lock().expect("nobody panicked").push(number);
                        // Who runs for long keeps the others from their turns.
                        (0..number * 1_000).for_each(|step| _ = black_box(step));
                    }
                };
                thread::Builder::new().spawn_scoped(scope, work).expect("starts")
            })
            .collect();
        turns.rest();
        assert!(order.lock().expect("nobody panicked").len() == 30, "there is nothing left to do");
        threads.into_iter().for_each(|thread| thread.join().expect("does not panic"));
    });
    order.into_inner().expect("nobody panicked")
}

#[test]
fn threads_that_take_turns_do_so_in_the_order_of_the_seed() {
    let orders: BTreeSet<Vec<usize>> = (0..6).map(order_of_writes).collect();
    assert!(orders.len() > 3, "{orders:?}");
    for seed in 0..6 {
        let order = order_of_writes(seed);
        assert!(orders.contains(&order), "seed {seed}: {order:?}");
        assert_eq!(order, order_of_writes(seed), "seed {seed}");
    }
}

#[test]
fn a_driver_that_pauses_is_ahead_of_all_others() {
    let turns = Turns::begin(1);
    let fs = SimFs::in_turns(1, &turns);
    thread::scope(|scope| {
        let other = scope.spawn(|| create(&fs));
        turns.pause();
        assert!(!exists(&fs), "it waits for its turn");
        turns.rest();
        assert!(exists(&fs));
        drop(other.join().expect("does not panic"));
    });
}
