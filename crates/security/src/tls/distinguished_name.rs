//! The name in a certificate as text, as Java writes it: what users of Kafka have in their ACLs.
//!
//! RFC 2253: the most specific part first, `CN=alice,OU=clients,O=Example`. Types that the RFC has a keyword for
//! are written with it, all others as numbers with the bytes of the value.

use std::fmt::Write as _;

use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::der::{Encode as _, Tag, Tagged as _};
use x509_cert::name::Name;

/// The types that RFC 2253 has keywords for.
const KEYWORDS: [(&str, &str); 9] = [
    ("2.5.4.3", "CN"),
    ("2.5.4.6", "C"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.10", "O"),
    ("2.5.4.11", "OU"),
    ("0.9.2342.19200300.100.1.25", "DC"),
    ("0.9.2342.19200300.100.1.1", "UID"),
];

/// A name as text.
pub(super) fn to_text(name: &Name) -> String {
    let mut parts = Vec::new();
    for part in name.0.iter().rev() {
        let values: Vec<String> = part.0.iter().map(attribute).collect();
        parts.push(values.join("+"));
    }
    parts.join(",")
}

fn attribute(attribute: &AttributeTypeAndValue) -> String {
    let number = attribute.oid.to_string();
    let keyword = KEYWORDS.iter().find(|(known, _)| *known == number).map(|(_, keyword)| keyword);
    match (keyword, text_of(attribute)) {
        (Some(keyword), Some(text)) => format!("{keyword}={}", escaped(&text)),
        (keyword, _) => {
            let mut text = format!("{}=#", keyword.copied().unwrap_or(&number));
            for byte in attribute.value.to_der().unwrap_or_default() {
                write!(text, "{byte:02x}").expect("writing to a string cannot fail");
            }
            text
        }
    }
}

/// The value, if it is a text.
fn text_of(attribute: &AttributeTypeAndValue) -> Option<String> {
    let bytes = attribute.value.value();
    match attribute.value.tag() {
        Tag::Utf8String | Tag::PrintableString | Tag::Ia5String | Tag::NumericString => {
            String::from_utf8(bytes.to_vec()).ok()
        }
        // Latin 1, by long habit.
        Tag::TeletexString => Some(bytes.iter().copied().map(char::from).collect()),
        Tag::BmpString => {
            let units: Vec<u16> =
                bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16(&units).ok()
        }
        _ => None,
    }
}

fn escaped(text: &str) -> String {
    let is_edge_space = |at: usize, char: char| {
        char == ' '
            && (text[..at].trim_matches(' ').is_empty() || text[at..].trim_matches(' ').is_empty())
    };
    let mut escaped = String::with_capacity(text.len());
    for (at, char) in text.char_indices() {
        match char {
            '\0' => escaped.push_str("\\00"),
            ',' | '=' | '+' | '<' | '>' | '#' | ';' | '"' | '\\' => escaped.extend(['\\', char]),
            _ if is_edge_space(at, char) => escaped.extend(['\\', char]),
            _ => escaped.push(char),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};
    use x509_cert::Certificate;
    use x509_cert::der::Decode as _;

    use super::*;

    fn subject_of(parts: &[(DnType, &str)]) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        for (kind, value) in parts {
            params.distinguished_name.push(kind.clone(), *value);
        }
        let key = KeyPair::generate().expect("a key");
        let der = params.self_signed(&key).expect("is signed");
        to_text(&Certificate::from_der(der.der()).expect("is one").tbs_certificate.subject)
    }

    #[test]
    fn the_most_specific_part_comes_first() {
        let subject = subject_of(&[
            (DnType::CountryName, "DE"),
            (DnType::OrganizationName, "Example"),
            (DnType::OrganizationalUnitName, "clients"),
            (DnType::CommonName, "alice"),
        ]);
        assert_eq!(subject, "CN=alice,OU=clients,O=Example,C=DE");
    }

    #[test]
    fn what_has_a_meaning_is_escaped() {
        let subject = subject_of(&[(DnType::CommonName, " a,b+c \"d\" #e ")]);
        assert_eq!(subject, "CN=\\ a\\,b\\+c \\\"d\\\" \\#e\\ ");
    }

    #[test]
    fn types_without_a_keyword_are_numbers_with_bytes() {
        let email = DnType::CustomDnType(vec![1, 2, 840, 113549, 1, 9, 1]);
        assert_eq!(subject_of(&[(email, "a@b")]), "1.2.840.113549.1.9.1=#0c03614062");
    }
}
