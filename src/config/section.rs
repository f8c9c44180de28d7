//! Sections: maps with known keys, each declared once for its reader and its JSON Schema.

use serde_json::{Value as Json, json};

use super::{
    fault::{At, Findings},
    tree::{self, Node, Tree},
    value::{Origin, Spanned, Value, mismatch},
};

/// What a key is like, besides its type.
#[derive(Clone, Copy)]
pub(super) struct KeyRule {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    /// YAML text that stands in when the key is absent or faulty.
    pub(super) default: &'static str,
    pub(super) required: bool,
    /// Whether a reload takes it over.
    pub(super) reloads: bool,
    /// Whether a key without a value is a fault: nothing said is not the same as nothing meant.
    pub(super) filled: bool,
}

/// A map with known keys that was read.
pub(super) trait Section {
    /// Is a key, or the value of one, a fault that was told? Then it is not what the operator meant.
    fn is_faulty(&self) -> bool;
}

/// Whether a section has keys that nobody knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    Known,
    SomeUnknown,
}

/// Makes unknown keys faults. `None`: the section is no map at all.
pub(super) fn know_keys(tree: &Tree, known: &[&str], findings: &mut Findings) -> Option<Keys> {
    let entries = match &tree.node {
        Node::Map(entries) => entries,
        _ if tree.is_null() => return Some(Keys::Known),
        _ => {
            mismatch(tree, "a map", &format!("the keys {}", known.join(", ")), findings);
            return None;
        }
    };
    let mut keys = Keys::Known;
    for (key, _) in entries {
        if !known.contains(&key.text.as_str()) {
            findings.fault(&key.at, format!("unknown key `{}`", key.text), known.join(", "));
            keys = Keys::SomeUnknown;
        }
    }
    Some(keys)
}

/// One key of a section; its default if it is absent or faulty.
pub(super) fn field<T: Value>(section: &Tree, rule: &KeyRule, findings: &mut Findings) -> Option<Spanned<T>> {
    let found = match &section.node {
        Node::Map(entries) => entries.iter().find(|(key, _)| key.text == rule.name),
        Node::Scalar { .. } | Node::List(_) | Node::Broken => None,
    };
    let (at, origin) = match found {
        Some((_, tree)) if !tree.is_null() => {
            if let Some(value) = T::read(tree, findings) {
                return Some(Spanned { at: tree.at.clone(), origin: Origin::File, value });
            }
            (&tree.at, Origin::Fault)
        }
        _ if rule.required => {
            let at = found.map_or(&section.at, |(key, _)| &key.at);
            findings.fault(at, format!("`{}` is missing", rule.name), format!("{}: {}", rule.name, rule.doc.trim()));
            (at, Origin::Fault)
        }
        Some((key, _)) if rule.filled => {
            let allowed = format!("{}: {}; or nothing at all", rule.name, rule.doc.trim());
            findings.fault(&key.at, format!("`{}` has no value", rule.name), allowed);
            (&key.at, Origin::Fault)
        }
        Some((_, tree)) => (&tree.at, Origin::Default),
        None => (&section.at, Origin::Default),
    };
    let value = T::read(&stand_in(rule.default)?, &mut Findings::default())?;
    Some(Spanned { at: at.clone(), origin, value })
}

/// A default as a tree. A file of rules leaves most keys out, so the usual ones are made without reading YAML.
fn stand_in(text: &str) -> Option<Tree> {
    let node = match text {
        "{}" => Node::Map(Vec::new()),
        "[]" => Node::List(Vec::new()),
        "null" | "true" | "false" => Node::Scalar { text: text.to_owned(), quoted: false },
        text => return tree::read(text, &|_| None, &mut Findings::default()),
    };
    Some(Tree { at: At::default(), node })
}

/// The JSON Schema of a section.
pub(super) fn object(doc: &str, keys: Vec<(KeyRule, Json)>) -> Json {
    let required: Vec<&str> = keys.iter().filter(|(rule, _)| rule.required).map(|(rule, _)| rule.name).collect();
    let mut properties = serde_json::Map::new();
    for (rule, mut schema) in keys {
        if let Some(schema) = schema.as_object_mut() {
            let reload = if rule.reloads { "a reload takes it over" } else { "needs a restart" };
            schema.insert("description".into(), format!("{}; {reload}", rule.doc.trim()).into());
            if !rule.required {
                schema.insert("default".into(), default_json(rule.default));
            }
        }
        properties.insert(rule.name.to_owned(), schema);
    }
    json!({ "type": "object", "description": doc.trim(), "properties": properties, "required": required, "additionalProperties": false })
}

fn default_json(text: &str) -> Json {
    match text {
        "null" => Json::Null,
        "true" => true.into(),
        "false" => false.into(),
        "[]" => json!([]),
        "{}" => json!({}),
        text => text.parse::<u64>().map_or_else(|_| text.trim_matches('\'').into(), Json::from),
    }
}

/// Declares a section once: a struct, its reader and its JSON Schema.
///
/// Each key: its documentation, name, type, and the YAML text of its default. `required` marks keys that must be
/// there (the text is then only a stand-in that lets checking go on); `restart` marks what a reload cannot change, `filled` what may
/// be left out but not be empty. A key
/// that is a word of Rust's is written `r#key`.
macro_rules! section {
    ($(#[doc = $about:literal])+ $name:ident {
        $( $(#[doc = $doc:literal])+ $key:ident : $type:ty = $default:literal $(, $flag:ident)* ; )+
    }) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug)]
        pub(super) struct $name {
            $( $(#[doc = $doc])+ pub(super) $key: crate::config::value::Spanned<$type>, )+
            unknown_keys: crate::config::section::Keys,
        }

        impl $name {
            fn keys() -> [crate::config::section::KeyRule; [$(stringify!($key)),+].len()] {
                [$(crate::config::section::KeyRule {
                    name: stringify!($key).trim_start_matches("r#"),
                    doc: concat!($($doc),+),
                    default: $default,
                    required: [$(stringify!($flag)),*].contains(&"required"),
                    reloads: ![$(stringify!($flag)),*].contains(&"restart"),
                    filled: [$(stringify!($flag)),*].contains(&"filled"),
                }),+]
            }
        }

        impl crate::config::section::Section for $name {
            fn is_faulty(&self) -> bool {
                self.unknown_keys == crate::config::section::Keys::SomeUnknown
                    || [$(self.$key.origin),+].contains(&crate::config::value::Origin::Fault)
            }
        }

        impl crate::config::value::Value for $name {
            fn read(tree: &crate::config::tree::Tree, findings: &mut crate::config::fault::Findings) -> Option<Self> {
                let names = [$(stringify!($key).trim_start_matches("r#")),+];
                let unknown_keys = crate::config::section::know_keys(tree, &names, findings)?;
                let mut rules = Self::keys().into_iter();
                $( let $key = crate::config::section::field(tree, &rules.next()?, findings); )+
                Some(Self { $($key: $key?,)+ unknown_keys })
            }

            fn schema() -> serde_json::Value {
                let schemas = [$(<$type>::schema()),+];
                crate::config::section::object(concat!($($about),+), Self::keys().into_iter().zip(schemas).collect())
            }
        }
    };
}

pub(super) use section;
