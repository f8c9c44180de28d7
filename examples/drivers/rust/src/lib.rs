//! What the Rust programs share: running checks and printing a line each.

use std::{
    error::Error,
    process::ExitCode,
    time::{Duration, Instant},
};

/// What a check ends with.
pub type Checked = Result<(), Box<dyn Error + Send + Sync>>;

/// Where the programs connect to.
pub fn url() -> String {
    std::env::var("PGSLUICE_URL").expect("set PGSLUICE_URL")
}

/// The URL with more options, already encoded.
pub fn url_with(options: &str) -> String {
    format!("{}?{options}", url())
}

/// An error that says where.
#[macro_export]
macro_rules! equal {
    ($got:expr, $want:expr) => {{
        match (&$got, &$want) {
            (got, want) if got != want => {
                return Err(format!("line {}: expected {want:?}, got {got:?}", line!()).into());
            }
            _ => {}
        }
    }};
}

/// The same for a SQLSTATE: `fails!(result, code_of, "22012")`.
#[macro_export]
macro_rules! fails {
    ($result:expr, $code_of:expr, $want:expr) => {{
        match $result {
            Ok(_) => return Err(format!("line {}: no error {}", line!(), $want).into()),
            Err(error) => {
                let code = $code_of(&error);
                if code.as_deref() != Some($want) {
                    return Err(format!("line {}: expected {}, got {error}", line!(), $want).into());
                }
            }
        }
    }};
}

/// Prints the lines.
#[derive(Default)]
pub struct Report {
    failed: bool,
}

impl Report {
    /// One check's.
    pub fn line(&mut self, name: &str, result: Checked) {
        match result {
            Ok(()) => println!("ok   {name}"),
            Err(error) => {
                self.failed = true;
                let mut words = error.to_string();
                let mut cause = error.source();
                while let Some(inner) = cause {
                    words = format!("{words}: {inner}");
                    cause = inner.source();
                }
                println!("FAIL {name}: {}", words.replace('\n', " | "));
            }
        }
    }

    /// Failure if any failed.
    pub fn code(&self) -> ExitCode {
        ExitCode::from(u8::from(self.failed))
    }
}

/// Runs a check of an asynchronous driver with a limit.
pub async fn limited(check: impl Future<Output = Checked>) -> Checked {
    tokio::time::timeout(Duration::from_secs(60), check).await.unwrap_or_else(|_| Err("no end within 60 s".into()))
}

/// An error if it took longer.
pub fn within(started: Instant, limit: Duration) -> Checked {
    let took = started.elapsed();
    if took > limit { Err(format!("took {took:?}").into()) } else { Ok(()) }
}

/// Runs every named check in order: `checks!(report, setup; name => function, ...)`.
#[macro_export]
macro_rules! checks {
    ($report:ident; $($name:literal => $check:expr),+ $(,)?) => {
        $( $report.line($name, $crate::limited($check).await); )+
    };
}
