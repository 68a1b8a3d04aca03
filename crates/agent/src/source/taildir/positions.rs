//! Where the positions of files are kept.
//!
//! Flume's file is a list of `{"inode": 1, "pos": 2, "file": "/a"}`, in which Flume takes no other field. So what
//! files are known by is in a second file beside it, whose name ends in `.marks`.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::super::write_whole;
use super::tailed::{Mark, Tailed};

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
        let of_mark = |value: &Value| {
            let number = |name: &str| value[name].as_u64();
            let text = |name: &str| u64::from_str_radix(value[name].as_str()?, 16).ok();
            let head = Mark { length: number("headLength")?, hash: text("headHash")? };
            let tail = Mark { length: number("tailLength")?, hash: text("tailHash")? };
            Some(((number("inode")?, number("pos")?), (head, tail)))
        };
        let marks: HashMap<(u64, u64), (Mark, Mark)> = marks.iter().filter_map(of_mark).collect();
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
            let marks = marks.get(&(inode, position)).copied();
            files.push(Tailed::remembered(inode, PathBuf::from(file), position, marks));
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
            let (inode, position) = (file.inode, file.identity.position);
            positions.push(
                json!({ "inode": inode, "pos": position, "file": file.path.display().to_string() }),
            );
            let (head, tail) = (file.identity.head, file.identity.tail);
            marks.push(json!({
                "inode": inode, "pos": position,
                "headLength": head.length, "headHash": format!("{:x}", head.hash),
                "tailLength": tail.length, "tailHash": format!("{:x}", tail.hash),
            }));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_flumes_and_come_back_with_their_marks() {
        let folder = tempfile::tempdir().expect("is made");
        let path = folder.path().join("below").join("positions.json");
        let mut positions = Positions::new(path.clone()).expect("is made");
        assert!(positions.read().expect("is empty").is_empty());
        let mut file = Tailed::new(7, PathBuf::from("/a"));
        file.identity.advance(b"line\n", 5);
        positions.write([&file].into_iter()).expect("is written");
        let text = fs::read_to_string(&path).expect("is there");
        assert_eq!(text, r#"[{"file":"/a","inode":7,"pos":5}]"#);
        let read = Positions::new(path.clone()).expect("is made").read().expect("is read");
        assert_eq!((read[0].inode, read[0].identity.position), (7, 5));
        assert_eq!(
            (read[0].identity.head, read[0].identity.tail),
            (file.identity.head, file.identity.tail)
        );
        fs::write(&path, "[{\"inode\":1}]").expect("is written");
        assert!(positions.read().is_err_and(|error| error.contains("without inode")));
    }
}
