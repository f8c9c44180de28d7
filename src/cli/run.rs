//! `pgsluice run`: serve.

use std::{io, path::Path, process::ExitCode};

/// Serves the configuration at `path` until a signal ends it.
pub fn run(path: &Path) -> io::Result<ExitCode> {
    crate::app::run(path)
}
