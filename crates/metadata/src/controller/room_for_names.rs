//! How many resources there can be that exist by being named.

use logway_model::ErrorCode;

use super::ControllerError;
use crate::image::{MetadataImage, Overrides};
use crate::record::ConfigResource;

/// The most groups that can have settings.
pub const GROUPS_WITH_SETTINGS_MAX: usize = 10_000;

/// The most subscriptions to clients' metrics: each is compared with each client.
pub const SUBSCRIPTIONS_MAX: usize = 100;

/// The longest name of a group or a subscription that can have settings.
const NAME_MAX_BYTES: usize = 1_024;

/// What is left, while one command is judged, of the room for groups and subscriptions.
pub(super) struct RoomForNames {
    groups: usize,
    subscriptions: usize,
}

impl RoomForNames {
    pub(super) fn of(image: &MetadataImage) -> RoomForNames {
        let (mut groups, mut subscriptions) = (0, 0);
        for (resource, _) in image.overriding() {
            match resource {
                ConfigResource::Group(_) => groups += 1,
                ConfigResource::ClientMetrics(_) => subscriptions += 1,
                _ => {}
            }
        }
        RoomForNames {
            groups: GROUPS_WITH_SETTINGS_MAX.saturating_sub(groups),
            subscriptions: SUBSCRIPTIONS_MAX.saturating_sub(subscriptions),
        }
    }

    /// Takes room for a resource, if settings are all that it exists by and it has none yet.
    pub(super) fn take(
        &mut self,
        resource: &ConfigResource,
        present: &Overrides,
        wanted: &Overrides,
    ) -> Result<(), ControllerError> {
        let (room, name, what, max) = match resource {
            ConfigResource::Group(name) => {
                (&mut self.groups, name, "groups", GROUPS_WITH_SETTINGS_MAX)
            }
            ConfigResource::ClientMetrics(name) => {
                (&mut self.subscriptions, name, "subscriptions", SUBSCRIPTIONS_MAX)
            }
            _ => return Ok(()),
        };
        if !present.is_empty() || wanted.is_empty() {
            return Ok(());
        }
        if name.len() > NAME_MAX_BYTES {
            let message = format!("The names of {what} have {NAME_MAX_BYTES} bytes at most.");
            return Err(ControllerError::new(ErrorCode::InvalidRequest, message));
        }
        *room = room.checked_sub(1).ok_or_else(|| {
            let message = format!("No more than {max} {what} can have settings.");
            ControllerError::new(ErrorCode::PolicyViolation, message)
        })?;
        Ok(())
    }
}
