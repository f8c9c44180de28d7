//! `pgsluice explain`: where a statement would go, and why. Nothing is executed, and nobody is asked unless `--connect` is given.

mod connect;
mod input;
mod print;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    fmt,
    io::{self, BufReader, Read, Write},
    net::IpAddr,
    path::Path,
    process::ExitCode,
    rc::Rc,
    sync::Arc,
};

use super::args::{ExplainArgs, Format};
use crate::{
    app,
    config::{Faults, Reads, UnknownFunctions, rules::Hint},
    policy::{
        Believed, Identity, Judgements, Moment, Principal, RouteOrder, RuleSet, SearchPath, Section, Verdict, believe,
    },
    route::{self, Defaults, Preference, Where, decide},
    sql::{
        BadFunctions, Caps, Classified, Classifier, ClassifyPath, Facts, Fingerprint, Functions, Hints, Misroutes,
        Shape, ShapeKey, StringRules, catalog::Scope, facts::Name, fingerprint,
    },
};

/// Shapes remembered while many statements are explained.
const SHAPES: usize = 65_536;
/// `limits.parse` where no configuration says otherwise, in bytes.
const PARSE: usize = 1 << 20;

/// Explains the statement of the arguments, or those that `input` holds. A statement that can not be read is
/// explained like any other; exit status 1 only if the arguments or the configuration are wrong.
pub fn explain(args: &ExplainArgs, input: impl Read, out: &mut dyn Write) -> io::Result<ExitCode> {
    let (setting, sender) = match Setting::new(args) {
        Ok(read) => read,
        Err(error) => {
            writeln!(out, "{error}")?;
            return Ok(ExitCode::FAILURE);
        }
    };
    let mut explainer = match Explainer::new(setting, sender) {
        Ok(explainer) => explainer,
        Err(error) => return Err(io::Error::other(error)),
    };
    if args.connect {
        match connect::scope(args, Arc::clone(explainer.classifier.functions())) {
            Ok(scope) => explainer.scope = Some(scope),
            Err(error) => {
                writeln!(out, "{error}")?;
                return Ok(ExitCode::FAILURE);
            }
        }
    }
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

/// As whose statement it is explained, and by which rules.
#[derive(Debug, Default)]
struct Sender {
    rules: Arc<RuleSet>,
    user: String,
    database: String,
    application: String,
    client: Option<IpAddr>,
    /// The role that servers know all users of the database by.
    role: Option<String>,
    search_path: Option<String>,
    /// Hints it may give.
    hints: Option<Vec<Hint>>,
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
    fn new(args: &ExplainArgs) -> Result<(Self, Sender), BadSetting> {
        let phase = if args.in_transaction { Phase::InTransaction } else { Phase::Idle };
        let preference = Preference { reads: Reads::Replica, unknown_functions: UnknownFunctions::Primary, rule: None };
        let defaults = Self { phase, preference, parse: PARSE };
        let mut sender = Sender {
            user: args.user.clone().unwrap_or_default(),
            database: args.database.clone().unwrap_or_default(),
            application: args.application.clone().unwrap_or_default(),
            client: args.client,
            search_path: args.search_path.clone(),
            ..Sender::default()
        };
        let path = match &args.config {
            Some(path) => path.as_path(),
            None => Path::new("pgsluice.yaml"),
        };
        if args.config.is_none() && !path.exists() {
            return Ok((defaults, sender));
        }
        let (config, rules, _) = app::load(path, None)?;
        sender.rules = Arc::new(rules);
        let unknown = |option, name: &String, names: Vec<&str>| {
            let allowed = names.join(", ");
            Err(BadSetting::Unknown { option, name: name.clone(), allowed })
        };
        if let Some(user) = args.user.as_ref().filter(|user| !config.users.iter().any(|known| known.name == **user)) {
            return unknown("user", user, config.users.iter().map(|user| user.name.as_str()).collect());
        }
        if let Some(user) = config.users.iter().find(|known| known.name == sender.user) {
            sender.hints.clone_from(&user.hints);
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
        let Some(database) = database else { return Ok((Self { parse: config.limits.parse, ..defaults }, sender)) };
        if args.database.is_none() {
            sender.database.clone_from(&database.name);
        }
        sender.role.clone_from(&database.server_user);
        Ok((Self { phase, preference: (&database.routing).into(), parse: config.limits.parse }, sender))
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
    verdict: Rc<Verdict>,
    /// What rules make of it; everything else is told of that.
    rewritten: Option<Box<str>>,
    route: Route,
}

struct Explainer {
    setting: Setting,
    sender: Sender,
    principal: Rc<Principal>,
    judgements: Judgements,
    classifier: Classifier,
    /// Where names are looked up.
    scope: Option<Scope>,
    /// The parser's fingerprint ignores literals, so one per shape is enough. Emptied when full.
    fingerprints: HashMap<Shape, Option<Fingerprint>>,
}

impl Explainer {
    fn new(setting: Setting, sender: Sender) -> Result<Self, BadFunctions> {
        let functions = Arc::new(Functions::built_in()?.with_declared(sender.rules.declared()));
        let caps = Caps { parse: setting.parse, entries: SHAPES };
        let classifier = Classifier::new(ShapeKey::random(), functions, Arc::new(Misroutes::new(1)), caps);
        let mut judgements = Judgements::new(SHAPES);
        let identity = Identity {
            user: &sender.user,
            database: &sender.database,
            application: &sender.application,
            client: sender.client,
            role: sender.role.as_ref().unwrap_or(&sender.user),
            search_path: sender.search_path.as_deref(),
        };
        let principal = judgements.principal(&sender.rules, &identity);
        Ok(Self { setting, sender, principal, judgements, classifier, scope: None, fingerprints: HashMap::new() })
    }

    fn classify(&mut self, text: &[u8]) -> Classified {
        match &self.scope {
            Some(scope) => self.classifier.classify_in(text, StringRules::default(), scope),
            None => self.classifier.classify(text, StringRules::default()),
        }
    }

    fn explain(&mut self, text: &[u8]) -> Explanation {
        let moment = Moment {
            in_transaction: (self.setting.phase == Phase::InTransaction).into(),
            prepared: false,
            search_path: SearchPath::Known,
        };
        let mut classified = self.classify(text);
        let hints = believe(classified.hints, Believed(self.sender.hints.as_deref()));
        let (rules, principal) = (&Arc::clone(&self.sender.rules), &Rc::clone(&self.principal));
        let mut verdict = self.judgements.judge(rules, principal, &classified.known, text, moment);
        let mut rewritten = None;
        match rules.change(principal, &verdict, &classified.known.facts, moment, text) {
            Ok(None) => {}
            Ok(Some(changed)) => {
                let text = changed.text.as_bytes();
                classified = self.classify(text);
                let second = self.judgements.judge(rules, principal, &classified.known, text, moment);
                let first = verdict.matched.iter().filter(|matched| matched.section == Section::Rewrite);
                let others = second.matched.iter().filter(|matched| matched.section != Section::Rewrite);
                let matched = first.chain(others).cloned().collect();
                verdict = Rc::new(Verdict { matched, ..(*second).clone() });
                rewritten = Some(changed.text);
            }
            Err(denial) => verdict = Rc::new(Verdict { denial: Some(denial), ..(*verdict).clone() }),
        }
        let fingerprint = self.fingerprint(rewritten.as_ref().map_or(text, |text| text.as_bytes()), &classified);
        let route = match &verdict.denial {
            Some(_) => Route { to: "refused", reason: "rule" },
            None => {
                let preference =
                    Preference { rule: verdict.route.as_ref().map(RouteOrder::place), ..self.setting.preference };
                route(&classified.known.facts, hints, Setting { preference, ..self.setting })
            }
        };
        Explanation { classified, fingerprint, verdict, rewritten, route }
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
