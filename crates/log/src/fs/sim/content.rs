//! The content of a simulated file: what programs see and what the disk has.

use std::collections::BTreeSet;

use super::rng::Rng;

/// A file's bytes in the page cache and on stable storage.
///
/// Outside of the dirty sectors, and up to the shorter length, the two differ only where a
/// failed sync lost something.
#[derive(Debug, Clone, Default)]
pub(super) struct Content {
    cached: Vec<u8>,
    stable: Vec<u8>,
    /// The sectors, counted from the start of the file, that a sync must write.
    dirty: BTreeSet<usize>,
}

/// The unit that a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// The sectors of a page of the cache, which is written back as a whole more often than not.
const PAGE_SECTORS: usize = 8;

impl Content {
    pub(super) fn len(&self) -> usize {
        self.cached.len()
    }

    pub(super) fn read(&self, buf: &mut [u8], position: u64) -> usize {
        let position = usize::try_from(position).unwrap_or(usize::MAX).min(self.cached.len());
        let rest = &self.cached[position..];
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        read
    }

    /// Writes at `position`; what lies between the end and there becomes zero.
    pub(super) fn write(&mut self, bytes: &[u8], position: usize) {
        let end = position + bytes.len();
        if end > self.cached.len() {
            self.set_len(end);
        }
        self.cached[position..end].copy_from_slice(bytes);
        self.touch(position, end);
    }

    pub(super) fn set_len(&mut self, len: usize) {
        let old_len = self.cached.len();
        self.cached.resize(len, 0);
        if len > old_len {
            self.touch(old_len, len);
        } else {
            drop(self.dirty.split_off(&len.div_ceil(SECTOR_BYTES)));
        }
    }

    pub(super) fn sync(&mut self) {
        self.stable.resize(self.cached.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            self.write_back(sector);
        }
    }

    /// A sync that fails, as Linux does it: what was dirty counts as clean from then on, some of
    /// it is on the disk, and some may not even be in the cache any more.
    pub(super) fn fail_sync(&mut self, rng: &mut Rng) {
        let drops_pages = rng.coin();
        for sector in std::mem::take(&mut self.dirty) {
            if rng.coin() {
                self.write_back(sector);
            } else if drops_pages {
                self.drop_from_cache(sector);
            }
        }
    }

    /// The content after a power cut.
    ///
    /// A random part of the dirty sectors is on the disk, torn at sectors or at pages. The length
    /// is the synced one, the newest, or one between. What the file grew by and was not
    /// written reads as zeros.
    pub(super) fn after_crash(&self, rng: &mut Rng) -> Content {
        let unit_sectors = if rng.coin() { 1 } else { PAGE_SECTORS };
        let survival = rng.survival();
        let mut survivor = Content { dirty: BTreeSet::new(), ..self.clone() };
        survivor.stable.resize(self.len_after_crash(rng), 0);

        let mut unit = None;
        for &sector in &self.dirty {
            let of_unit = sector / unit_sectors;
            let survives = match unit {
                Some((last, survives)) if last == of_unit => survives,
                _ => survival.survives(rng),
            };
            unit = Some((of_unit, survives));
            if survives {
                survivor.write_back(sector);
            }
        }
        survivor.cached = survivor.stable.clone();
        survivor
    }

    fn len_after_crash(&self, rng: &mut Rng) -> usize {
        let (stable, newest) = (self.stable.len(), self.cached.len());
        match rng.below(3) {
            0 => stable,
            1 => newest,
            _ => stable.min(newest) + rng.below(stable.abs_diff(newest) + 1),
        }
    }

    /// Changes a bit of the medium, and of the cache.
    pub(super) fn flip_bit(&mut self, position: usize, bit: u8) {
        for bytes in [&mut self.cached, &mut self.stable] {
            if let Some(byte) = bytes.get_mut(position) {
                *byte ^= 1 << bit;
            }
        }
    }

    fn touch(&mut self, from: usize, to: usize) {
        self.dirty.extend(from / SECTOR_BYTES..to.div_ceil(SECTOR_BYTES));
    }

    /// Copies a sector from the cache to the disk, as far as both lengths reach.
    fn write_back(&mut self, sector: usize) {
        copy_sector(&self.cached, &mut self.stable, sector);
    }

    /// Reads a sector anew from the disk; it is zero where the disk has none of the file.
    fn drop_from_cache(&mut self, sector: usize) {
        let start = sector * SECTOR_BYTES;
        let end = self.cached.len().min(start + SECTOR_BYTES);
        self.cached[start..end].fill(0);
        copy_sector(&self.stable, &mut self.cached, sector);
    }
}

fn copy_sector(from: &[u8], to: &mut [u8], sector: usize) {
    let start = sector * SECTOR_BYTES;
    let end = from.len().min(to.len()).min(start + SECTOR_BYTES);
    if start < end {
        to[start..end].copy_from_slice(&from[start..end]);
    }
}
