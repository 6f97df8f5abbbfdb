//! From a line to a request.

use crate::protocol::{ErrorCode, ErrorReply, Request};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Reads a request.
///
/// # Errors
/// An `error` to answer with, code `malformed`, naming the key at fault.
pub fn request(line: &str) -> Result<Request, ErrorReply> {
    let value: Value = serde_json::from_str(line)
        .map_err(|error| malformed(format!("not JSON: {error}"), None))?;
    let Value::Object(mut keys) = value else {
        return Err(malformed("expected a JSON object".to_owned(), None));
    };
    let kind = keys.remove("type");
    let Some(Value::String(kind)) = kind else {
        return Err(malformed("type: expected a string".to_owned(), KINDS));
    };
    match kind.as_str() {
        "hello" => body(keys).map(Request::Hello),
        "open" => body(keys).map(Request::Open),
        "run" => body(keys).map(Request::Run),
        "sockets" => body(keys).map(Request::Sockets),
        "connections" => body(keys).map(Request::Connections),
        "go" => body(keys).map(Request::Go),
        "stop" => body(keys).map(Request::Stop),
        "bye" => body(keys).map(Request::Bye),
        _ => Err(malformed(format!("type: unknown '{kind}'"), KINDS)),
    }
}

const KINDS: Option<&str> =
    Some("expected hello, open, run, go, sockets, connections, stop or bye");

fn body<T: DeserializeOwned>(keys: Map<String, Value>) -> Result<T, ErrorReply> {
    serde_path_to_error::deserialize(Value::Object(keys)).map_err(|error| {
        let path = error.path().to_string();
        let message = match path.as_str() {
            "." => error.inner().to_string(),
            _ => format!("{path}: {}", error.inner()),
        };
        malformed(message, None)
    })
}

fn malformed(message: String, hint: Option<&str>) -> ErrorReply {
    ErrorReply {
        code: ErrorCode::Malformed,
        message,
        hint: hint.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(line: &str) -> String {
        request(line).unwrap_err().message
    }

    #[test]
    fn errors_name_the_key() {
        assert_eq!(message("[]"), "expected a JSON object");
        assert_eq!(message(r#"{"type":1}"#), "type: expected a string");
        assert_eq!(message(r#"{"type":"dance"}"#), "type: unknown 'dance'");
        assert!(message(r#"{"type":"stop","now":1}"#).contains("unknown field `now`"));
        assert!(message(r#"{"type":"hello","protocol":-1}"#).starts_with("protocol: "));
        let open = r#"{"type":"open","workers":[],"eal_args":[],"link_timeout_s":1,
            "ports":[{"name":"a","backend":"mom"}]}"#;
        assert!(message(open).starts_with("ports[0].backend: unknown variant `mom`"));
    }

    #[test]
    fn a_key_that_may_be_null_must_still_be_there() {
        let open = r#"{"type":"open","workers":[],"eal_args":[],"link_timeout_s":1,
            "ports":[{"name":"a","backend":"mem","device":"p","rx_ring":1,"tx_ring":1}]}"#;
        assert_eq!(message(open), "ports[0]: missing field `netns`");
    }
}
