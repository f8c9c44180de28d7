//! What can be typed after `pgsluice`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// SQL-aware read/write splitting proxy for PostgreSQL.
#[derive(Debug, Parser)]
#[command(name = "pgsluice", version, args_conflicts_with_subcommands = true)]
pub struct CommandLine {
    /// What to do; `run` if nothing is said.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Arguments of `run`, when no command is named.
    #[command(flatten)]
    pub run: RunArgs,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve (also what happens when only a file is given)
    Run(RunArgs),
    /// Print every fault of the configuration and rule files
    Check(RunArgs),
    /// Say where statements would go, and why; nothing is executed
    Explain(ExplainArgs),
    /// Run the examples in rule files
    Test(TestArgs),
    /// Show the statements the allow list has learned, and put those on it that wait
    #[command(subcommand)]
    Firewall(FirewallCommand),
    /// Start a throw-away primary with two replicas and serve them
    Demo(super::demo::Arguments),
    /// Print the JSON Schema of the configuration; that of rule files is under $defs
    Schema,
}

/// What can be done with the store of the allow list.
#[derive(Debug, Subcommand)]
pub enum FirewallCommand {
    /// Print what is on the list, in the form of the store
    Export {
        /// Which configuration
        #[command(flatten)]
        config: ConfigArgs,
        /// Also what was only seen
        #[arg(long)]
        all: bool,
    },
    /// Print one line for each statement, those that wait for somebody's word first
    Review {
        /// Which configuration
        #[command(flatten)]
        config: ConfigArgs,
        /// Only statements that nobody has sent for so many days
        #[arg(long, value_name = "DAYS")]
        unseen_days: Option<u32>,
    },
    /// Put statements on the list that were only seen
    Promote {
        /// Which configuration
        #[command(flatten)]
        config: ConfigArgs,
        /// All that wait
        #[arg(long, conflicts_with = "fingerprints")]
        all: bool,
        /// Which ones
        #[arg(required_unless_present = "all", value_name = "FINGERPRINT")]
        fingerprints: Vec<String>,
    },
}

impl FirewallCommand {
    /// The configuration file.
    pub fn config(&self) -> &std::path::Path {
        let (Self::Export { config, .. } | Self::Review { config, .. } | Self::Promote { config, .. }) = self;
        &config.config
    }
}

/// Which configuration.
#[derive(Args, Clone, Debug)]
pub struct ConfigArgs {
    /// Configuration file
    #[arg(short, long, value_name = "FILE", default_value = "pgsluice.yaml")]
    pub config: PathBuf,
}

/// Arguments of `run` and `check`.
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// Configuration file
    #[arg(short = 'c', long = "config", value_name = "FILE", conflicts_with = "file")]
    option: Option<PathBuf>,
    /// Configuration file [default: pgsluice.yaml]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

impl RunArgs {
    /// The configuration file, however it was given.
    pub fn config(self) -> PathBuf {
        self.option.or(self.file).unwrap_or_else(|| PathBuf::from("pgsluice.yaml"))
    }
}

/// Arguments of `test`.
#[derive(Args, Clone, Debug)]
pub struct TestArgs {
    /// Configuration file, whose `rules` are tested when no file is given
    #[arg(short, long, value_name = "FILE", default_value = "pgsluice.yaml")]
    pub config: PathBuf,
    /// Rule files, directories or globs
    #[arg(value_name = "RULES")]
    pub rules: Vec<String>,
}

/// How `explain` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// One object per line.
    Json,
}

/// Arguments of `explain`.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// Configuration file [default: pgsluice.yaml, and if there is none, what holds without one]
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// As if this user sent it
    #[arg(long)]
    pub user: Option<String>,
    /// As if it were sent to this database
    #[arg(long)]
    pub database: Option<String>,
    /// As if application_name were this
    #[arg(long)]
    pub application: Option<String>,
    /// As if it came from this address
    #[arg(long)]
    pub client: Option<std::net::IpAddr>,
    /// As if a transaction were open
    #[arg(long)]
    pub in_transaction: bool,
    /// As if search_path were this
    #[arg(long)]
    pub search_path: Option<String>,
    /// Ask the servers of the configuration what names mean; without it only built-in names are known
    #[arg(long)]
    pub connect: bool,
    /// How to print; json with --stdin0
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    /// Read statements separated by NUL from standard input
    #[arg(long, conflicts_with = "sql")]
    pub stdin0: bool,
    /// The statement
    #[arg(required_unless_present = "stdin0", value_name = "SQL")]
    pub sql: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config_of_run(words: &[&str]) -> Option<PathBuf> {
        let line = CommandLine::try_parse_from(["pgsluice"].iter().chain(words)).ok()?;
        match line.command.unwrap_or(Command::Run(line.run)) {
            Command::Run(args) | Command::Check(args) => Some(args.config()),
            _ => None,
        }
    }

    #[test]
    fn a_file_alone_is_served() {
        let check = |words: &[&str], expected: Option<&str>| {
            assert_eq!(config_of_run(words).as_deref(), expected.map(std::path::Path::new), "{words:?}");
        };
        check(&[], Some("pgsluice.yaml"));
        check(&["a.yaml"], Some("a.yaml"));
        check(&["-c", "a.yaml"], Some("a.yaml"));
        check(&["run"], Some("pgsluice.yaml"));
        check(&["run", "a.yaml"], Some("a.yaml"));
        check(&["run", "-c", "a.yaml"], Some("a.yaml"));
        check(&["run", "--config=a.yaml"], Some("a.yaml"));
        check(&["run", "-c", "a.yaml", "b.yaml"], None);
        check(&["check"], Some("pgsluice.yaml"));
        check(&["check", "a.yaml"], Some("a.yaml"));
        check(&["check", "-c", "a.yaml"], Some("a.yaml"));
        check(&["schema"], None);
        check(&["--nonsense"], None);
    }
}
