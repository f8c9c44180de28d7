//! All nodes and all databases, and the views made from them. No I/O.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use tokio::{sync::Notify, task::AbortHandle};

use crate::{
    base::{Generation, NodeId},
    config::{Config, Database, RoleSetting, Secret, User},
    route::{ClusterView, Health, NodeView, Role},
    tls::TowardsServers,
};

use super::{
    elect::{Candidate, Claim, Election, elect},
    lag::History,
    track::{Event, Track},
};

/// One server address. Ids change with the configuration, addresses do not.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.port)
    }
}

/// Whom the probe logs in as, and how it gets there.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Option<String>,
    pub(super) dbname: String,
    pub(super) tls: TowardsServers,
}

/// A node with its watching task.
struct Watched {
    track: Track,
    login: Login,
    wake: Arc<Notify>,
    task: Option<AbortHandle>,
}

/// A node as one database configures it.
struct Member {
    host: Host,
    id: NodeId,
    name: Arc<str>,
    role: RoleSetting,
    weight: u32,
    tags: Arc<[String]>,
}

/// A database with what is remembered of its primaries.
struct Group {
    name: Arc<str>,
    login: Login,
    members: Vec<Member>,
    view: Arc<ArcSwap<ClusterView>>,
    history: History,
    /// The last accepted primary and its epoch; kept while there is none.
    primary: Option<(Host, u64)>,
    term: u64,
    /// The highest timeline an accepted primary wrote, with its system identifier.
    highest: Option<(String, u32)>,
    split: bool,
}

/// Has every node been probed?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Summary {
    AllProbed,
    SomeUnprobed,
}

/// Watches to be started after a reload.
pub(super) struct Changes {
    pub(super) started: Vec<(Host, Login, Arc<Notify>)>,
}

/// Everything the control plane knows.
pub(super) struct State {
    workers: usize,
    generation: Generation,
    nodes: BTreeMap<Host, Watched>,
    groups: Vec<Group>,
}

impl State {
    pub(super) fn new(workers: usize) -> Self {
        Self { workers, generation: Generation(0), nodes: BTreeMap::new(), groups: Vec::new() }
    }

    /// Takes over a configuration; what stays keeps its state, what is gone is no longer watched.
    pub(super) fn reload(&mut self, config: Arc<Config>, now: Duration) -> Changes {
        self.generation = Generation(self.generation.0 + 1);
        let mut logins: BTreeMap<Host, Login> = BTreeMap::new();
        let mut groups = Vec::with_capacity(config.databases.len());
        for database in &config.databases {
            let members: Vec<Member> = database.nodes.iter().map(Member::new).collect();
            let login = login(database, &config, None);
            for member in &members {
                logins.entry(member.host.clone()).or_insert_with(|| login.clone());
            }
            let known = self.groups.iter().position(|group| *group.name == *database.name);
            groups.push(match known {
                Some(index) => Group { members, login, ..self.groups.swap_remove(index) },
                None => Group::new(&database.name, members, login),
            });
        }
        self.groups = groups;
        self.nodes.retain(|host, watched| {
            let stays = logins.contains_key(host);
            if !stays {
                watched.stop();
            }
            stays
        });
        let mut started = Vec::new();
        for (host, login) in logins {
            let wake = match self.nodes.get_mut(&host) {
                Some(watched) if watched.login == login => continue,
                Some(watched) => {
                    watched.stop();
                    watched.login = login.clone();
                    Arc::clone(&watched.wake)
                }
                None => {
                    let wake = Arc::new(Notify::new());
                    let (track, login) = (Track::new(self.workers), login.clone());
                    let watched = Watched { track, login, wake: Arc::clone(&wake), task: None };
                    self.nodes.insert(host.clone(), watched);
                    wake
                }
            };
            started.push((host, login, wake));
        }
        for group in &mut self.groups {
            group.publish(&mut self.nodes, self.generation, now);
        }
        Changes { started }
    }

    /// The task that watches a node.
    pub(super) fn attach(&mut self, host: &Host, task: AbortHandle) {
        match self.nodes.get_mut(host) {
            Some(watched) => watched.task = Some(task),
            None => task.abort(),
        }
    }

    /// Takes in a probe's outcome and publishes what it changes.
    pub(super) fn observe(&mut self, host: &Host, event: Event, now: Duration) -> Summary {
        if let Some(watched) = self.nodes.get_mut(host) {
            watched.track.apply(event, now);
            for group in &mut self.groups {
                if group.members.iter().any(|member| member.host == *host) {
                    group.publish(&mut self.nodes, self.generation, now);
                }
            }
        }
        self.summary()
    }

    pub(super) fn summary(&self) -> Summary {
        let unprobed = self.nodes.values().any(|watched| watched.track.health == Health::Unknown);
        if unprobed { Summary::SomeUnprobed } else { Summary::AllProbed }
    }

    pub(super) fn host_of(&self, id: NodeId) -> Option<(Host, Arc<Notify>)> {
        let member = self.groups.iter().flat_map(|group| &group.members).find(|member| member.id == id)?;
        let watched = self.nodes.get(&member.host)?;
        Some((member.host.clone(), Arc::clone(&watched.wake)))
    }

    pub(super) fn view(&self, database: usize) -> Option<Arc<ArcSwap<ClusterView>>> {
        self.groups.get(database).map(|group| Arc::clone(&group.view))
    }

    pub(super) fn views(&self) -> Vec<(Arc<str>, Arc<ClusterView>)> {
        self.groups.iter().map(|group| (Arc::clone(&group.name), group.view.load_full())).collect()
    }

    /// Where and as whom a database's catalog is read: on the primary, or on a replica if there is none.
    pub(super) fn reader(&self, database: &str, dbname: &str) -> Option<(Host, Login)> {
        let group = self.groups.iter().find(|group| *group.name == *database)?;
        let view = group.view.load();
        let is_up = |node: &NodeView| node.health == Health::Up;
        let replica = || view.nodes.iter().find(|node| node.role == Role::Replica && is_up(node));
        let node = view.primary().filter(|node| is_up(node)).or_else(replica)?;
        let member = group.members.iter().find(|member| member.id == node.id)?;
        Some((member.host.clone(), Login { dbname: dbname.to_owned(), ..group.login.clone() }))
    }

    pub(super) fn stop(&mut self) {
        self.nodes.values_mut().for_each(Watched::stop);
    }
}

impl Watched {
    fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }
}

impl Member {
    fn new(node: &crate::config::Node) -> Self {
        Self {
            host: Host { name: node.host.clone(), port: node.port },
            id: node.id,
            name: node.name.as_str().into(),
            role: node.role,
            weight: node.weight,
            tags: node.tags.as_slice().into(),
        }
    }

    fn role(&self, track: &Track) -> Role {
        match (self.role, &track.sample) {
            (RoleSetting::Primary, _) => Role::Primary,
            (RoleSetting::Replica, _) => Role::Replica,
            (RoleSetting::Auto, None) => Role::Unknown,
            (RoleSetting::Auto, Some(sample)) if sample.in_recovery => Role::Replica,
            (RoleSetting::Auto, Some(_)) => Role::Primary,
        }
    }

    fn candidate(&self, track: &Track) -> Candidate {
        let down = matches!(track.health, Health::Down { .. });
        let claim = match (self.role, self.role(track)) {
            _ if down => Claim::None,
            (RoleSetting::Primary, _) => Claim::Configured,
            (RoleSetting::Auto, Role::Primary) => Claim::Answers,
            (RoleSetting::Auto | RoleSetting::Replica, _) => Claim::None,
        };
        Candidate { claim, timeline: track.sample.as_ref().and_then(|sample| sample.timeline) }
    }
}

impl Group {
    fn new(name: &str, members: Vec<Member>, login: Login) -> Self {
        let empty =
            ClusterView { generation: Generation(0), nodes: Box::new([]), primary: None, term: 0, wal_segment: 0 };
        Self {
            name: name.into(),
            login,
            members,
            view: Arc::new(ArcSwap::from_pointee(empty)),
            history: History::default(),
            primary: None,
            term: 0,
            highest: None,
            split: false,
        }
    }

    /// Elects, measures and publishes.
    fn publish(&mut self, nodes: &mut BTreeMap<Host, Watched>, generation: Generation, now: Duration) {
        let primary = self.elect(nodes);
        let primary_sample = primary
            .and_then(|index| self.members.get(index))
            .and_then(|member| nodes.get(&member.host))
            .and_then(|watched| watched.track.sample.clone());
        if let Some((begun, lsn)) = primary_sample.as_ref().and_then(|sample| Some((sample.begun, sample.lsn?))) {
            self.history.record(begun, lsn);
        }
        let mut views = Vec::with_capacity(self.members.len());
        for (index, member) in self.members.iter().enumerate() {
            let Some(watched) = nodes.get_mut(&member.host) else { continue };
            let track = &mut watched.track;
            let is_primary = primary == Some(index);
            let mut role = member.role(track);
            if !is_primary && (role == Role::Primary || foreign(track, primary_sample.as_ref())) {
                // Claims to be what another one is, or follows another history: neither one nor the other.
                role = Role::Unknown;
            }
            let position = track.position();
            let replayed = position.filter(|_| role == Role::Replica).map(|position| position.lsn);
            views.push(NodeView {
                id: member.id,
                name: Arc::clone(&member.name),
                role,
                health: track.health,
                suspicion: track.suspicion(),
                position,
                lag_bytes: replayed.and_then(|lsn| self.history.bytes(lsn)),
                lag_time: replayed.and_then(|lsn| self.history.lag(now, lsn)),
                weight: member.weight,
                tags: Arc::clone(&member.tags),
                epoch: track.epoch,
                load: Arc::clone(&track.load),
            });
        }
        let wal_segment = primary_sample.map_or_else(|| self.view.load().wal_segment, |sample| sample.wal_segment);
        let view = ClusterView { generation, nodes: views.into(), primary, term: self.term, wal_segment };
        self.view.store(Arc::new(view));
    }

    fn elect(&mut self, nodes: &BTreeMap<Host, Watched>) -> Option<usize> {
        let track = |member: &Member| nodes.get(&member.host).map(|watched| &watched.track);
        let candidates: Vec<Candidate> = self
            .members
            .iter()
            .map(|member| {
                let none = Candidate { claim: Claim::None, timeline: None };
                track(member).map_or(none, |track| member.candidate(track))
            })
            .collect();
        let present =
            self.members.iter().position(|member| Some(&member.host) == self.primary.as_ref().map(|(h, _)| h));
        let system = |index: usize| track(self.members.get(index)?)?.sample.as_ref()?.system.clone();
        // A timeline number means something within one system only.
        let highest = self.highest.as_ref().and_then(|(known, timeline)| {
            let same = (0..candidates.len()).filter_map(system).all(|system| system == *known);
            same.then_some(*timeline)
        });
        let election = elect(&candidates, present, highest);
        let split = election == Election::Split;
        if split && !self.split {
            tracing::error!(database = %self.name, "several nodes claim to be the primary with equal right: writes are stopped");
        }
        self.split = split;
        let Election::Primary(index) = election else { return None };
        let member = self.members.get(index)?;
        let accepted = (member.host.clone(), track(member)?.epoch);
        if let (Some(system), Some(timeline)) = (system(index), candidates.get(index)?.timeline) {
            self.highest = Some((system, timeline));
        }
        if self.primary.as_ref() != Some(&accepted) {
            tracing::info!(database = %self.name, node = %member.name, term = self.term + 1, "primary accepted");
            self.primary = Some(accepted);
            self.term += 1;
            self.history.clear();
        }
        Some(index)
    }
}

/// Does this node follow another history than the primary? Marks it until its next epoch.
fn foreign(track: &mut Track, primary: Option<&super::probe::Sample>) -> bool {
    let (Some(own), Some(primary)) = (&track.sample, primary) else { return false };
    let other_system = matches!((&own.system, &primary.system), (Some(own), Some(other)) if own != other);
    let other_timeline = matches!((own.timeline, primary.timeline), (Some(own), Some(other)) if own != other);
    // A walsender sends only what is flushed, so nobody is ahead of a flush position asked for later. The insert
    // position is the more careful bound.
    if primary.begun >= own.ended && own.lsn > primary.insert {
        track.diverged = true;
    }
    other_system || other_timeline || track.diverged
}

/// For this database, or for the one on the servers that `dbname` says: the database's server user, or `auth.user`, or the first user whose password we can use, or the first one there is.
pub(super) fn login(database: &Database, config: &Config, dbname: Option<&str>) -> Login {
    let users = &config.users;
    let allowed = |user: &&Arc<User>| user.may_use(&database.name);
    let clear = |user: &Arc<User>| match &user.secret {
        Secret::Password(password) => Some((user.name.clone(), Some(password.clone()))),
        Secret::Verifier(_) | Secret::Md5(_) | Secret::None => None,
    };
    let (user, password) = match (&database.server_user, &config.auth.user) {
        (Some(user), _) => (user.clone(), database.server_password.clone()),
        (None, Some(user)) => (user.clone(), config.auth.password.clone()),
        (None, None) => {
            let first = || users.iter().find(allowed).map(|user| (user.name.clone(), None));
            users.iter().filter(allowed).find_map(clear).or_else(first).unwrap_or(("postgres".to_owned(), None))
        }
    };
    let dbname = match (dbname.or(database.dbname.as_deref()), database.name.as_str()) {
        (Some(dbname), _) => dbname.to_owned(),
        // The wildcard has no name on the servers; every cluster has this one.
        (None, "*") => "postgres".to_owned(),
        (None, name) => name.to_owned(),
    };
    Login { user, password, dbname, tls: config.tls.server.clone() }
}
