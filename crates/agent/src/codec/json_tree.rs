//! What a text in JSON takes as a tree of values, which is known before there is one.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::budget::{Exhausted, Share};
use super::{Malformed, Unread};

/// A value in a list that grows, and an allocation of its own.
const VALUE_BYTES: usize = 80;

/// What a name in an object takes beside its text: its place in the map's node, and an allocation.
const NAME_BYTES: usize = 64;

/// Charges what a tree of a text's values takes.
pub(crate) fn charge_tree(text: &[u8], share: &mut Share) -> Result<(), Unread> {
    let mut exhausted = None;
    let mut json = serde_json::Deserializer::from_slice(text);
    let charged = Cost { share, exhausted: &mut exhausted }.deserialize(&mut json);
    match (charged, exhausted) {
        (_, Some(why)) => Err(why.into()),
        (Err(error), None) => Err(Malformed(format!("no JSON: {error}")).into()),
        (Ok(()), None) => Ok(()),
    }
}

struct Cost<'a> {
    share: &'a mut Share,
    exhausted: &'a mut Option<Exhausted>,
}

impl Cost<'_> {
    fn again(&mut self) -> Cost<'_> {
        Cost { share: self.share, exhausted: self.exhausted }
    }

    fn charge<E: Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.share.grow(bytes).map_err(|why| {
            *self.exhausted = Some(why);
            E::custom(why)
        })
    }
}

impl<'de> DeserializeSeed<'de> for Cost<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(mut self, json: D) -> Result<(), D::Error> {
        self.charge(VALUE_BYTES)?;
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Cost<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        self.charge(text.len())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self.again())?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        while fields.next_key_seed(self.again())?.is_some() {
            self.charge(NAME_BYTES)?;
            fields.next_value_seed(self.again())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::budget::Budget;

    #[test]
    fn a_tree_is_charged_by_its_values() {
        let charged = |text: &str, bytes| {
            let budget = Budget::new(bytes);
            charge_tree(text.as_bytes(), &mut budget.share())
        };
        let ones = format!("[{}]", vec!["1"; 1000].join(","));
        assert!(charged(&ones, 1000).is_err_and(|why| why.is_final()));
        assert!(charged(&ones, 90_000).is_ok());
        let nested = r#"{"a":[{"b":null,"c":"text","d":1.5},-1,true]}"#;
        assert!(charged(nested, 2000).is_ok() && charged(nested, 500).is_err());
        let odd = charged("[1", 1000).expect_err("is no JSON").to_string();
        assert!(odd.starts_with("no JSON"), "{odd}");
    }
}
