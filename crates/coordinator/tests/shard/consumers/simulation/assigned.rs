//! In the end every partition of every topic that somebody reads has an owner, who reads that topic.

use super::{GROUP, World};

pub(super) fn check(world: &World) -> Result<(), String> {
    let live: Vec<_> = world.members.iter().filter(|member| member.is_in_group()).collect();
    let Some(group) = world.driver.shard.group(GROUP) else {
        return match live.is_empty() {
            true => Ok(()),
            false => Err("there is no group".to_owned()),
        };
    };
    if !live.is_empty() && group.state_name() != "Stable" {
        return Err(format!("the group is {}", group.state_name()));
    }
    for (name, topic) in &world.driver.cluster.topics {
        let readers: Vec<_> = live.iter().filter(|member| member.reads(name)).collect();
        if readers.is_empty() {
            continue;
        }
        for number in (0..topic.partition_count).map(logway_model::PartitionId) {
            let place = (topic.id, number);
            let owners = readers.iter().filter(|member| member.positions.contains_key(&place));
            let owners: Vec<_> = owners.map(|member| &member.id).collect();
            if owners.len() != 1 {
                return Err(format!("{name}-{number} is read by {owners:?}"));
            }
        }
    }
    Ok(())
}
