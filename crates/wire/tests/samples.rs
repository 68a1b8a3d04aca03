//! Every message at every version, byte for byte.
//!
//! Reads samples, one a line: the message's name, the version, `default` or `random`, and the bytes in hexadecimal.
//! `samples.txt` was written by the Java client 4.3.0 (`tests/wire-conformance/run.sh --golden`), with one sample of
//! each kind for each version. `tests/wire-conformance/run.sh` has the same tests read many more: it names the file in
//! the environment variable `LOGWAY_WIRE_SAMPLES`.

#[macro_use]
mod all_messages;
mod survival;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use logway_wire::messages::*;
use logway_wire::{DecodeError, Decoder, Message, VersionRange};
use survival::{DECODED_BYTES_MAX, encode, survive};

struct Sample {
    name: String,
    version: i16,
    is_default: bool,
    bytes: Bytes,
}

type Reencoded = Result<(Bytes, usize), DecodeError>;

/// What the tests do with messages whose type they learn from a file.
struct Codec {
    versions: VersionRange,
    /// Decodes, encodes again, and returns the bytes together with how much of the input was read.
    reencode: fn(&Bytes, i16) -> Reencoded,
    /// The bytes of the default message.
    encode_default: fn(i16) -> Bytes,
    /// Decodes, and if that works checks that encoding loses nothing.
    survive: fn(&Bytes, i16) -> Result<(), DecodeError>,
}

impl Codec {
    fn of<M: Message + PartialEq + std::fmt::Debug>() -> Codec {
        Codec {
            versions: M::VALID_VERSIONS,
            reencode: |bytes, version| {
                let mut decoder = Decoder::with_limit(bytes.clone(), DECODED_BYTES_MAX);
                let message = M::decode(&mut decoder, version)?;
                Ok((encode(&message, version), decoder.position_bytes()))
            },
            encode_default: |version| encode(&M::default(), version),
            survive: survive::<M>,
        }
    }
}

fn codecs() -> BTreeMap<&'static str, Codec> {
    macro_rules! collect {
        ($($name:ident)*) => { BTreeMap::from([$((stringify!($name), Codec::of::<$name>())),*]) };
    }
    with_all_messages!(collect)
}

fn samples() -> Vec<Sample> {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/samples.txt").to_owned();
    let path = std::env::var("LOGWAY_WIRE_SAMPLES").unwrap_or(golden);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    text.lines().map(parse).collect()
}

fn parse(line: &str) -> Sample {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap_or_else(|| panic!("words are missing in '{line}'"));
    let (name, version, kind, hex) = (word(), word(), word(), word());
    let digit = |digit: u8| (digit as char).to_digit(16).expect("hexadecimal digits") as u8;
    let bytes = hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
    let version = version.parse().expect("the version is a number");
    Sample { name: name.to_owned(), version, is_default: kind == "default", bytes }
}

#[test]
fn samples_cover_every_version_of_every_message() {
    let present: BTreeSet<_> =
        samples().into_iter().map(|sample| (sample.name, sample.version)).collect();
    let mut expected = BTreeSet::new();
    for (name, codec) in codecs() {
        expected.extend(codec.versions.iter().map(|version| (name.to_owned(), version)));
    }
    let differing: Vec<_> = present.symmetric_difference(&expected).collect();
    assert!(differing.is_empty(), "{differing:?} have samples or a codec, and not both");
}

#[test]
fn samples_are_encoded_as_they_were() {
    let (codecs, samples) = (codecs(), samples());
    let mut differences = 0;
    for sample in &samples {
        let expected = Ok((sample.bytes.clone(), sample.bytes.len()));
        let actual = (codecs[&*sample.name].reencode)(&sample.bytes, sample.version);
        if actual != expected {
            differences += 1;
            eprintln!("{} v{}:\n  {expected:?}\n  {actual:?}", sample.name, sample.version);
        }
    }
    let versions: BTreeSet<_> =
        samples.iter().map(|sample| (&sample.name, sample.version)).collect();
    let messages: BTreeSet<_> = samples.iter().map(|sample| &sample.name).collect();
    println!(
        "Rust: {} messages, {} versions, {} samples, {differences} differences",
        messages.len(),
        versions.len(),
        samples.len()
    );
    assert_eq!(differences, 0);
}

#[test]
fn defaults_are_those_of_the_definitions() {
    let codecs = codecs();
    for sample in samples().iter().filter(|sample| sample.is_default) {
        let actual = (codecs[&*sample.name].encode_default)(sample.version);
        assert_eq!(actual, sample.bytes, "{} v{}", sample.name, sample.version);
    }
}

#[test]
fn truncated_messages_are_refused() {
    let codecs = codecs();
    for sample in samples() {
        // Every place in most messages, 500 places in the large ones.
        for len in (0..sample.bytes.len()).step_by(1 + sample.bytes.len() / 500) {
            let truncated = sample.bytes.slice(..len);
            let result = (codecs[&*sample.name].reencode)(&truncated, sample.version);
            assert!(result.is_err(), "{} v{} cut to {len} bytes", sample.name, sample.version);
        }
    }
}

#[test]
fn damaged_messages_are_refused_or_understood() {
    let codecs = codecs();
    let mut refused = 0;
    for sample in samples().iter().filter(|sample| !sample.bytes.is_empty()) {
        for attempt in 0..32_usize {
            // Spread over the message; each place gets a small change, a sign bit, or the start of a large number.
            let place = attempt * 7919 % sample.bytes.len();
            let mut damaged = sample.bytes.to_vec();
            damaged[place] =
                [damaged[place].wrapping_add(1), damaged[place] ^ 0x80, 0xff, 0x7f][attempt % 4];
            let result = (codecs[&*sample.name].survive)(&damaged.into(), sample.version);
            refused += usize::from(result.is_err());
        }
    }
    assert!(refused > 0, "some damage must be noticed");
}
