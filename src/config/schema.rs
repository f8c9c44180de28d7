//! JSON Schema, so that editors complete and check while one types.

use serde_json::{Value as Json, json};

use super::{raw::Raw, rules, value::Value};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of the configuration file; that of rule files is its `#/$defs/rules`.
pub fn json_schema() -> Json {
    let mut schema = Raw::schema();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$schema".into(), DIALECT.into());
        schema.insert("title".into(), "pgsluice configuration".into());
        schema.insert("$defs".into(), json!({ "rules": rules::schema() }));
    }
    schema
}
