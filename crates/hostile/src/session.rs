//! What a client sends on one connection.

use logway_wire::ApiKey;

/// Where the correlation id is in a request's header, behind API key and version.
const CORRELATION_ID_AT: std::ops::Range<usize> = 4..8;

/// A frame to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What follows the length.
    pub payload: Vec<u8>,
    /// The length that is sent in front, if it is not the payload's.
    pub announced: Option<i32>,
}

/// The frames of one connection, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Session {
    /// The frames.
    pub frames: Vec<Frame>,
    /// How many bytes at the end are not sent.
    pub cut_bytes: usize,
}

impl Frame {
    /// A frame that says its length.
    pub fn new(payload: impl Into<Vec<u8>>) -> Frame {
        Frame { payload: payload.into(), announced: None }
    }

    /// The API and version that it asks for; `None` if there is no such API.
    pub fn request(&self) -> Option<(ApiKey, i16)> {
        let &[key_high, key_low, version_high, version_low] = self.payload.first_chunk()?;
        let api_key = ApiKey::from_id(i16::from_be_bytes([key_high, key_low]))?;
        Some((api_key, i16::from_be_bytes([version_high, version_low])))
    }
}

impl Session {
    /// Reads frames with their lengths in front.
    ///
    /// # Panics
    ///
    /// If the stream is no row of whole frames, as recorded ones are.
    pub fn parse(mut stream: &[u8]) -> Session {
        let mut frames = Vec::new();
        while let Some((length, rest)) = stream.split_first_chunk() {
            let length = u32::from_be_bytes(*length) as usize;
            let (payload, rest) = rest.split_at(length);
            frames.push(Frame::new(payload));
            stream = rest;
        }
        Session { frames, cut_bytes: 0 }
    }

    /// Whether every length is that of its frame: else the broker sees other frames than these.
    pub fn is_in_frames(&self) -> bool {
        self.frames.iter().all(|frame| frame.announced.is_none())
    }

    /// Whether tokens by themselves may be expected in it, as behind version 0 of SaslHandshake.
    pub fn has_raw_tokens(&self) -> bool {
        self.frames.iter().any(|frame| frame.request() == Some((ApiKey::SaslHandshake, 0)))
    }

    /// The bytes, each request with its place as correlation id, so that answers can be told apart.
    pub fn encode(&self) -> Vec<u8> {
        let mut stream = Vec::new();
        for (place, frame) in (0_i32..).zip(&self.frames) {
            let length = i32::try_from(frame.payload.len()).expect("sessions are short");
            stream.extend(frame.announced.unwrap_or(length).to_be_bytes());
            let at = stream.len();
            stream.extend(&frame.payload);
            if let Some(correlation_id) = stream[at..].get_mut(CORRELATION_ID_AT) {
                correlation_id.copy_from_slice(&place.to_be_bytes());
            }
        }
        stream.truncate(stream.len().saturating_sub(self.cut_bytes));
        stream
    }
}
