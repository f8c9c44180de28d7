//! Typed readers over the tree. Each says what is wrong and goes on, and describes itself for the JSON Schema.

use std::{num::NonZeroU32, time::Duration};

use serde_json::{Value as Json, json};

use super::{
    fault::{At, Findings},
    tree::{Node, Tree},
};

/// Something a key can hold.
pub(super) trait Value: Sized {
    /// `None`: unusable, and the findings say why.
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self>;
    /// Its JSON Schema.
    fn schema() -> Json;
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// It stands in the file.
    File,
    /// The file does not say; it is the default.
    Default,
    /// What the file says is a fault already told; the default stands in, and no more faults are drawn from it.
    Fault,
}

/// A value, where it stands, and where it comes from.
#[derive(Clone, Debug)]
pub(super) struct Spanned<T> {
    pub(super) at: At,
    pub(super) origin: Origin,
    pub(super) value: T,
}

impl<T> Spanned<T> {
    /// The value stands in the file.
    pub(super) fn is_given(&self) -> bool {
        self.origin == Origin::File
    }
}

/// The text of a scalar; a list or a map is a fault.
pub(super) fn scalar<'a>(tree: &'a Tree, wanted: &str, findings: &mut Findings) -> Option<&'a str> {
    match &tree.node {
        Node::Scalar { text, .. } if !tree.is_null() => Some(text),
        _ => {
            mismatch(tree, "one value", wanted, findings);
            None
        }
    }
}

pub(super) fn mismatch(tree: &Tree, noun: &str, allowed: &str, findings: &mut Findings) {
    if matches!(tree.node, Node::Broken) {
        return;
    }
    findings.fault(&tree.at, format!("{} must stand here, not {}", noun, tree.noun()), allowed);
}

/// Reads a scalar with `parse`, or says what `allowed` is.
fn parsed<T>(tree: &Tree, allowed: &str, findings: &mut Findings, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
    let text = scalar(tree, allowed, findings)?;
    let value = parse(text);
    if value.is_none() {
        findings.fault(&tree.at, format!("`{text}` does not fit here"), allowed);
    }
    value
}

impl Value for String {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        // Not through `parsed`: a text may be a secret and is never repeated in a message.
        scalar(tree, "a text", findings).map(str::to_owned)
    }

    fn schema() -> Json {
        json!({ "type": ["string", "number"] })
    }
}

impl Value for bool {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        parsed(tree, "true, false", findings, |text| match text {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        })
    }

    fn schema() -> Json {
        json!({ "type": ["boolean", "string"], "pattern": FROM_ENV })
    }
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count<const MIN: u32, const MAX: u32>(pub(super) u32);

impl<const MIN: u32, const MAX: u32> Value for Count<MIN, MAX> {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        let allowed = format!("a whole number from {MIN} to {MAX}");
        parsed(tree, &allowed, findings, |text| text.parse().ok().filter(|n| (MIN..=MAX).contains(n)).map(Self))
    }

    fn schema() -> Json {
        json!({ "type": ["integer", "string"], "minimum": MIN, "maximum": MAX, "pattern": FROM_ENV })
    }
}

/// What a text must look like where a number or a word is wanted that only the environment knows.
pub(super) const FROM_ENV: &str = "\\$\\{";

const DURATIONS: &str = "a number with a unit: 250ms, 5s, 10m, 1h; 0 for none";
const SIZES: &str = "bytes, or a number with a unit: 64KiB, 16MiB, 1GiB";

impl Value for Duration {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        parsed(tree, DURATIONS, findings, duration)
    }

    fn schema() -> Json {
        json!({ "type": ["string", "integer"], "pattern": "^([0-9]+(ms|s|m|h)|0|\\$\\{.*)$" })
    }
}

/// A number of bytes from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes<const MIN: u64, const MAX: u64>(pub(super) u64);

impl<const MIN: u64, const MAX: u64> Value for Bytes<MIN, MAX> {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        let allowed = format!("{SIZES}; from {MIN} to {MAX} bytes");
        parsed(tree, &allowed, findings, |text| size(text).filter(|n| (MIN..=MAX).contains(n)).map(Self))
    }

    fn schema() -> Json {
        json!({ "type": ["string", "integer"], "pattern": "^([0-9]+(KiB|MiB|GiB|B)?|\\$\\{.*)$" })
    }
}

impl Value for super::MaxLag {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        let allowed = format!("{DURATIONS}; or {SIZES}");
        parsed(tree, &allowed, findings, |text| duration(text).map(Self::Time).or_else(|| size(text).map(Self::Bytes)))
    }

    fn schema() -> Json {
        json!({ "type": ["string", "integer"], "pattern": "^([0-9]+(ms|s|m|h|KiB|MiB|GiB|B)?|\\$\\{.*)$" })
    }
}

const RATES: &str = "statements a second such as 100 or 100/s, or 600/m, 5000/h; from 1 to 1000000";
/// More in any unit is no limit that could be kept.
const HIGHEST_RATE: u32 = 1_000_000;

impl Value for super::Rate {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        parsed(tree, RATES, findings, |text| {
            let (number, unit) = text.split_once('/').unwrap_or((text, "s"));
            let seconds = match unit.trim() {
                "s" => 1,
                "m" => 60,
                "h" => 3600,
                _ => return None,
            };
            let statements = number.trim().parse::<NonZeroU32>().ok().filter(|n| n.get() <= HIGHEST_RATE)?;
            Some(Self { statements, per: Duration::from_secs(seconds) })
        })
    }

    fn schema() -> Json {
        json!({ "type": ["integer", "string"], "minimum": 1, "maximum": HIGHEST_RATE, "pattern": "^([0-9]+(/[smh])?|\\$\\{.*)$" })
    }
}

/// `250ms`, `5s`, `10m`, `1h`, `0`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split_unit(text)?;
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "" if number == 0 => 1,
        _ => return None,
    };
    // A hundred years are enough, and deadlines computed from them stay representable.
    number.checked_mul(unit_ms).filter(|ms| *ms <= 100 * 366 * 24 * 3_600_000).map(Duration::from_millis)
}

/// `64KiB`, `16MiB`, `1GiB`, plain bytes.
pub(super) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split_unit(text)?;
    let unit_bytes = match unit {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(unit_bytes)
}

fn split_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

impl<T: Value> Value for Option<T> {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        if tree.is_null() { Some(None) } else { T::read(tree, findings).map(Some) }
    }

    fn schema() -> Json {
        json!({ "anyOf": [{ "type": "null" }, T::schema()] })
    }
}

impl<T: Value> Value for Spanned<T> {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        Some(Self { at: tree.at.clone(), origin: Origin::File, value: T::read(tree, findings)? })
    }

    fn schema() -> Json {
        T::schema()
    }
}

/// A list; items that do not fit are left out, as faults. If none fits, the list itself does not.
impl<T: Value> Value for Vec<T> {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        match &tree.node {
            Node::List(items) => {
                let read: Vec<T> = items.iter().filter_map(|item| T::read(item, findings)).collect();
                (items.is_empty() || !read.is_empty()).then_some(read)
            }
            Node::Scalar { .. } | Node::Map(_) | Node::Broken => {
                mismatch(tree, "a list", "[ … ], or lines that begin with -", findings);
                None
            }
        }
    }

    fn schema() -> Json {
        json!({ "type": "array", "items": T::schema() })
    }
}

/// A list, or its only item without the brackets.
#[derive(Clone, Debug)]
pub(super) struct OneOrMany<T>(pub(super) Vec<Spanned<T>>);

impl<T: Value> Value for OneOrMany<T> {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        match &tree.node {
            Node::List(_) => Vec::read(tree, findings).map(Self),
            Node::Scalar { .. } | Node::Map(_) | Node::Broken => {
                Spanned::read(tree, findings).map(|item| Self(vec![item]))
            }
        }
    }

    fn schema() -> Json {
        json!({ "anyOf": [T::schema(), { "type": "array", "items": T::schema() }] })
    }
}

/// A map whose keys are names the operator chooses.
#[derive(Clone, Debug)]
pub(super) struct Named<T>(pub(super) Vec<(Spanned<String>, T)>);

impl<T: Value> Value for Named<T> {
    fn read(tree: &Tree, findings: &mut Findings) -> Option<Self> {
        let Node::Map(entries) = &tree.node else {
            mismatch(tree, "a map", "a map from names", findings);
            return None;
        };
        let read = entries.iter().filter_map(|(key, tree)| {
            let name = Spanned { at: key.at.clone(), origin: Origin::File, value: key.text.clone() };
            T::read(tree, findings).map(|value| (name, value))
        });
        let read: Vec<_> = read.collect();
        (entries.is_empty() || !read.is_empty()).then_some(Self(read))
    }

    fn schema() -> Json {
        json!({ "type": "object", "additionalProperties": T::schema() })
    }
}

/// Makes an enum readable from its words; the words are listed once.
macro_rules! words {
    ($name:path { $($word:literal => $variant:ident),+ $(,)? }) => {
        impl crate::config::value::Value for $name {
            fn read(tree: &crate::config::tree::Tree, findings: &mut crate::config::fault::Findings) -> Option<Self> {
                let allowed = [$($word),+].join(", ");
                let text = crate::config::value::scalar(tree, &allowed, findings)?;
                match text {
                    $($word => Some(<$name>::$variant),)+
                    _ => {
                        findings.fault(&tree.at, format!("`{text}` does not fit here"), allowed);
                        None
                    }
                }
            }

            fn schema() -> serde_json::Value {
                serde_json::json!({ "anyOf": [
                    { "enum": [$($word),+] },
                    { "type": "string", "pattern": crate::config::value::FROM_ENV },
                ] })
            }
        }
    };
}

pub(super) use words;
