//! YAML as a tree of nodes that know their line.
//!
//! Profiles need no aliases, tags or several documents, and without them a
//! file cannot grow while it is read.

use super::At;
use saphyr_parser::{Event, Parser, StrInput};

/// Sequences and mappings inside each other at most.
const MAX_DEPTH: usize = 16;
/// Nodes at most.
const MAX_NODES: usize = 100_000;

/// A value and the line where it begins, from 1.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Scalar(String),
    Sequence(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// A key of a mapping and what it maps to.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) line: usize,
    pub(super) node: Node,
}

/// Reads the one document of `text`.
pub(super) fn parse(text: &str) -> Result<Node, At> {
    let mut builder = Builder {
        parser: Parser::new_from_str(text),
        nodes: 0,
    };
    loop {
        match builder.next()? {
            (Event::StreamStart | Event::DocumentStart(_), _) => {}
            (Event::StreamEnd, line) => return Err(At::new(line, "the file is empty")),
            (event, line) => {
                let root = builder.node(event, line, 0)?;
                return builder.end().map(|()| root);
            }
        }
    }
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    nodes: usize,
}

impl<'a> Builder<'a> {
    fn next(&mut self) -> Result<(Event<'a>, usize), At> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, span.start.line())),
            Some(Err(error)) => Err(At::new(
                error.marker().line(),
                format!("not YAML: {}", error.info()),
            )),
            None => Ok((Event::StreamEnd, 1)),
        }
    }

    fn end(&mut self) -> Result<(), At> {
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(()),
                (Event::DocumentEnd | Event::Nothing, _) => {}
                (_, line) => return Err(At::new(line, "a second document, expected one")),
            }
        }
    }

    fn node(&mut self, event: Event<'a>, line: usize, depth: usize) -> Result<Node, At> {
        self.nodes += 1;
        if depth > MAX_DEPTH || self.nodes > MAX_NODES {
            let message = format!(
                "expected at most {MAX_NODES} values, at most {MAX_DEPTH} inside each other"
            );
            return Err(At::new(line, message));
        }
        let value = match event {
            Event::Scalar(_, _, _, Some(tag))
            | Event::SequenceStart(_, Some(tag))
            | Event::MappingStart(_, Some(tag)) => {
                let tag = shortened(&tag.to_string());
                let message = format!("tag {tag}: tags are not supported");
                return Err(At::new(line, message));
            }
            Event::Alias(_) => return Err(At::new(line, "aliases (*name) are not supported")),
            Event::Scalar(text, ..) => Value::Scalar(text.into_owned()),
            Event::SequenceStart(..) => self.sequence(depth)?,
            Event::MappingStart(..) => self.mapping(depth)?,
            _ => return Err(At::new(line, "expected a value")),
        };
        Ok(Node { line, value })
    }

    fn sequence(&mut self, depth: usize) -> Result<Value, At> {
        let mut nodes = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Value::Sequence(nodes)),
                (event, line) => nodes.push(self.node(event, line, depth + 1)?),
            }
        }
    }

    fn mapping(&mut self, depth: usize) -> Result<Value, At> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, line) = self.next()?;
            if event == Event::MappingEnd {
                return Ok(Value::Mapping(entries));
            }
            let Value::Scalar(key) = self.node(event, line, depth + 1)?.value else {
                return Err(At::new(line, "expected a word as key"));
            };
            // Mappings of profiles have a handful of keys; a hostile one is
            // bounded here before looking through it becomes slow.
            if entries.len() == MAX_KEYS {
                let message = format!("more than {MAX_KEYS} keys");
                return Err(At::new(line, message));
            }
            if let Some(first) = entries.iter().find(|entry| entry.key == key) {
                let key = shortened(&key);
                let message = format!("{key}: already given in line {}; remove one", first.line);
                return Err(At::new(line, message));
            }
            let (event, value_line) = self.next()?;
            let node = self.node(event, value_line, depth + 1)?;
            entries.push(Entry { key, line, node });
        }
    }
}

/// Keys of one mapping at most.
const MAX_KEYS: usize = 100;

/// The beginning of what may be a megabyte.
pub(super) fn shortened(text: &str) -> String {
    let mut shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() {
        shown.push_str("...");
    }
    shown
}
