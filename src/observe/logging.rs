//! Log set-up: to standard error, as text or one JSON object per line; the level can change while running.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::{EnvFilter, Registry, fmt, layer::SubscriberExt, reload, util::SubscriberInitExt};

use crate::config::{Log, LogFormat};

/// Why the log cannot be set up or changed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// `log.level` is no filter.
    #[error("log.level: {0}; expected error, warn, info, debug, trace or target=level, separated by commas")]
    Filter(#[from] tracing_subscriber::filter::ParseError),
    /// A subscriber is installed already.
    #[error("the log is set up already: {0}")]
    Twice(#[from] tracing_subscriber::util::TryInitError),
    /// The subscriber is gone.
    #[error("the log's level cannot change any more: {0}")]
    Gone(#[from] reload::Error),
}

/// Changes the level while running.
#[derive(Clone)]
pub struct LogControl(reload::Handle<EnvFilter, Registry>);

/// Sets up the process's log; once per process.
pub fn install(log: &Log) -> Result<LogControl, LogError> {
    let (filter, handle) = reload::Layer::new(EnvFilter::builder().parse(&log.level)?);
    let base = tracing_subscriber::registry().with(filter);
    match log.format {
        // Colours are for people; files and journals take the text alone.
        LogFormat::Text => base.with(fmt::layer().with_writer(stderr).with_ansi(is_coloured())).try_init()?,
        LogFormat::Json => base.with(fmt::layer().json().with_writer(stderr)).try_init()?,
    }
    Ok(LogControl(handle))
}

/// <https://no-color.org>
fn is_coloured() -> bool {
    stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

impl LogControl {
    /// Takes over a new level; a bad one changes nothing.
    pub fn set_level(&self, level: &str) -> Result<(), LogError> {
        Ok(self.0.reload(EnvFilter::builder().parse(level)?)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_level_changes_and_a_bad_one_changes_nothing() {
        let log = Log { level: "info".to_owned(), format: LogFormat::Json };
        let bad = Log { level: "pgsluice=loud".to_owned(), ..log.clone() };
        assert!(matches!(install(&bad), Err(LogError::Filter(_))));
        let control = install(&log).unwrap();
        assert!(matches!(install(&log), Err(LogError::Twice(_))));
        let level = || tracing::level_filters::LevelFilter::current().to_string();
        assert_eq!(level(), "info");
        control.set_level("pgsluice::pool=debug,warn").unwrap();
        assert_eq!(level(), "debug");
        assert!(control.set_level("x=y=z").is_err());
        assert_eq!(level(), "debug");
    }
}
