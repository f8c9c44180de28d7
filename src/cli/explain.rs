//! `pgsluice explain`: where a statement would go, and why. Nothing is executed and nobody is asked.

mod input;
mod print;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    io::{self, BufReader, Read, Write},
    path::Path,
    process::ExitCode,
    sync::Arc,
};

use super::args::{ExplainArgs, Format};
use crate::{
    config::{Config, Faults, Reads, UnknownFunctions},
    route::{self, Defaults, Preference, Where, decide},
    sql::{
        BadFunctions, Caps, Classified, Classifier, ClassifyPath, Facts, Fingerprint, Functions, Hints, Misroutes,
        Shape, ShapeKey, StringRules, facts::Name, fingerprint,
    },
};

/// Shapes remembered while many statements are explained.
const SHAPES: usize = 65_536;
/// `limits.parse` where no configuration says otherwise, in bytes.
const PARSE: usize = 1 << 20;

/// Explains the statement of the arguments, or those that `input` holds. A statement that can not be read is
/// explained like any other; exit status 1 only if the arguments or the configuration are wrong.
pub fn explain(args: &ExplainArgs, input: impl Read, out: &mut dyn Write) -> io::Result<ExitCode> {
    let setting = match Setting::new(args) {
        Ok(setting) => setting,
        Err(error) => {
            writeln!(out, "{error}")?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut explainer = match Explainer::new(setting) {
        Ok(explainer) => explainer,
        Err(error) => return Err(io::Error::other(error)),
    };
    let Some(sql) = &args.sql else {
        let format = args.format.unwrap_or(Format::Json);
        let mut statements = input::Statements::new(BufReader::with_capacity(1 << 16, input), explainer.setting.parse);
        while let Some(text) = statements.next()? {
            print::print(&explainer.explain(text), format, out)?;
            // Whoever feeds statements one by one waits for the answer.
            if statements.would_wait() {
                out.flush()?;
            }
        }
        return Ok(ExitCode::SUCCESS);
    };
    print::print(&explainer.explain(sql.as_bytes()), args.format.unwrap_or(Format::Text), out)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a transaction is open when the statement comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    InTransaction,
}

/// What the arguments and the configuration say about the session.
#[derive(Clone, Copy, Debug)]
struct Setting {
    phase: Phase,
    preference: Preference,
    parse: usize,
}

/// Why nothing can be explained.
#[derive(Debug, thiserror::Error)]
enum BadSetting {
    #[error("{0}")]
    Config(#[from] Faults),
    #[error("--{option}: the configuration knows no `{name}`; allowed: {allowed}")]
    Unknown { option: &'static str, name: String, allowed: String },
}

impl Setting {
    fn new(args: &ExplainArgs) -> Result<Self, BadSetting> {
        let phase = if args.in_transaction { Phase::InTransaction } else { Phase::Idle };
        let preference = Preference { reads: Reads::Replica, unknown_functions: UnknownFunctions::Primary };
        let defaults = Self { phase, preference, parse: PARSE };
        let path = match &args.config {
            Some(path) => path.as_path(),
            None => Path::new("pgsluice.yaml"),
        };
        if args.config.is_none() && !path.exists() {
            return Ok(defaults);
        }
        let (config, _) = Config::load(path)?;
        let unknown = |option, name: &String, names: Vec<&str>| {
            let allowed = names.join(", ");
            Err(BadSetting::Unknown { option, name: name.clone(), allowed })
        };
        if let Some(user) = args.user.as_ref().filter(|user| !config.users.iter().any(|known| known.name == **user)) {
            return unknown("user", user, config.users.iter().map(|user| user.name.as_str()).collect());
        }
        let database = match &args.database {
            Some(name) => match config.database(name) {
                Some(database) => Some(database),
                None => {
                    let names = config.databases.iter().map(|database| database.name.as_str());
                    return unknown("database", name, names.collect());
                }
            },
            None => config.databases.first(),
        };
        let Some(database) = database else { return Ok(Self { parse: config.limits.parse, ..defaults }) };
        Ok(Self { phase, preference: (&database.routing).into(), parse: config.limits.parse })
    }
}

/// Where a statement goes and the one word that says why, as in interface.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Route {
    to: &'static str,
    reason: &'static str,
}

/// Everything `explain` tells of one text.
struct Explanation {
    classified: Classified,
    fingerprint: Option<Fingerprint>,
    route: Route,
}

struct Explainer {
    setting: Setting,
    classifier: Classifier,
    /// The parser's fingerprint ignores literals, so one per shape is enough. Emptied when full.
    fingerprints: HashMap<Shape, Option<Fingerprint>>,
}

impl Explainer {
    fn new(setting: Setting) -> Result<Self, BadFunctions> {
        let functions = Arc::new(Functions::built_in()?);
        let caps = Caps { parse: setting.parse, entries: SHAPES };
        let classifier = Classifier::new(ShapeKey::random(), functions, Arc::new(Misroutes::new(1)), caps);
        Ok(Self { setting, classifier, fingerprints: HashMap::new() })
    }

    fn explain(&mut self, text: &[u8]) -> Explanation {
        let classified = self.classifier.classify(text, StringRules::default());
        let fingerprint = self.fingerprint(text, &classified);
        let route = route(&classified.known.facts, classified.hints, self.setting);
        Explanation { classified, fingerprint, route }
    }

    fn fingerprint(&mut self, text: &[u8], classified: &Classified) -> Option<Fingerprint> {
        let facts = &classified.known.facts;
        if classified.path == ClassifyPath::Unparsable || facts.error.is_some() || facts.statements == 0 {
            return None;
        }
        if self.fingerprints.len() >= SHAPES {
            self.fingerprints.clear();
        }
        let known = self.fingerprints.entry(classified.known.shape);
        *known.or_insert_with(|| fingerprint(text))
    }
}

/// Where a text goes when it is the session's next one: the proxy's own decision.
fn route(facts: &Facts, hints: Hints, setting: Setting) -> Route {
    if setting.phase == Phase::InTransaction {
        return Route { to: "held", reason: "in-transaction" };
    }
    let wish = decide(facts, hints, route::Phase::Autocommit, Defaults::default(), setting.preference);
    let to = match wish.place {
        Where::Replica => "replica",
        // What may go anywhere goes to the primary while there is one.
        Where::Any | Where::Primary => "primary",
    };
    Route { to, reason: wish.reason.as_str() }
}

/// A relation or function as `explain` shows it.
struct Shown<'a>(&'a Name);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.schema {
            Some(schema) => write!(f, "{schema}.{}", self.0.name),
            None => f.write_str(&self.0.name),
        }
    }
}
