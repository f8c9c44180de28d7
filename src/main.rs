//! Arguments → one command.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use clap::Parser;
use pgsluice::cli::{
    self,
    args::{Command, CommandLine},
};

fn main() -> ExitCode {
    let line = CommandLine::parse();
    let mut out = io::BufWriter::new(io::stdout().lock());
    let result = match line.command.unwrap_or(Command::Run(line.run)) {
        Command::Run(args) => cli::run(&args.config()),
        Command::Check(args) => cli::check(&args.config(), &mut out),
        Command::Explain(args) => cli::explain(&args, io::stdin().lock(), &mut out),
        Command::Test(args) => cli::test(&args, &mut out),
        Command::Firewall(command) => cli::firewall(&command, &mut out),
        Command::Demo(args) => {
            // The demo prints as it goes.
            drop(out);
            return finished(cli::demo::run(&args));
        }
        Command::Schema => cli::schema(&mut out),
    };
    match result.and_then(|code| out.flush().map(|()| code)) {
        Ok(code) => code,
        // The reader of a pipe had enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "pgsluice: {error}");
            ExitCode::FAILURE
        }
    }
}

fn finished(result: Result<(), impl std::fmt::Display>) -> ExitCode {
    let Err(error) = result else { return ExitCode::SUCCESS };
    let _ = writeln!(io::stderr(), "pgsluice: {error}");
    ExitCode::FAILURE
}
