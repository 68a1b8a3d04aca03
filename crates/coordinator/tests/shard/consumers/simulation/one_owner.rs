//! A partition has one owner: what the members of a group have, by the coordinator's word, is disjoint; and none of them
//! reads anything that it has not by that word.

use std::collections::BTreeMap;

use super::member::Place;
use super::{GROUP, World};

pub(super) fn check(world: &World) -> Result<(), String> {
    let Some(group) = world.driver.shard.group(GROUP) else { return Ok(()) };
    let mut owners: BTreeMap<Place, String> = BTreeMap::new();
    for (member, topic, partition) in group.owned_partitions() {
        if let Some(other) = owners.insert((topic, partition), member.as_str().to_owned()) {
            return Err(format!("{member} and {other} have {partition} of {}", topic.0));
        }
    }
    for member in world.members.iter().filter(|member| member.is_in_group()) {
        // Who was thrown out without knowing may still read; it cannot commit.
        if !group.has_member(&member.id) {
            continue;
        }
        for place in member.positions.keys() {
            if owners.get(place) != Some(&member.id) {
                let (id, owner) = (&member.id, owners.get(place));
                return Err(format!("{id} reads {place:?}, which {owner:?} has"));
            }
        }
    }
    Ok(())
}
