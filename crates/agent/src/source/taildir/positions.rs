//! Where the positions of files are kept.
//!
//! Flume's file is a list of `{"inode": 1, "pos": 2, "file": "/a"}`, in which Flume takes no other field. So what
//! files are known by is in a second file beside it, whose name ends in `.marks`: the device, when the
//! file was made, and hashes.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::super::identity::{FileId, Identity, Mark};
use super::super::write_whole;
use super::tailed::Tailed;

#[derive(Debug)]
pub(super) struct Positions {
    path: PathBuf,
    marks: PathBuf,
    written: String,
    /// The marks of the positions that are in the file now.
    written_marks: Vec<Value>,
}

impl Positions {
    pub(super) fn new(path: PathBuf) -> Result<Positions, String> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        }
        let mut marks = path.clone().into_os_string();
        marks.push(".marks");
        Ok(Positions {
            path,
            marks: PathBuf::from(marks),
            written: String::new(),
            written_marks: Vec::new(),
        })
    }

    /// What was noted last; nothing if there is no file.
    ///
    /// # Errors
    ///
    /// A file that is none of positions: to go on without it would read all files again.
    pub(super) fn read(&mut self) -> Result<Vec<Tailed>, String> {
        let marks = self.list(&self.marks)?;
        self.written_marks = marks.clone();
        let marks: HashMap<(u64, u64, String), Marks> = marks.iter().filter_map(marks_of).collect();
        let mut files = Vec::new();
        for entry in self.list(&self.path)? {
            let (inode, position) = (entry["inode"].as_u64(), entry["pos"].as_u64());
            let (Some(inode), Some(position), Some(file)) =
                (inode, position, entry["file"].as_str())
            else {
                return Err(format!(
                    "{} has an entry without inode, pos and file: {entry}",
                    self.path.display()
                ));
            };
            let found = marks.get(&(inode, position, file.to_owned()));
            // An earlier version noted no paths there.
            let found = found.or_else(|| marks.get(&(inode, position, String::new())));
            let id = FileId { device: found.and_then(|marks| marks.device), inode };
            let marks = found.map(|marks| (marks.head, marks.tail));
            let mut tailed = Tailed::remembered(id, PathBuf::from(file), position, marks);
            tailed.born = found.and_then(|marks| marks.born);
            files.push(tailed);
        }
        Ok(files)
    }

    fn list(&self, path: &PathBuf) -> Result<Vec<Value>, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        if text.trim().is_empty() {
            return Ok(Vec::new());
        }
        serde_json::from_str(&text)
            .map_err(|error| format!("{} is no list of positions: {error}", path.display()))
    }

    /// Writes both files, the marks first: a position without its marks is one of Flume's.
    pub(super) fn write<'a>(&mut self, files: impl Iterator<Item = &'a Tailed>) -> io::Result<()> {
        let mut positions: Vec<Value> = Vec::new();
        let mut marks: Vec<Value> = Vec::new();
        for file in files {
            let (inode, position) = (file.id.inode, file.identity.position);
            let path = file.path.display().to_string();
            positions.push(json!({ "inode": inode, "pos": position, "file": path }));
            let mut mark = file.identity.marks();
            mark["inode"] = json!(inode);
            mark["pos"] = json!(position);
            mark["file"] = json!(path);
            mark["device"] = json!(file.id.device);
            mark["born"] = json!(file.born);
            marks.push(mark);
        }
        let text = Value::Array(positions).to_string();
        if text == self.written {
            return Ok(());
        }
        // With those of the positions that hold until the second file is there.
        let both = [&marks[..], &self.written_marks[..]].concat();
        write_whole(&self.marks, Value::Array(both).to_string().as_bytes())?;
        write_whole(&self.path, text.as_bytes())?;
        (self.written, self.written_marks) = (text, marks);
        Ok(())
    }
}

/// What is noted of a position beside it.
struct Marks {
    device: Option<u64>,
    born: Option<u64>,
    head: Mark,
    tail: Mark,
}

/// The marks of an entry, by the position that they belong to.
fn marks_of(entry: &Value) -> Option<((u64, u64, String), Marks)> {
    let number = |name: &str| entry[name].as_u64();
    let (head, tail) = Identity::marks_of(entry)?;
    let path = entry["file"].as_str().unwrap_or_default().to_owned();
    let marks = Marks { device: number("device"), born: number("born"), head, tail };
    Some(((number("inode")?, number("pos")?, path), marks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_flumes_and_come_back_with_their_marks() {
        let folder = tempfile::tempdir().expect("is made");
        let path = folder.path().join("below").join("positions.json");
        let mut positions = Positions::new(path.clone()).expect("is made");
        assert!(positions.read().expect("is empty").is_empty());
        // Two file systems have the same inode, and as much was read of both files.
        let on = |device, path: &str, line: &[u8]| {
            let id = FileId { device: Some(device), inode: 7 };
            let mut file = Tailed::new(id, PathBuf::from(path));
            file.identity.advance(line, 5);
            file.born = Some(device + 10);
            file
        };
        let files = [on(1, "/a", b"line\n"), on(2, "/b", b"same\n")];
        positions.write(files.iter()).expect("is written");
        let text = fs::read_to_string(&path).expect("is there");
        let flumes = r#"[{"file":"/a","inode":7,"pos":5},{"file":"/b","inode":7,"pos":5}]"#;
        assert_eq!(text, flumes);
        let read = Positions::new(path.clone()).expect("is made").read().expect("is read");
        for (read, written) in read.iter().zip(&files) {
            assert_eq!((read.id, read.born), (written.id, written.born));
            assert_eq!(read.identity.position, 5);
            assert_eq!(read.identity.head, written.identity.head);
            assert_eq!(read.identity.tail, written.identity.tail);
        }
        fs::write(&path, "[{\"inode\":1}]").expect("is written");
        assert!(positions.read().is_err_and(|error| error.contains("without inode")));
    }
}
