//! Reading the input on a thread of its own, so that a read that blocks keeps nobody from hearing a
//! signal or an answer.

use std::io::Read;
use std::sync::Arc;
use std::thread;

use tokio::sync::mpsc;

use super::delimiter::Delimiter;
use super::input::Input;
use super::pieces::Pieces;
use super::text::{self, Remarks};
use crate::cli::error::CliError;

/// How many bytes of pieces go to the producer at once, unless a single piece has more.
const BLOCK_BYTES: usize = 256 << 10;

/// How many blocks wait for the producer: few, as each may hold a very long record.
const BLOCKS_WAITING: usize = 2;

/// Some pieces of one input, in their order.
#[derive(Debug)]
pub(super) struct Block {
    /// What messages call the input.
    pub(super) name: Arc<str>,
    /// The number of the first piece in its input, from 1.
    first_number: u64,
    bytes: Vec<u8>,
    /// Where each piece ends in `bytes`.
    ends: Vec<usize>,
    /// What is odd about some of them.
    pub(super) remarks: Vec<String>,
}

impl Block {
    fn new(name: &Arc<str>, first_number: u64) -> Block {
        let name = Arc::clone(name);
        Block { name, first_number, bytes: Vec::new(), ends: Vec::new(), remarks: Vec::new() }
    }

    fn push(&mut self, piece: &[u8], remarks: Option<&mut Remarks>) {
        let number = self.first_number + self.ends.len() as u64;
        let remark = remarks.and_then(|remarks| remarks.on(piece, number, &self.name));
        self.remarks.extend(remark);
        self.bytes.extend_from_slice(piece);
        self.ends.push(self.bytes.len());
    }

    /// The pieces with their numbers.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let pieces = starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end]);
        (self.first_number..).zip(pieces)
    }
}

/// Reads inputs one after the other. An error is the last that comes.
pub(super) fn read(
    paths: Vec<String>,
    delimiter: Delimiter,
    expects_text: bool,
) -> Result<mpsc::Receiver<Result<Block, CliError>>, CliError> {
    let (sender, receiver) = mpsc::channel(BLOCKS_WAITING);
    let reader = move || {
        for path in paths {
            let outcome = read_one(&path, &delimiter, expects_text, &sender);
            let Err(error) = outcome else { continue };
            // Nobody is left to hear of it if the producer has ended.
            let _ = sender.blocking_send(Err(error));
            return;
        }
    };
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(reader)
        .map_err(|source| CliError::Io { what: "start a thread".to_owned(), source })?;
    Ok(receiver)
}

fn read_one(
    path: &str,
    delimiter: &Delimiter,
    expects_text: bool,
    sender: &mpsc::Sender<Result<Block, CliError>>,
) -> Result<(), CliError> {
    let Input { reader, name } = Input::open(path)?;
    let shared_name: Arc<str> = Arc::from(&*name);
    let mut pieces = Pieces::new(reader, name, delimiter.clone());
    if expects_text {
        text::check_head(pieces.head()?, &shared_name)?;
    }
    let mut remarks = expects_text.then(Remarks::default);
    let mut next_number = 1;
    loop {
        let mut block = Block::new(&shared_name, next_number);
        let filled = fill(&mut block, &mut pieces, remarks.as_mut());
        next_number += block.ends.len() as u64;
        // What was read before an error is sent.
        if !block.ends.is_empty() && sender.blocking_send(Ok(block)).is_err() {
            return Ok(());
        }
        if filled? == Filled::ToTheEnd {
            return Ok(());
        }
    }
}

/// How much of the input has been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filled {
    Partly,
    ToTheEnd,
}

/// Waits for one piece, and takes what more is there.
fn fill(
    block: &mut Block,
    pieces: &mut Pieces<impl Read>,
    mut remarks: Option<&mut Remarks>,
) -> Result<Filled, CliError> {
    while block.ends.is_empty() || (block.bytes.len() < BLOCK_BYTES && pieces.is_ready()) {
        match pieces.next_piece()? {
            Some(piece) => block.push(piece, remarks.as_deref_mut()),
            None => return Ok(Filled::ToTheEnd),
        }
    }
    Ok(Filled::Partly)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn read_files(contents: &[&[u8]], expects_text: bool) -> Vec<Result<Block, CliError>> {
        let files: Vec<tempfile::NamedTempFile> = contents
            .iter()
            .map(|content| {
                let mut file = tempfile::NamedTempFile::new().expect("a file");
                file.write_all(content).expect("room");
                file
            })
            .collect();
        let paths = files.iter().map(|file| file.path().to_string_lossy().into_owned()).collect();
        let mut blocks = read(paths, Delimiter::default(), expects_text).expect("a thread");
        let mut all = Vec::new();
        while let Some(block) = blocks.blocking_recv() {
            all.push(block);
        }
        all
    }

    #[test]
    fn pieces_come_in_blocks_and_are_numbered_by_file() {
        let long: Vec<u8> = (0..100_000).flat_map(|n| format!("{n}\n").into_bytes()).collect();
        let blocks = read_files(&[&long, b"x\ny", b""], true);
        let blocks: Vec<Block> = blocks.into_iter().map(|block| block.expect("text")).collect();
        assert!(blocks.len() < 10, "{}", blocks.len());
        let mut expected = 0;
        let (last, first) = blocks.split_last().expect("some blocks");
        for (number, piece) in first.iter().flat_map(Block::pieces).filter(|(_, p)| *p != b"x") {
            assert_eq!(piece, expected.to_string().as_bytes());
            expected += 1;
            assert_eq!(number, expected);
        }
        assert_eq!(expected, 100_000);
        assert_eq!(last.pieces().last(), Some((2, &b"y"[..])));
    }

    #[test]
    fn what_is_not_text_comes_through_only_if_none_is_expected() {
        let refused = read_files(&[b"a\n", b"\0\n", b"b\n"], true);
        assert_eq!(refused.len(), 2);
        assert!(refused[1].as_ref().is_err_and(|e| e.to_string().contains("is not text")));
        assert_eq!(read_files(&[b"\0\n"], false).len(), 1);
    }
}
