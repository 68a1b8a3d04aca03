//! The settings by which a cluster does what nobody has asked for: it evens itself out, and comes to the next metadata level.

use super::definition::{Kind, Setting};

/// Whether the cluster moves partitions by itself.
pub const AUTO_BALANCE_SETTING: &str = "logway.auto.balance.enable";

/// After how long others get the replicas of a broker that is not heard.
pub const AUTO_BALANCE_GONE_SETTING: &str = "logway.auto.balance.gone.ms";

/// The default of [`AUTO_BALANCE_GONE_SETTING`], in ms.
pub const AUTO_BALANCE_GONE_DEFAULT: u64 = 1_800_000;

/// From when on a disk is too full.
pub const AUTO_BALANCE_DISK_SETTING: &str = "logway.auto.balance.disk.percent";

/// The default of [`AUTO_BALANCE_DISK_SETTING`], of 100.
pub const AUTO_BALANCE_DISK_DEFAULT: u8 = 80;

/// What the cluster has moved by itself last, and why.
pub const AUTO_BALANCE_LAST_SETTING: &str = "logway.auto.balance.last";

/// After how long the newest level of the metadata is finalised that all nodes know.
pub const AUTO_FINALIZE_SETTING: &str = "logway.auto.finalize.after.ms";

pub(super) static BALANCE_SETTINGS: &[Setting] = &[
    Setting::dynamic(
        AUTO_BALANCE_SETTING,
        Kind::Boolean,
        "false",
        "",
        "Whether the cluster moves partitions by itself: after a broker has joined, when one is gone for long, and when a \
         disk is too full. The controller makes the plan of `logway cluster rebalance`, or of `logway cluster decommission` for \
         one that is gone, and begins it when nothing else is on its way. `logway cluster moves --cancel` puts it back; the same \
         is not begun again. It is set for all brokers.",
    ),
    Setting::dynamic(
        AUTO_BALANCE_DISK_SETTING,
        Kind::Int { min: 1, max: 100, special: None },
        "80",
        "percent",
        "How full a disk with a log directory may become before the cluster evens itself out, with \
         `logway.auto.balance.enable`. Once it has, the disk has to become 5 percentage points emptier before it can be an \
         occasion again. Set for all brokers.",
    ),
    Setting::dynamic(
        AUTO_BALANCE_GONE_SETTING,
        Kind::long(1_000),
        "1800000",
        "ms",
        "How long a broker may not be heard before others get its replicas, with `logway.auto.balance.enable`. Another \
         controller counts anew. Set for all brokers.",
    ),
    Setting::at_start(
        AUTO_BALANCE_LAST_SETTING,
        Kind::Text,
        None,
        "",
        "What the cluster has last moved by itself, and why. The controller writes it; it is there to be read.",
    ),
    Setting::dynamic(
        AUTO_FINALIZE_SETTING,
        Kind::long(-1),
        "-1",
        "ms",
        "How long after the upgrade of the last node the cluster finalises the newest metadata level by itself, as by \
         `logway cluster finalize`; -1 is never. After it there is no way back to a version that does not know the level. All \
         nodes must answer at the end. Another controller counts anew. Set for all brokers.",
    ),
];
