//! Objects in Apache Parquet, an event a row.

use std::sync::{Arc, LazyLock};

use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

use crate::channel::Place;
use crate::event::Event;
use crate::sink::template::time_ms;

/// `offset` and `partition` are those of the record that the event was, if it was one; `timestamp` is its header of
/// that name, or else when it was written; `key` is its header of that name.
const COLUMNS: &str = "
    message event {
        OPTIONAL INT64 offset;
        OPTIONAL INT32 partition;
        REQUIRED INT64 timestamp (TIMESTAMP(MILLIS,true));
        OPTIONAL BINARY key (STRING);
        REQUIRED group headers (MAP) {
            REPEATED group key_value {
                REQUIRED BINARY key (STRING);
                REQUIRED BINARY value (STRING);
            }
        }
        REQUIRED BINARY body;
    }";

static SCHEMA: LazyLock<TypePtr> =
    LazyLock::new(|| Arc::new(parse_message_type(COLUMNS).expect("is a schema")));

/// What a reader has to have in memory at once: a row group ends with so many bytes of events.
const GROUP_BYTES: usize = 64 << 20;

/// An object of these events, with the place in a topic of each that had one.
pub(super) fn body(
    events: &[Event],
    places: &[Option<Place>],
    is_packed: bool,
) -> Result<Vec<u8>, ParquetError> {
    let compression = if is_packed { Compression::SNAPPY } else { Compression::UNCOMPRESSED };
    let properties = WriterProperties::builder().set_compression(compression);
    let properties: WriterPropertiesPtr =
        Arc::new(properties.set_created_by("logway agent".to_owned()).build());
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::clone(&SCHEMA), properties)?;
    let (mut events, mut places) = (events, places);
    while !events.is_empty() {
        let mut bytes = 0;
        let is_within = |event: &&Event| {
            let is_within = bytes < GROUP_BYTES;
            bytes += event.size_bytes();
            is_within
        };
        let count = events.iter().take_while(is_within).count();
        let mut group = writer.next_row_group()?;
        write_group(&mut group, &events[..count], &places[..count])?;
        group.close()?;
        (events, places) = (&events[count..], &places[count..]);
    }
    writer.into_inner()
}

/// Columns in the order of the schema.
fn write_group(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    events: &[Event],
    places: &[Option<Place>],
) -> Result<(), ParquetError> {
    let place = |index: usize| Place::of(&events[index]).or(places[index]);
    let places: Vec<Option<Place>> = (0..events.len()).map(place).collect();
    let offsets = places.iter().map(|place| place.map(|place| place.offset.0));
    write_optional::<Int64Type>(group, offsets)?;
    let partitions = places.iter().map(|place| place.map(|place| place.partition.0));
    write_optional::<Int32Type>(group, partitions)?;
    let times: Vec<i64> = events.iter().map(time_ms).collect();
    write::<Int64Type>(group, &times, None, None)?;
    let keys = events.iter().map(|event| event.headers.get("key").map(text));
    write_optional::<ByteArrayType>(group, keys)?;
    let levels = MapLevels::of(events);
    let headers = || events.iter().flat_map(|event| event.headers.iter());
    let names: Vec<ByteArray> = headers().map(|(name, _)| text(name)).collect();
    levels.write(group, &names)?;
    let values: Vec<ByteArray> = headers().map(|(_, value)| text(value)).collect();
    levels.write(group, &values)?;
    let bodies: Vec<ByteArray> =
        events.iter().map(|event| ByteArray::from(event.body.clone())).collect();
    write::<ByteArrayType>(group, &bodies, None, None)
}

fn text(text: &str) -> ByteArray {
    ByteArray::from(text)
}

fn write_optional<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<(), ParquetError> {
    let values: Vec<Option<T::T>> = values.collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    write::<T>(group, &values, Some(&levels), None)
}

fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[T::T],
    definition_levels: Option<&[i16]>,
    repetition_levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let mut column = group.next_column()?.expect("the schema has so many columns");
    column.typed::<T>().write_batch(values, definition_levels, repetition_levels)?;
    column.close()
}

/// Which of the headers begin a row (0) and which go on with it (1); a row without headers has one that is not there.
struct MapLevels {
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
}

impl MapLevels {
    fn of(events: &[Event]) -> MapLevels {
        let mut levels = MapLevels { definitions: Vec::new(), repetitions: Vec::new() };
        for event in events {
            let count = event.headers.len();
            for index in 0..count.max(1) {
                levels.definitions.push(i16::from(count > 0));
                levels.repetitions.push(i16::from(index > 0));
            }
        }
        levels
    }

    fn write(
        &self,
        group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
        texts: &[ByteArray],
    ) -> Result<(), ParquetError> {
        write::<ByteArrayType>(group, texts, Some(&self.definitions), Some(&self.repetitions))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use logway_model::{Offset, PartitionId};
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    fn event(body: &str, headers: &[(&str, &str)]) -> Event {
        let headers = headers.iter().copied().collect();
        Event { headers, body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    #[test]
    fn rows_are_read_back_as_they_were() {
        let events = [
            event("one", &[("timestamp", "1795791845678"), ("key", "k"), ("a", "1")]),
            event("two", &[]),
            event("three", &[("timestamp", "1000"), ("offset", "7"), ("partition", "3")]),
        ];
        let place = Place { partition: PartitionId(1), offset: Offset(41) };
        for is_packed in [false, true] {
            let bytes = body(&events, &[Some(place), None, Some(place)], is_packed);
            let bytes = Bytes::from(bytes.expect("is written"));
            let reader = SerializedFileReader::new(bytes).expect("is Parquet");
            let rows = reader.get_row_iter(None).expect("has rows");
            let rows: Vec<String> = rows.map(|row| row.expect("is a row").to_string()).collect();
            assert_eq!(rows.len(), 3);
            // What was a record elsewhere is known by that place.
            for (row, parts) in rows.iter().zip([
                [
                    "offset: 41",
                    "partition: 1",
                    "key: \"k\"",
                    "\"a\" -> \"1\"",
                    "2026-11-27 15:04:05.678",
                ],
                [
                    "offset: null",
                    "partition: null",
                    "key: null",
                    "headers: {}",
                    "body: [116, 119, 111]",
                ],
                [
                    "offset: 7",
                    "partition: 3",
                    "key: null",
                    "\"partition\" -> \"3\"",
                    "1970-01-01 00:00:01",
                ],
            ]) {
                parts.iter().for_each(|part| assert!(row.contains(part), "{part}: {row}"));
            }
        }
    }

    #[test]
    fn large_objects_have_several_row_groups() {
        let large = Event::new(vec![b'x'; 24 << 20]);
        let events = vec![large; 7];
        let bytes = body(&events, &[None; 7], true).expect("is written");
        let reader = SerializedFileReader::new(Bytes::from(bytes)).expect("is Parquet");
        let groups =
            (0..reader.num_row_groups()).map(|group| reader.metadata().row_group(group).num_rows());
        assert_eq!(groups.collect::<Vec<_>>(), [3, 3, 1]);
    }
}
