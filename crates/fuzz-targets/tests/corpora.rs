//! Every input that is kept of fuzzing, once more.

use std::collections::BTreeSet;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use logway_fuzz_targets::TARGETS;

/// Far more than any input takes, and far less than one that makes a decoder run in circles.
const INPUT_TIME_MAX: Duration = Duration::from_secs(10);

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn files_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    entries.map(|entry| entry.expect("an entry can be read").path()).collect()
}

#[test]
fn every_input_is_survived() {
    for target in TARGETS {
        let inputs = files_in(&fuzz().join("corpus").join(target.name));
        assert!(!inputs.is_empty(), "{} has no corpus", target.name);
        for path in &inputs {
            let input = fs::read(path).expect("an input can be read");
            let began = Instant::now();
            let outcome = catch_unwind(|| (target.check)(&input));
            assert!(outcome.is_ok(), "{} does not survive {}", target.name, path.display());
            assert!(began.elapsed() < INPUT_TIME_MAX, "{} takes too long", path.display());
        }
        println!("{}: {} inputs", target.name, inputs.len());
    }
}

#[test]
fn every_target_has_its_program_and_its_corpus() {
    let names: BTreeSet<_> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    let stems = |dir: &str| -> BTreeSet<String> {
        let stem = |path: PathBuf| path.file_stem().expect("is a name").to_string_lossy().into();
        files_in(&fuzz().join(dir)).into_iter().map(stem).collect()
    };
    assert_eq!(stems("fuzz_targets"), names);
    assert_eq!(stems("corpus"), names);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("it can be read");
    for name in names {
        assert!(manifest.contains(&format!("name = \"{name}\"\n")), "{name} is in no [[bin]]");
    }
}
