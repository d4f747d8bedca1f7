//! Addresses and masks in JSON: strings like "0x8005801000", because JSON numbers are exact to 53 bits only.

use serde::{de::Error, Deserialize, Deserializer, Serializer};

/// The number that a text says, decimal or with `0x`.
pub fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) if !digits.starts_with('+') => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => text.parse().ok().filter(|_| !text.starts_with('+')),
    }
}

/// Either way of writing a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(u64),
    Text(String),
}

impl Number {
    fn value<E: Error>(self) -> Result<u64, E> {
        match self {
            Number::Plain(number) => Ok(number),
            Number::Text(text) => {
                parse(&text).ok_or_else(|| E::custom(format!("'{text}' is no address: write it like \"0x8005801000\"")))
            }
        }
    }
}

/// For serde.
pub fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:#x}"))
}

/// For serde: a string, or a plain number.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Number::deserialize(deserializer)?.value()
}

/// The same for values that may be missing.
pub mod optional {
    use super::*;

    /// For serde.
    pub fn serialize<S: Serializer>(value: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => super::serialize(value, serializer),
            None => serializer.serialize_none(),
        }
    }

    /// For serde.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Option::<Number>::deserialize(deserializer)?.map(Number::value).transpose()
    }
}

/// Byte strings as hexadecimal digits.
pub mod bytes {
    use super::*;

    /// The bytes of an even number of digits.
    pub fn parse(text: &str) -> Option<Vec<u8>> {
        let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let bytes: Option<Vec<u8>> = pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
        bytes.filter(|_| rest.is_empty())
    }

    /// For serde.
    pub fn serialize<S: Serializer>(value: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        use std::fmt::Write;
        serializer.serialize_str(&value.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }))
    }

    /// For serde.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse(&text).ok_or_else(|| D::Error::custom("bytes are an even number of hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes() {
        assert_eq!(
            (parse("0x10"), parse("10"), parse("0xg"), parse("0x+1"), parse("+1")),
            (Some(16), Some(10), None, None, None)
        );
        assert_eq!(bytes::parse("00fFa1"), Some(vec![0, 255, 0xa1]));
        assert_eq!((bytes::parse("0"), bytes::parse("zz"), bytes::parse("é")), (None, None, None));
    }
}
