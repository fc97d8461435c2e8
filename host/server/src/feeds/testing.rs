//! What the feeds' tests share: payloads as engines write them.

use ct_codecs::{Base64, Decoder};
use serde_json::Value;

/// A value as msgpack, in the widest forms; `{"b64": …}` stands for bytes.
pub(super) fn pack(value: &Value) -> Vec<u8> {
    match value {
        Value::Null => vec![0xc0],
        Value::Bool(value) => vec![if *value { 0xc3 } else { 0xc2 }],
        Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
            (Some(number), ..) => [&[0xcf][..], &number.to_be_bytes()].concat(),
            (_, Some(number), _) => [&[0xd3][..], &number.to_be_bytes()].concat(),
            (.., number) => [&[0xcb][..], &number.unwrap_or_default().to_be_bytes()].concat(),
        },
        Value::String(text) => [&head(0xdb, text.len()), text.as_bytes()].concat(),
        Value::Array(list) => {
            [head(0xdd, list.len())].into_iter().chain(list.iter().map(pack)).flatten().collect()
        }
        Value::Object(map) => {
            if let Some(text) = map.get("b64").and_then(Value::as_str) {
                let bytes = base64(text);
                return [head(0xc6, bytes.len()), bytes].concat();
            }
            let pairs =
                map.iter().flat_map(|(key, value)| [pack(&key.as_str().into()), pack(value)]);
            [head(0xdf, map.len())].into_iter().chain(pairs).flatten().collect()
        }
    }
}

fn head(marker: u8, length: usize) -> Vec<u8> {
    [&[marker][..], &(length as u32).to_be_bytes()].concat()
}

/// Bytes from base64.
pub(super) fn base64(text: &str) -> Vec<u8> {
    Base64::decode_to_vec(text, None).expect("it is base64")
}
