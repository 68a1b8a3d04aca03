//! The operations, a file for each kind of thing.
//!
//! | file | operations |
//! |---|---|
//! | [`put`] | PutRecord, PutRecords |
//! | [`place`] | from the records of a request to their shards |
//! | [`iterators`] | GetShardIterator, and where readers begin |
//! | [`get`] | GetRecords |
//! | [`subscribe`] | SubscribeToShard |
//! | [`streams`] | making, deleting, listing and describing streams |
//! | [`settings`] | mode, retention, sizes, encryption, monitoring |
//! | [`shards`] | ListShards |
//! | [`reshard`] | SplitShard, MergeShards, UpdateShardCount |
//! | [`consumers`] | registered consumers |
//! | [`tags`] | tags of streams and consumers |
//! | [`policies`] | resource policies |
//! | [`account`] | limits and settings of the account |
//! | [`throughput`] | what a shard may do in a second |
//! | [`records`] | from batches to records as clients see them |

mod account;
mod consumers;
mod get;
mod iterators;
mod place;
mod policies;
mod put;
mod records;
mod reshard;
mod settings;
mod shards;
mod streams;
mod subscribe;
mod tags;
mod throughput;

use crate::call::{Call, Reply};
use crate::error::ApiError;
use crate::shapes::OperationName as Name;

/// Does what a request asks for.
pub(crate) async fn perform(call: &Call) -> Result<Reply, ApiError> {
    match call.operation.name {
        Name::PutRecord => put::put_record(call).await,
        Name::PutRecords => put::put_records(call).await,
        Name::GetShardIterator => iterators::get_shard_iterator(call).await,
        Name::GetRecords => get::get_records(call).await,
        Name::SubscribeToShard => subscribe::subscribe_to_shard(call).await,
        Name::CreateStream => streams::create_stream(call).await,
        Name::DeleteStream => streams::delete_stream(call).await,
        Name::ListStreams => streams::list_streams(call),
        Name::DescribeStream => streams::describe_stream(call),
        Name::DescribeStreamSummary => streams::describe_stream_summary(call),
        Name::IncreaseStreamRetentionPeriod => settings::change_retention(call, true).await,
        Name::DecreaseStreamRetentionPeriod => settings::change_retention(call, false).await,
        Name::UpdateStreamMode => settings::update_stream_mode(call).await,
        Name::UpdateMaxRecordSize => settings::update_max_record_size(call).await,
        Name::UpdateStreamWarmThroughput => settings::update_warm_throughput(call).await,
        Name::StartStreamEncryption => settings::start_stream_encryption(call).await,
        Name::StopStreamEncryption => settings::stop_stream_encryption(call).await,
        Name::EnableEnhancedMonitoring => settings::change_monitoring(call, true).await,
        Name::DisableEnhancedMonitoring => settings::change_monitoring(call, false).await,
        Name::ListShards => shards::list_shards(call),
        Name::SplitShard => reshard::split_shard(call).await,
        Name::MergeShards => reshard::merge_shards(call).await,
        Name::UpdateShardCount => reshard::update_shard_count(call).await,
        Name::RegisterStreamConsumer => consumers::register(call).await,
        Name::DeregisterStreamConsumer => consumers::deregister(call).await,
        Name::DescribeStreamConsumer => consumers::describe(call),
        Name::ListStreamConsumers => consumers::list(call),
        Name::AddTagsToStream => tags::add_tags_to_stream(call).await,
        Name::RemoveTagsFromStream => tags::remove_tags_from_stream(call).await,
        Name::ListTagsForStream => tags::list_tags_for_stream(call),
        Name::TagResource => tags::tag_resource(call).await,
        Name::UntagResource => tags::untag_resource(call).await,
        Name::ListTagsForResource => tags::list_tags_for_resource(call),
        Name::PutResourcePolicy => policies::put(call).await,
        Name::GetResourcePolicy => policies::get(call),
        Name::DeleteResourcePolicy => policies::delete(call).await,
        Name::DescribeLimits => account::describe_limits(call),
        Name::DescribeAccountSettings => account::describe_settings(call),
        Name::UpdateAccountSettings => account::update_settings(call).await,
    }
}
