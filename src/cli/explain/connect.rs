//! `--connect`: what names mean, the servers are asked.

use std::{io, path::Path, sync::Arc};

use tokio::runtime::Builder;

use crate::{
    cli::args::ExplainArgs,
    cluster::read_catalog,
    config::{Config, Faults},
    sql::{
        Functions,
        catalog::{Published, Scope},
    },
};

/// Why no catalog was read.
#[derive(Debug, thiserror::Error)]
pub(super) enum NotConnected {
    #[error("{0}")]
    Config(#[from] Faults),
    #[error("--connect: the configuration has no database of this name")]
    NoDatabase,
    #[error("--connect: `*` has no name on the servers; say which one by --database")]
    AnyDatabase,
    #[error("--connect: {0}")]
    Runtime(#[from] io::Error),
    #[error("--connect: the catalog cannot be read: {0}")]
    Catalog(String),
}

/// Where the names of the session that the arguments describe are looked up.
pub(super) fn scope(args: &ExplainArgs, functions: Arc<Functions>) -> Result<Scope, NotConnected> {
    let (config, _) = Config::load(args.config.as_deref().unwrap_or(Path::new("pgsluice.yaml")))?;
    let database = match &args.database {
        Some(name) => config.database(name),
        None => config.databases.first(),
    };
    let database = database.ok_or(NotConnected::NoDatabase)?;
    let dbname = match (&database.dbname, &args.database, &*database.name) {
        (Some(dbname), _, _) => dbname,
        (None, Some(asked), "*") => asked,
        (None, None, "*") => return Err(NotConnected::AnyDatabase),
        (None, _, _) => &database.name,
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let catalog =
        runtime.block_on(read_catalog(&config, database, dbname, functions)).map_err(NotConnected::Catalog)?;
    let client = args.user.as_ref().or_else(|| config.users.first().map(|user| &user.name));
    let login = database.server_user.as_ref().or(client).map_or("", |name| &**name);
    Ok(Scope::new(Arc::new(Published::fixed(catalog)), args.search_path.as_deref(), login, login))
}
