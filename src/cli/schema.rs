//! `pgsluice schema`: JSON Schema for editors.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use crate::config;

/// Prints the schema.
pub fn schema(out: &mut dyn Write) -> io::Result<ExitCode> {
    writeln!(out, "{:#}", config::json_schema())?;
    Ok(ExitCode::SUCCESS)
}
