//! Answers as they come in.

use std::io::{self, Read};

use anyhow::{Context, bail, ensure};

use super::Framing;

/// Small enough to stay in the processor's cache, large enough for few system calls.
const BUFFER_BYTES: usize = 256 << 10;

/// Cuts what comes into frames. Of a frame that is longer than anyone looks at, only the head is
/// kept.
#[derive(Debug)]
pub(crate) struct Intake {
    framing: Framing,
    buffer: Vec<u8>,
    filled: usize,
    head_bytes_max: usize,
    /// The frame that is being passed over, its head kept.
    passing: Option<Passing>,
}

#[derive(Debug)]
struct Passing {
    head: Vec<u8>,
    frame_bytes: usize,
    missing_bytes: usize,
}

impl Intake {
    /// Frames of which the first `head_bytes_max` bytes are looked at.
    pub(crate) fn new(framing: Framing, head_bytes_max: usize) -> Intake {
        let buffer = vec![0; BUFFER_BYTES.max(2 * (head_bytes_max + framing.prefix_bytes()))];
        Intake { framing, buffer, filled: 0, head_bytes_max, passing: None }
    }

    /// Reads once, and hands out each frame that is complete now: its head and how long it is,
    /// both without the length in front.
    ///
    /// # Errors
    ///
    /// The stream ended or failed, a length is impossible, or `on_frame` failed.
    pub(crate) fn read(
        &mut self,
        stream: &mut impl Read,
        mut on_frame: impl FnMut(&[u8], usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let read = match stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) => bail!("the broker closed the connection"),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(()),
            Err(error) => return Err(error).context("cannot read from the broker"),
        };
        self.filled += read;
        let mut at = 0;
        while let Some(step) = self.step(at, &mut on_frame)? {
            at += step;
        }
        self.buffer.copy_within(at..self.filled, 0);
        self.filled -= at;
        Ok(())
    }

    /// How many bytes from `at` on are done with now; `None` when more must come first.
    fn step(
        &mut self,
        at: usize,
        on_frame: &mut impl FnMut(&[u8], usize) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<usize>> {
        let here = &self.buffer[at..self.filled];
        if let Some(passing) = &mut self.passing {
            let passed = passing.missing_bytes.min(here.len());
            passing.missing_bytes -= passed;
            if passing.missing_bytes == 0 {
                on_frame(&passing.head, passing.frame_bytes)?;
                self.passing = None;
                return Ok(Some(passed));
            }
            return Ok((passed > 0).then_some(passed));
        }
        let prefix_bytes = self.framing.prefix_bytes();
        let Some(frame_bytes) = self.framing.frame_bytes(here)? else {
            ensure!(here.len() < self.buffer.len(), "a frame without an end");
            return Ok(None);
        };
        let head_bytes = frame_bytes.min(self.head_bytes_max);
        let Some(head) = here.get(prefix_bytes..prefix_bytes + head_bytes) else {
            return Ok(None);
        };
        if frame_bytes == head_bytes {
            on_frame(head, frame_bytes)?;
        } else {
            let missing_bytes = frame_bytes - head_bytes;
            self.passing = Some(Passing { head: head.to_vec(), frame_bytes, missing_bytes });
        }
        Ok(Some(prefix_bytes + head_bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes at a time.
    struct Trickle<'a>(&'a [u8], usize);

    impl Read for Trickle<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn frames(sizes: &[usize]) -> Vec<u8> {
        let frame = |(number, &size): (usize, &usize)| {
            let mut bytes = (size as u32).to_be_bytes().to_vec();
            bytes.resize(4 + size, number as u8);
            bytes
        };
        sizes.iter().enumerate().flat_map(frame).collect()
    }

    #[test]
    fn frames_are_found_however_they_are_cut() {
        let sizes = [4, 5, 100, 7, 1_000_000, 100, 101, 4];
        let stream = frames(&sizes);
        for portion in [1, 3, 7, 104, 300, 70_000, usize::MAX] {
            let mut intake = Intake::new(Framing::Kafka, 100);
            let mut trickle = Trickle(&stream, portion);
            let mut seen = Vec::new();
            while !trickle.0.is_empty() {
                intake
                    .read(&mut trickle, |head, frame_bytes| {
                        assert_eq!(head.len(), frame_bytes.min(100));
                        assert!(head.iter().all(|&byte| usize::from(byte) == seen.len()));
                        seen.push(frame_bytes);
                        Ok(())
                    })
                    .expect("the frames are sound");
            }
            assert_eq!(seen, sizes, "portions of {portion}");
        }
    }

    #[test]
    fn impossible_lengths_and_the_end_are_errors() {
        let negative = [0xff; 8];
        let mut intake = Intake::new(Framing::Kafka, 10);
        assert!(intake.read(&mut negative.as_slice(), |_, _| Ok(())).is_err());
        let mut intake = Intake::new(Framing::Kafka, 10);
        assert!(intake.read(&mut [].as_slice(), |_, _| Ok(())).is_err());
    }
}
