//! How sessions are damaged.

use bytes::Bytes;
use logway_log::fs::sim::Rng;
use logway_record::{BatchHeader, CRC_COVERS_FROM, MAGIC_AT, MAGIC_V2};
use logway_wire::messages::{
    AlterClientQuotasRequest, AlterConfigsRequest, IncrementalAlterConfigsRequest,
};
use logway_wire::{ApiKey, Decoder, Message, decode_request_header};

use crate::{Corpus, Entrance, Frame, Session, stranger};

/// What lengths, counts, offsets and times are at their worst.
const NUMBERS: [i64; 12] =
    [0, 1, -1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0x7fff_ffff, 0x8000_0000, i64::MAX];

/// The number of the resource type in requests about settings.
const TOPIC: i8 = 2;

/// How often topics are made anew.
const TOPICS_EVERY: usize = 200;

const REPEATS_MAX: usize = 20;
const FRAMES_MAX: usize = 64;
const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// A session that no client would send, though most of it a client might have.
pub fn mutate(corpus: &Corpus, entrance: &Entrance, random: &mut Rng) -> Session {
    if random.below(TOPICS_EVERY) == 0 {
        return corpus.topics();
    }
    let user = match entrance {
        Entrance::Open => None,
        Entrance::Stranger { user } => Some(user),
        // Some say again who they are, in the wrong way.
        Entrance::Known { user, .. } => Some(user).filter(|_| random.below(4) == 0),
    };
    let mut session = match (user, random.below(4)) {
        (Some(user), _) => stranger::session(corpus, user, random),
        (None, 0) => Session { frames: vec![corpus.request(random)], cut_bytes: 0 },
        (None, _) => corpus.session(random),
    };
    for _ in 0..=random.below(4) {
        match random.below(3) {
            0 => mutate_order(&mut session, corpus, random),
            _ => mutate_frame(&mut session, random),
        }
    }
    if random.below(8) == 0 {
        session.cut_bytes = random.below(200);
    }
    // So that what is behind the check of the CRC is reached.
    if random.coin() {
        session.frames.iter_mut().for_each(|frame| put_crcs_right(&mut frame.payload));
    }
    session.frames.retain(|frame| !binds_everybody(frame));
    session
}

/// Whether a frame is, in spite of all, a valid request to change settings or quotas that hold for others too: what
/// polite clients notice of those, they notice by right.
fn binds_everybody(frame: &Frame) -> bool {
    let mut decoder = Decoder::new(Bytes::copy_from_slice(&frame.payload));
    let Ok((api_key, header)) = decode_request_header(&mut decoder) else { return false };
    let version = header.request_api_version;
    match api_key {
        ApiKey::AlterClientQuotas => {
            AlterClientQuotasRequest::decode(&mut decoder, version).is_ok()
        }
        ApiKey::AlterConfigs => AlterConfigsRequest::decode(&mut decoder, version)
            .is_ok_and(|request| request.resources.iter().any(|of| of.resource_type != TOPIC)),
        ApiKey::IncrementalAlterConfigs => {
            IncrementalAlterConfigsRequest::decode(&mut decoder, version)
                .is_ok_and(|request| request.resources.iter().any(|of| of.resource_type != TOPIC))
        }
        _ => false,
    }
}

/// Repeats, drops, swaps and mixes frames.
fn mutate_order(session: &mut Session, corpus: &Corpus, random: &mut Rng) {
    let frames = &mut session.frames;
    let between = random.below(frames.len() + 1);
    // One of them, if there are any.
    let (one, other) = (random.below(frames.len().max(1)), random.below(frames.len().max(1)));
    match random.below(6) {
        0 => frames.insert(between, corpus.request(random)),
        1 => drop(frames.splice(between..between, corpus.session(random).frames)),
        2 => interleave(frames, corpus.session(random).frames, random),
        _ if frames.is_empty() => {}
        3 => drop(frames.remove(one)),
        4 => frames.swap(one, other),
        _ => {
            let repeated = vec![frames[one].clone(); random.below(REPEATS_MAX)];
            frames.splice(one..one, repeated);
        }
    }
    frames.truncate(FRAMES_MAX);
}

fn interleave(frames: &mut Vec<Frame>, others: Vec<Frame>, random: &mut Rng) {
    let mut others = others.into_iter();
    let mut mixed = Vec::new();
    for frame in frames.drain(..) {
        if random.coin() {
            mixed.extend(others.next());
        }
        mixed.push(frame);
    }
    mixed.extend(others);
    *frames = mixed;
}

/// Changes the bytes of one frame, or what it says of their number.
fn mutate_frame(session: &mut Session, random: &mut Rng) {
    if session.frames.is_empty() {
        return;
    }
    let place = random.below(session.frames.len());
    let Frame { payload, announced } = &mut session.frames[place];
    let from = random.below(payload.len() + 1);
    let to = from + random.below(payload.len() - from + 1).min(random.below(64) + 1);
    match random.below(10) {
        0 => *announced = Some(any_number(random) as i32),
        1 => *announced = Some((payload.len() + random.below(9)) as i32 - 4),
        2 => payload.truncate(from),
        3 => drop(payload.drain(from..to)),
        4 => {
            let repeated = payload[from..to].repeat(1 + random.below(REPEATS_MAX));
            payload.splice(from..from, repeated);
        }
        5 => payload[from..].iter_mut().for_each(|byte| *byte = random.next_u64() as u8),
        6 => set_request(payload, random),
        7 => payload[from..].iter_mut().take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
        _ => set_number(&mut payload[from..], random),
    }
    payload.truncate(PAYLOAD_BYTES_MAX);
}

/// Has a frame ask for something else, at a version that exists or not.
fn set_request(payload: &mut [u8], random: &mut Rng) {
    let Some((head, _)) = payload.split_first_chunk_mut::<4>() else { return };
    let [key_high, key_low, version_high, version_low] = head;
    if random.coin() {
        let api_key = ApiKey::ALL[random.below(ApiKey::ALL.len())].id();
        [*key_high, *key_low] = api_key.to_be_bytes();
    }
    [*version_high, *version_low] = (random.below(20) as i16 - 1).to_be_bytes();
}

/// Writes a number of any width over what is there.
fn set_number(bytes: &mut [u8], random: &mut Rng) {
    let number = any_number(random).to_be_bytes();
    let width = bytes.len().min(1 << random.below(4));
    bytes[..width].copy_from_slice(&number[number.len() - width..]);
}

fn any_number(random: &mut Rng) -> i64 {
    match random.below(4) {
        0 => random.next_u64().cast_signed(),
        1 => random.below(1_000) as i64,
        _ => NUMBERS[random.below(NUMBERS.len())],
    }
}

/// Gives every record batch in the bytes the CRC of what is in it.
fn put_crcs_right(bytes: &mut [u8]) {
    for at in 0..bytes.len() {
        let rest = &mut bytes[at..];
        if rest.get(MAGIC_AT) != Some(&MAGIC_V2.cast_unsigned()) {
            continue;
        }
        let Ok(header) = BatchHeader::parse(rest) else { continue };
        let Some(batch) = rest.get_mut(..header.size_bytes()) else { continue };
        let crc = crc_fast::crc32_iscsi(&batch[CRC_COVERS_FROM..]);
        let header = BatchHeader { crc, ..header }.encode();
        batch[..header.len()].copy_from_slice(&header);
    }
}
