//! What the storage engine relies on, of the machine's file system and of the simulated one.

use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logway_log::fs::{
    DirEntry, File, Fs, OpenMode, RealFs, SimFs, read_exact_at, read_full_at, read_to_end,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Runs a check on both file systems, in an empty directory each.
fn on_both(check: impl Fn(&dyn Fs, &Path)) {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    check(&RealFs, temporary.path());
    let sim = SimFs::new(0);
    sim.create_dir_all(Path::new("/data")).expect("is created");
    check(&sim, Path::new("/data"));
}

fn open(fs: &dyn Fs, path: &Path, mode: OpenMode) -> Arc<dyn File> {
    fs.open(path, mode).unwrap_or_else(|error| panic!("open {}: {error}", path.display()))
}

fn put(fs: &dyn Fs, path: &Path, content: &[u8]) {
    let file = open(fs, path, OpenMode::CreateTruncate);
    file.write_all_at(&[IoSlice::new(content)], 0).expect("is written");
}

fn content(fs: &dyn Fs, path: &Path) -> Vec<u8> {
    read_to_end(&*open(fs, path, OpenMode::Read), 1 << 20).expect("is read")
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

fn names(fs: &dyn Fs, dir: &Path) -> Vec<String> {
    let entries = fs.read_dir(dir).expect("is listed");
    entries.into_iter().map(|entry| entry.name.into_string().expect("is text")).collect()
}

#[test]
fn an_open_mode_says_what_must_exist_and_what_is_emptied() {
    on_both(|fs, dir| {
        let path = dir.join("a");
        assert_eq!(kind(fs.open(&path, OpenMode::Read)), Some(ErrorKind::NotFound));
        assert_eq!(kind(fs.open(&path, OpenMode::ReadWrite)), Some(ErrorKind::NotFound));
        drop(open(fs, &path, OpenMode::CreateNew));
        assert_eq!(kind(fs.open(&path, OpenMode::CreateNew)), Some(ErrorKind::AlreadyExists));

        put(fs, &path, b"content");
        for mode in [OpenMode::Read, OpenMode::ReadWrite, OpenMode::CreateOrOpen] {
            assert_eq!(open(fs, &path, mode).len().expect("has a length"), 7, "{mode:?}");
        }
        let emptied = open(fs, &path, OpenMode::CreateTruncate);
        assert!(emptied.is_empty().expect("has a length"));
        drop(open(fs, &dir.join("b"), OpenMode::CreateOrOpen));
        assert_eq!(names(fs, dir), ["a", "b"]);

        let reader = open(fs, &path, OpenMode::Read);
        assert!(reader.write_all_at(&[IoSlice::new(b"x")], 0).is_err());
        assert_eq!(kind(fs.open(dir, OpenMode::ReadWrite)), Some(ErrorKind::IsADirectory));
        let below_a_file = fs.open(&path.join("c"), OpenMode::CreateNew);
        assert_eq!(kind(below_a_file), Some(ErrorKind::NotADirectory));
    });
}

/// Bytes that begin at a multiple of 4096 in memory, and how many are before them.
fn aligned(content: &[u8]) -> (Vec<u8>, usize) {
    let mut bytes: Vec<u8> = Vec::with_capacity(content.len() + 4096);
    let skipped = bytes.as_ptr().align_offset(4096);
    bytes.resize(skipped, 0);
    bytes.extend_from_slice(content);
    (bytes, skipped)
}

#[test]
fn whole_blocks_are_written_past_the_page_cache() {
    on_both(|fs, dir| {
        let path = dir.join("a");
        assert_eq!(kind(fs.open(&path, OpenMode::WriteDirect)), Some(ErrorKind::NotFound));
        put(fs, &path, &[1; 3 * 4096]);
        let file = match fs.open(&path, OpenMode::WriteDirect) {
            Ok(file) => file,
            // Not every file system can.
            Err(error) => return assert_eq!(error.kind(), ErrorKind::InvalidInput),
        };
        let (blocks, from) = aligned(&[[2; 4096], [3; 4096]].concat());
        file.write_all_at(&[IoSlice::new(&blocks[from..])], 4096).expect("is written");
        file.sync_data().expect("is synced");
        assert_eq!(content(fs, &path), [[1; 4096], [2; 4096], [3; 4096]].concat());
        let part = &blocks[from..from + 4095];
        let refused = file.write_all_at(&[IoSlice::new(part)], 0);
        assert_eq!(kind(refused), Some(ErrorKind::InvalidInput), "no whole block");
        let refused = file.write_all_at(&[IoSlice::new(&blocks[from..])], 1);
        assert_eq!(kind(refused), Some(ErrorKind::InvalidInput), "not at a block");
    });
}

#[test]
fn slices_are_written_one_after_the_other_however_many_there_are() {
    on_both(|fs, dir| {
        let bytes: Vec<u8> = (0..5000u32).flat_map(u32::to_be_bytes).collect();
        // More than one pwritev takes, of uneven lengths, some empty.
        let mut slices = Vec::new();
        let mut rest = &bytes[..];
        for len in (0..6).cycle() {
            if rest.is_empty() {
                break;
            }
            let (slice, after) = rest.split_at(len.min(rest.len()));
            slices.push(IoSlice::new(slice));
            rest = after;
        }
        assert!(slices.len() > 2048);

        let path = dir.join("a");
        let file = open(fs, &path, OpenMode::CreateNew);
        file.write_all_at(&slices, 3).expect("is written");
        file.write_all_at(&[], 1 << 40).expect("nothing is written");
        file.sync_data().expect("is synced");
        file.sync_all().expect("is synced");
        let written = content(fs, &path);
        assert_eq!(written[..3], [0; 3], "a hole reads as zeros");
        assert_eq!(written[3..], bytes);
    });
}

#[test]
fn reads_end_at_the_end_of_the_file() {
    on_both(|fs, dir| {
        let path = dir.join("a");
        put(fs, &path, b"0123456789");
        let file = open(fs, &path, OpenMode::Read);
        let mut buf = [0; 4];
        assert_eq!(read_full_at(&*file, &mut buf, 8).expect("is read"), 2);
        assert_eq!(buf[..2], *b"89");
        assert_eq!(file.read_at(&mut buf, 10).expect("is read"), 0);
        assert_eq!(file.read_at(&mut buf, 1 << 40).expect("is read"), 0);
        read_exact_at(&*file, &mut buf, 6).expect("is read");
        assert_eq!(buf, *b"6789");
        let beyond = read_exact_at(&*file, &mut buf, 7);
        assert_eq!(kind(beyond), Some(ErrorKind::UnexpectedEof));
        assert_eq!(read_to_end(&*file, 10).expect("fits").len(), 10);
        assert_eq!(kind(read_to_end(&*file, 9)), Some(ErrorKind::FileTooLarge));
    });
}

#[test]
fn a_file_can_be_cut_and_extended() {
    on_both(|fs, dir| {
        let path = dir.join("a");
        put(fs, &path, b"0123456789");
        let file = open(fs, &path, OpenMode::ReadWrite);
        file.set_len(3).expect("is cut");
        file.set_len(5).expect("is extended");
        assert_eq!(content(fs, &path), b"012\0\0");
    });
}

#[test]
fn a_rename_replaces_and_open_files_stay_what_they_are() {
    on_both(|fs, dir| {
        let (from, to) = (dir.join("from"), dir.join("to"));
        put(fs, &from, b"new");
        put(fs, &to, b"old");
        let old = open(fs, &to, OpenMode::ReadWrite);
        fs.rename(&from, &to).expect("is renamed");
        assert_eq!(content(fs, &to), b"new");
        assert!(!fs.exists(&from).expect("is known"));
        assert_eq!(read_to_end(&*old, 10).expect("is read"), b"old");

        fs.remove_file(&to).expect("is removed");
        old.write_all_at(&[IoSlice::new(b"OLD")], 0).expect("is written");
        assert_eq!(read_to_end(&*old, 10).expect("is read"), b"OLD");
        assert!(names(fs, dir).is_empty());

        assert_eq!(kind(fs.rename(&from, &to)), Some(ErrorKind::NotFound));
        assert_eq!(kind(fs.remove_file(&to)), Some(ErrorKind::NotFound));
    });
}

#[test]
fn directories_are_made_listed_moved_and_removed() {
    on_both(|fs, dir| {
        let deep = dir.join("x/y/z");
        fs.create_dir_all(&deep).expect("is created");
        fs.create_dir_all(&deep).expect("exists");
        put(fs, &deep.join("file"), b"12345");
        put(fs, &dir.join("a"), b"");
        let file_entry = DirEntry { name: "file".into(), is_dir: false };
        assert_eq!(fs.read_dir(&deep).expect("is listed"), [file_entry]);
        assert_eq!(fs.file_len(&deep.join("file")).expect("is asked for"), Some(5));
        assert_eq!(fs.file_len(&deep.join("none")).expect("is asked for"), None);
        let kinds: Vec<(String, bool)> = fs
            .read_dir(dir)
            .expect("is listed")
            .into_iter()
            .map(|entry| (entry.name.into_string().expect("is text"), entry.is_dir))
            .collect();
        assert_eq!(kinds, [("a".to_owned(), false), ("x".to_owned(), true)]);

        fs.rename(&dir.join("x"), &dir.join("w")).expect("is moved");
        assert_eq!(content(fs, &dir.join("w/y/z/file")), b"12345");
        for dir in [dir.to_owned(), dir.join("w")] {
            fs.sync_dir(&dir).expect("is synced");
        }
        fs.remove_dir_all(&dir.join("w")).expect("is removed");
        assert_eq!(names(fs, dir), ["a"]);

        assert_eq!(kind(fs.read_dir(&dir.join("w"))), Some(ErrorKind::NotFound));
        assert_eq!(kind(fs.sync_dir(&dir.join("w"))), Some(ErrorKind::NotFound));
        assert_eq!(kind(fs.remove_dir_all(&dir.join("w"))), Some(ErrorKind::NotFound));
        assert_eq!(kind(fs.create_dir_all(&dir.join("a"))), Some(ErrorKind::AlreadyExists));
    });
}

#[test]
fn a_lock_is_held_once_until_it_is_dropped() {
    on_both(|fs, dir| {
        let path = dir.join(".lock");
        let held = fs.lock(&path).expect("is free");
        assert_eq!(kind(fs.lock(&path)), Some(ErrorKind::WouldBlock));
        drop(held);
        drop(fs.lock(&path).expect("is free again"));
        assert!(fs.free_bytes(dir).expect("is known") > 0);
    });
}

#[test]
fn only_a_real_file_has_a_descriptor() {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let real = open(&RealFs, &temporary.path().join("a"), OpenMode::CreateNew);
    assert!(real.fd().is_some());
    assert!(open(&SimFs::new(0), Path::new("a"), OpenMode::CreateNew).fd().is_none());
}

/// A step that both file systems take.
#[derive(Debug, Clone)]
enum Step {
    Write { file: u8, position: u16, bytes: Vec<u8> },
    SetLen { file: u8, len: u16 },
    Sync { file: u8 },
    SyncDir { dir: u8 },
    Rename { from: u8, to: u8 },
    Remove { file: u8 },
    MakeDir { dir: u8 },
    RemoveDir { dir: u8 },
    RenameDir { from: u8, to: u8 },
}

fn step() -> impl Strategy<Value = Step> {
    let bytes = vec(any::<u8>(), 0..2000);
    let (file, dir) = (0..6u8, 0..3u8);
    prop_oneof![
        4 => (file.clone(), 0..4000u16, bytes)
            .prop_map(|(file, position, bytes)| Step::Write { file, position, bytes }),
        1 => (file.clone(), 0..4000u16).prop_map(|(file, len)| Step::SetLen { file, len }),
        1 => file.clone().prop_map(|file| Step::Sync { file }),
        1 => dir.clone().prop_map(|dir| Step::SyncDir { dir }),
        2 => (file.clone(), file.clone()).prop_map(|(from, to)| Step::Rename { from, to }),
        1 => file.prop_map(|file| Step::Remove { file }),
        2 => dir.clone().prop_map(|dir| Step::MakeDir { dir }),
        1 => dir.clone().prop_map(|dir| Step::RemoveDir { dir }),
        1 => (dir.clone(), dir).prop_map(|(from, to)| Step::RenameDir { from, to }),
    ]
}

fn file_path(root: &Path, file: u8) -> PathBuf {
    dir_path(root, file % 3).join(format!("f{}", file / 3))
}

fn dir_path(root: &Path, dir: u8) -> PathBuf {
    if dir == 0 { root.to_owned() } else { root.join(format!("d{dir}")) }
}

fn take(fs: &dyn Fs, root: &Path, step: &Step) -> io::Result<()> {
    match step {
        Step::Write { file, position, bytes } => fs
            .open(&file_path(root, *file), OpenMode::CreateOrOpen)?
            .write_all_at(&[IoSlice::new(bytes)], u64::from(*position)),
        Step::SetLen { file, len } => {
            fs.open(&file_path(root, *file), OpenMode::ReadWrite)?.set_len(u64::from(*len))
        }
        Step::Sync { file } => fs.open(&file_path(root, *file), OpenMode::Read)?.sync_data(),
        Step::SyncDir { dir } => fs.sync_dir(&dir_path(root, *dir)),
        Step::Rename { from, to } => fs.rename(&file_path(root, *from), &file_path(root, *to)),
        Step::Remove { file } => fs.remove_file(&file_path(root, *file)),
        Step::MakeDir { dir } => fs.create_dir_all(&dir_path(root, *dir)),
        Step::RemoveDir { dir: 0 } => Ok(()),
        Step::RemoveDir { dir } => fs.remove_dir_all(&dir_path(root, *dir)),
        Step::RenameDir { from: 0, .. } | Step::RenameDir { to: 0, .. } => Ok(()),
        Step::RenameDir { from, to } => fs.rename(&dir_path(root, *from), &dir_path(root, *to)),
    }
}

/// Everything below a directory, by path.
fn everything(fs: &dyn Fs, dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for entry in fs.read_dir(dir).expect("is listed") {
        let path = dir.join(&entry.name);
        if entry.is_dir {
            found.push((path.clone(), None));
            found.extend(everything(fs, &path));
        } else {
            let content = content(fs, &path);
            let len = fs.file_len(&path).expect("is asked for");
            assert_eq!(Some(content.len() as u64), len);
            found.push((path, Some(content)));
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The simulation is a file system: the same steps have the same results as on the real one.
    #[test]
    fn the_simulation_does_what_the_machine_does(steps in vec(step(), 1..60)) {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let sim = SimFs::new(1);
        sim.create_dir_all(temporary.path()).expect("is created");
        for step in &steps {
            let real = kind(take(&RealFs, temporary.path(), step));
            let simulated = kind(take(&sim, temporary.path(), step));
            prop_assert_eq!(real, simulated, "{:?}", step);
        }
        prop_assert_eq!(everything(&RealFs, temporary.path()), everything(&sim, temporary.path()));
    }
}
