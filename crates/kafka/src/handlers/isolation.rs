//! The isolation level that a consumer asks for (KIP-98).

use logway_model::ErrorCode;
use logway_node::read::Isolation;

const READ_UNCOMMITTED: i8 = 0;
const READ_COMMITTED: i8 = 1;

/// `INVALID_REQUEST` for a level that there is not: nobody is given what he may not have asked for.
pub(super) fn isolation(level: i8) -> Result<Isolation, ErrorCode> {
    match level {
        READ_UNCOMMITTED => Ok(Isolation::Uncommitted),
        READ_COMMITTED => Ok(Isolation::Committed),
        _ => Err(ErrorCode::InvalidRequest),
    }
}
