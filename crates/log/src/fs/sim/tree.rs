//! The names of a simulated file system: what programs see and what the disk has.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path};

use super::rng::{Rng, Survival};

/// Names a file or a directory, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(u64);

/// The directories: the names in them as seen and as on stable storage, and the changes that lie
/// between.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    dirs: BTreeMap<NodeId, Dir>,
    /// The changes that no sync made durable, the oldest first.
    pending: Vec<Change>,
    next_node: u64,
}

#[derive(Debug, Clone, Default)]
struct Dir {
    cached: BTreeMap<OsString, NodeId>,
    stable: BTreeMap<OsString, NodeId>,
}

/// What one system call did to names; it survives a crash as a whole or not at all.
#[derive(Debug, Clone)]
struct Change(Vec<Assignment>);

/// A name in a directory comes to mean a node, or nothing.
#[derive(Debug, Clone)]
struct Assignment {
    dir: NodeId,
    name: OsString,
    node: Option<NodeId>,
}

/// The place of a name.
pub(super) struct Place {
    dir: NodeId,
    name: OsString,
}

const ROOT: NodeId = NodeId(0);

impl Tree {
    pub(super) fn new() -> Tree {
        let dirs = BTreeMap::from([(ROOT, Dir::default())]);
        Tree { dirs, pending: Vec::new(), next_node: 1 }
    }

    /// The node that a path names.
    pub(super) fn find(&self, path: &Path) -> io::Result<NodeId> {
        let mut node = ROOT;
        for name in names(path)? {
            let dir = self.dirs.get(&node).ok_or(io::ErrorKind::NotADirectory)?;
            node = *dir.cached.get(name).ok_or(io::ErrorKind::NotFound)?;
        }
        Ok(node)
    }

    /// The place of a path's last name; its directory must exist.
    pub(super) fn place(&self, path: &Path) -> io::Result<Place> {
        let name = names(path)?.last().copied().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let dir = self.find(path.parent().unwrap_or(Path::new("")))?;
        if !self.is_dir(dir) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Place { dir, name })
    }

    /// The node at a place.
    pub(super) fn at(&self, place: &Place) -> Option<NodeId> {
        self.dirs[&place.dir].cached.get(&place.name).copied()
    }

    pub(super) fn is_dir(&self, node: NodeId) -> bool {
        self.dirs.contains_key(&node)
    }

    /// The names in a directory.
    pub(super) fn entries(
        &self,
        dir: NodeId,
    ) -> io::Result<impl Iterator<Item = (&OsString, NodeId)>> {
        let dir = self.dirs.get(&dir).ok_or(io::ErrorKind::NotADirectory)?;
        Ok(dir.cached.iter().map(|(name, &node)| (name, node)))
    }

    /// Gives a new node a name; it becomes a directory if `is_dir`.
    pub(super) fn create(&mut self, place: Place, is_dir: bool) -> NodeId {
        let node = NodeId(self.next_node);
        self.next_node += 1;
        if is_dir {
            self.dirs.insert(node, Dir::default());
        }
        self.change(vec![Assignment { dir: place.dir, name: place.name, node: Some(node) }]);
        node
    }

    pub(super) fn remove(&mut self, place: Place) {
        self.change(vec![Assignment { dir: place.dir, name: place.name, node: None }]);
    }

    /// Moves a node; whatever was called `to` loses its name.
    pub(super) fn rename(&mut self, from: Place, to: Place) {
        let node = self.at(&from);
        self.change(vec![
            Assignment { dir: from.dir, name: from.name, node: None },
            Assignment { dir: to.dir, name: to.name, node },
        ]);
    }

    /// Makes the names in a directory durable.
    ///
    /// A change made durable takes along those that went before it at the same names, because
    /// they cannot come after.
    pub(super) fn sync(&mut self, dir: NodeId) {
        let mut names: BTreeSet<(NodeId, OsString)> = BTreeSet::new();
        let mut durable = vec![false; self.pending.len()];
        for (change, durable) in self.pending.iter().zip(&mut durable).rev() {
            let touches = |assignment: &Assignment| {
                assignment.dir == dir || names.contains(&(assignment.dir, assignment.name.clone()))
            };
            *durable = change.0.iter().any(touches);
            if *durable {
                names.extend(change.0.iter().map(|one| (one.dir, one.name.clone())));
            }
        }
        let mut durable = durable.into_iter();
        let mut take = |_: &mut Change| durable.next().expect("there is one for each change");
        let changes: Vec<Change> = self.pending.extract_if(.., &mut take).collect();
        for change in changes {
            self.make_stable(&change);
        }
    }

    /// A sync of a directory that fails: some of the changes in it are on the disk, and no later
    /// sync writes the others, because they count as clean.
    pub(super) fn fail_sync(&mut self, dir: NodeId, rng: &mut Rng) {
        let is_in_it = |change: &mut Change| change.0.iter().any(|one| one.dir == dir);
        let changes: Vec<Change> = self.pending.extract_if(.., is_in_it).collect();
        for change in changes {
            if rng.coin() {
                self.make_stable(&change);
            }
        }
    }

    /// The names after a power cut: those synced, and a random part of the changes since.
    pub(super) fn after_crash(&self, rng: &mut Rng) -> Tree {
        let mut survivor = Tree { pending: Vec::new(), ..self.clone() };
        // A file system with an ordered journal keeps the older changes; others keep any.
        let ordered = rng.coin();
        let kept = rng.below(self.pending.len() + 1);
        let survival = rng.survival();
        for (index, change) in self.pending.iter().enumerate() {
            let survives = match survival {
                Survival::EachByChance if ordered => index < kept,
                _ => survival.survives(rng),
            };
            if survives {
                survivor.make_stable(change);
            }
        }
        for dir in survivor.dirs.values_mut() {
            dir.cached = dir.stable.clone();
        }
        survivor.forget_unreachable();
        survivor
    }

    /// All nodes that have a name.
    pub(super) fn reachable(&self) -> BTreeSet<NodeId> {
        let mut found = BTreeSet::from([ROOT]);
        let mut unvisited = vec![ROOT];
        while let Some(node) = unvisited.pop() {
            let Some(dir) = self.dirs.get(&node) else { continue };
            unvisited.extend(dir.cached.values().filter(|&&node| found.insert(node)));
        }
        found
    }

    fn forget_unreachable(&mut self) {
        let reachable = self.reachable();
        self.dirs.retain(|node, _| reachable.contains(node));
    }

    fn change(&mut self, assignments: Vec<Assignment>) {
        for Assignment { dir, name, node } in &assignments {
            let dir = self.dirs.get_mut(dir).expect("a place is in a directory");
            assign(&mut dir.cached, name, *node);
        }
        self.pending.push(Change(assignments));
    }

    fn make_stable(&mut self, change: &Change) {
        for Assignment { dir, name, node } in &change.0 {
            let dir = self.dirs.get_mut(dir).expect("directories stay while a change needs them");
            assign(&mut dir.stable, name, *node);
        }
    }
}

fn assign(names: &mut BTreeMap<OsString, NodeId>, name: &OsStr, node: Option<NodeId>) {
    match node {
        Some(node) => names.insert(name.to_owned(), node),
        None => names.remove(name),
    };
}

/// The names in a path; the root and the current directory are the same here.
fn names(path: &Path) -> io::Result<Vec<&OsStr>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::RootDir | Component::CurDir => {}
            Component::Normal(name) => names.push(name),
            Component::ParentDir | Component::Prefix(_) => {
                return Err(io::ErrorKind::InvalidInput.into());
            }
        }
    }
    Ok(names)
}
