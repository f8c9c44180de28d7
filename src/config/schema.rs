//! JSON Schema, so that editors complete and check while one types.

use serde_json::{Value as Json, json};

use super::{raw::Raw, value::Value};

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The schema of the configuration file; that of rule files is its `#/$defs/rules`.
pub fn json_schema() -> Json {
    let mut schema = Raw::schema();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("$schema".into(), DIALECT.into());
        schema.insert("title".into(), "pgsluice configuration".into());
        schema.insert("$defs".into(), json!({ "rules": rules() }));
    }
    schema
}

/// Rule files: their sections and what every rule has. This version reads no rules yet.
fn rules() -> Json {
    let section = |doc: &str, action: &str| {
        json!({ "type": "array", "description": doc, "items": {
            "type": "object", "required": ["name"], "properties": {
                "name": { "type": "string", "description": "unique in its section" },
                "when": { "type": "object", "description": "all must hold; a list means any of" },
                action: { "type": "object", "description": "what the rule does" },
                "continue": { "type": "boolean", "default": false, "description": "try the rules after this one too" },
                "dry_run": { "type": "boolean", "default": false, "description": "count and log only" },
                "examples": { "type": "object", "description": "run by pgsluice test" },
            },
        } })
    };
    json!({
        "title": "pgsluice rule file",
        "type": "object",
        "properties": {
            "firewall": section("what is refused", "deny"),
            "routing": section("where statements go", "route"),
            "cache": section("what is remembered", "cache"),
            "rewrite": section("what is changed", "rewrite"),
            "functions": { "type": "array", "description": "what the catalog can not tell of functions" },
        },
        "additionalProperties": false,
    })
}
