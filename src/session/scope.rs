//! What names in a session's texts mean: by its database's catalog, its `search_path` and its role.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
    sync::Arc,
};

use super::{shared::Snapshot, state::Session, statements::Statement, worker::Tenant};
use crate::{
    base::Generation,
    pool::Params,
    sql::{
        Classified, Classifier, Declared, Facts, Functions,
        catalog::Scope,
        facts::{Name, Verb},
    },
};

/// Most scopes that a worker knows; when there are more, those that no session has are forgotten.
const MOST: usize = 4096;

/// A catalog by its address, a path, a login, a role, and whether the catalog is doubted.
type Key = (usize, Option<Box<str>>, Box<str>, Box<str>, bool);

/// All scopes of a worker.
#[derive(Debug, Default)]
pub(super) struct Scopes(RefCell<HashMap<Key, Rc<Scope>>>);

/// A session's scope, and what it was found for.
#[derive(Debug)]
pub(super) struct Seen {
    params: Params,
    tenant: Rc<Tenant>,
    doubts: bool,
    scope: Rc<Scope>,
}

impl Scopes {
    fn find(&self, tenant: &Tenant, params: &Params, doubts: bool) -> Rc<Scope> {
        let path = params.value("search_path");
        let login = &*tenant.login;
        let user = params.value("role").or_else(|| params.value("session_authorization")).unwrap_or(login);
        let key: Key = (Arc::as_ptr(&tenant.catalog).addr(), path.map(Into::into), login.into(), user.into(), doubts);
        let mut known = self.0.borrow_mut();
        if let Some(scope) = known.get(&key) {
            return Rc::clone(scope);
        }
        if known.len() >= MOST {
            known.retain(|_, scope| Rc::strong_count(scope) > 1);
        }
        let scope = Scope::new(Arc::clone(&tenant.catalog), path, login, user);
        let scope = Rc::new(if doubts { scope.in_doubt() } else { scope });
        if known.len() < MOST {
            known.insert(key, Rc::clone(&scope));
        }
        scope
    }
}

/// What rule files say of functions, as a worker's classifier has it.
#[derive(Debug)]
pub(super) struct Declarations {
    built_in: Arc<Functions>,
    /// The generation looked at last, and what it says.
    said: RefCell<(Generation, Vec<(Name, Declared)>)>,
    count: Cell<u64>,
}

impl Declarations {
    pub(super) fn new(classifier: &Classifier) -> Self {
        let said = RefCell::new((Generation(0), Vec::new()));
        Self { built_in: Arc::clone(classifier.functions()), said, count: Cell::new(0) }
    }

    /// Tells the classifier what a new generation of rules says, if that is something new.
    pub(super) fn follow(&self, snapshot: &Snapshot, classifier: &RefCell<Classifier>) {
        let mut said = self.said.borrow_mut();
        if said.0 == snapshot.generation {
            return;
        }
        let declared = snapshot.rules.declared();
        if said.1 != declared {
            let functions = self.built_in.with_declared(declared.iter().cloned());
            classifier.borrow_mut().replace_functions(Arc::new(functions));
            self.count.set(self.count.get() + 1);
        }
        *said = (snapshot.generation, declared);
    }

    /// How often something new was said.
    pub(super) fn count(&self) -> u64 {
        self.count.get()
    }
}

impl Session {
    /// What names mean to the session now.
    pub(super) fn scope(&self) -> Rc<Scope> {
        let doubts = self.doubts();
        let mut seen = self.scope.borrow_mut();
        if let Some(seen) = &*seen
            && seen.doubts == doubts
            && seen.params.is_same(&self.params)
            && Rc::ptr_eq(&seen.tenant, &self.tenant)
        {
            return Rc::clone(&seen.scope);
        }
        let scope = self.worker.scopes.find(&self.tenant, &self.params, doubts);
        let (params, tenant) = (self.params.clone(), Rc::clone(&self.tenant));
        *seen = Some(Seen { params, tenant, doubts, scope: Rc::clone(&scope) });
        scope
    }

    /// Code that it ran may have changed the schema since the catalog was looked at.
    pub(super) fn doubts(&self) -> bool {
        let Some(doubt) = self.doubt.get() else { return false };
        if self.tenant.catalog.settles(doubt) {
            self.doubt.set(None);
        }
        self.doubt.get().is_some()
    }

    /// What ran in the transaction that has ended may have changed the schema, and nothing of it stood in a text.
    pub(super) fn note_hidden_ddl(&mut self) {
        if std::mem::take(&mut self.deeds.may_define) {
            self.doubt.set(Some(self.tenant.catalog.doubt()));
        }
    }

    /// What a text says to the session.
    pub(super) fn classify(&self, text: &[u8]) -> Classified {
        self.worker.classify(text, self.strings, &self.scope())
    }

    /// What a prepared statement says to it.
    pub(super) fn classified(&self, statement: &Statement) -> Classified {
        statement.classified(&self.worker, &self.scope())
    }

    /// The schema has changed, or may have: nothing that is known of it is believed any more.
    pub(super) fn schema_changed(&self) {
        self.worker.shared.schema_changed();
        self.tenant.catalog.change();
    }
}

/// May a name that is known mean something else once this DDL has run? What takes long (an index, a table from a query) only adds names
/// of tables, or none.
pub(super) fn redefines(facts: &Facts) -> bool {
    facts.acts.iter().any(|act| match (act.verb, act.object) {
        (Verb::Create, Some("table" | "materialized view" | "sequence")) => false,
        (
            Verb::Create | Verb::Alter | Verb::Drop,
            Some("index" | "statistics" | "trigger" | "publication" | "subscription"),
        ) => false,
        (verb, _) => matches!(verb, Verb::Create | Verb::Alter | Verb::Drop | Verb::Other | Verb::Unknown),
    })
}
