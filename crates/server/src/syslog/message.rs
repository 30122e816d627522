//! [`Message`]: one line for a syslog receiver (RFC 5424 §6).

use std::fmt::Write as _;

use api::{AuditEntry, Event, Severity};

/// Facilities (RFC 5424 table 1): system daemons, and authorization.
const DAEMON: u8 = 3;
const AUTHORIZATION: u8 = 10;

/// The enterprise number that RFC 5612 keeps for examples: we have none of our own.
const DATA_ID: &str = "flashyard@32473";

/// Every receiver takes 2048 bytes (RFC 5426 §3.2); the head takes less than half of that.
const TEXT_CHARS_MAX: usize = 800;
const VALUE_CHARS_MAX: usize = 120;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    facility: u8,
    severity: u8,
    time: String,
    kind: &'static str,
    data: Vec<(&'static str, String)>,
    text: String,
}

impl Message {
    /// An event's message.
    pub fn of_event(event: &Event) -> Message {
        Message {
            facility: DAEMON,
            severity: match event.severity {
                Severity::Error => 3,
                Severity::Warning => 4,
                Severity::Info => 6,
            },
            time: event.time.clone(),
            kind: "event",
            data: vec![
                ("id", event.id.to_string()),
                ("object", event.object.clone()),
            ],
            text: event.message.clone(),
        }
    }

    /// A change's message; what the change said stays in the audit log.
    pub fn of_audit(entry: &AuditEntry) -> Message {
        let refused = entry.status >= 400;
        Message {
            facility: AUTHORIZATION,
            severity: if refused { 4 } else { 5 },
            time: entry.time.clone(),
            kind: "audit",
            data: vec![
                ("token", entry.token.to_string()),
                ("from", entry.from.clone()),
                ("request", entry.request.clone()),
                ("status", entry.status.to_string()),
            ],
            text: match entry.others {
                0 => format!("{} {}", entry.method, entry.path),
                others => format!("{} {}, and {others} more", entry.method, entry.path),
            },
        }
    }

    /// The message as it is sent; `node` is who says it.
    pub fn text(&self, node: &str) -> String {
        let priority = self.facility * 8 + self.severity;
        let process = std::process::id();
        let mut text = format!(
            "<{priority}>1 {} {node} flashyard {process} {} [{DATA_ID}",
            self.time, self.kind
        );
        for (name, value) in &self.data {
            // Writing to memory does not fail.
            let _ = write!(text, " {name}=\"{}\"", escaped(value));
        }
        text.push_str("] ");
        // A message that is not marked as UTF-8 may hold only ASCII.
        if !self.text.is_ascii() {
            text.push('\u{feff}');
        }
        text.extend(self.text.chars().take(TEXT_CHARS_MAX).map(printable));
        text
    }
}

fn escaped(value: &str) -> String {
    let mut escaped = String::new();
    for character in value.chars().take(VALUE_CHARS_MAX).map(printable) {
        if matches!(character, '"' | '\\' | ']') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// A line feed in a message would begin a message of its own somewhere on its way.
fn printable(character: char) -> char {
    if character.is_control() {
        ' '
    } else {
        character
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(message: &str) -> Message {
        Message::of_event(&Event {
            id: 7,
            time: "2026-11-21T12:00:00.000Z".into(),
            severity: Severity::Error,
            object: "drive/d\"0]".into(),
            message: message.into(),
        })
    }

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        let process = std::process::id();
        assert_eq!(
            event("gone\n<0>1 forged").text("n1"),
            format!(
                "<27>1 2026-11-21T12:00:00.000Z n1 flashyard {process} event \
                 [flashyard@32473 id=\"7\" object=\"drive/d\\\"0\\]\"] gone <0>1 forged"
            )
        );
        assert!(event("größer").text("n1").contains("] \u{feff}größer"));
        assert!(event(&"ü".repeat(5000)).text("n1").len() < 2048);
    }

    /// Who, from where, what and with which outcome; never the body.
    #[test]
    fn a_change_is_told_without_what_it_said() {
        let entry = AuditEntry {
            id: 1,
            time: "2026-11-21T12:00:00.000Z".into(),
            token: "admin".parse().unwrap(),
            from: "10.0.0.1:5".into(),
            request: "r1".into(),
            method: "PUT".into(),
            path: "/v1/hosts/h/key".into(),
            body: Some("{\"secret\":\"DHHC-1:x\"}".into()),
            status: 403,
            code: None,
            others: 0,
        };
        let text = Message::of_audit(&entry).text("n1");
        assert!(text.starts_with("<84>1 2026-11-21T12:00:00.000Z n1 flashyard "));
        assert!(
            text.ends_with("status=\"403\"] PUT /v1/hosts/h/key"),
            "{text}"
        );
        assert!(!text.contains("DHHC"));
    }
}
