//! New files are taken up without a restart, and bad ones change nothing.

use std::fs;

use super::{Door, both_sides, login, papers::Hello, tls, towards_servers};
use crate::{
    Case, cases,
    certs::{self, Pair},
    client::Login,
    world::{Proxy, Setup, World, eventually},
};

pub fn cases() -> Vec<Case> {
    Vec::from(cases!("tls", Pgsluice:
        new_files_are_for_new_clients, bad_files_change_nothing, a_new_demand_makes_connections_anew,
        an_equal_configuration_keeps_connections))
}

fn hup(proxy: &Proxy) {
    proxy.process().expect("a process").signal("HUP").expect("signal");
}

/// Waits until as many reloads as that were logged.
fn reloaded(proxy: &Proxy, times: usize) {
    eventually("the reload", || proxy.log().matches("configuration reloaded").count() >= times);
}

/// Copies of the proxy's papers that may be written over.
fn own_pair(world: &World, name: &str) -> Pair {
    let papers = world.papers();
    let pair = Pair { cert: papers.dir.join(format!("{name}.crt")), key: papers.dir.join(format!("{name}.key")) };
    fs::copy(&papers.proxy.cert, &pair.cert).expect("copy");
    fs::copy(&papers.proxy.key, &pair.key).expect("copy");
    pair
}

fn shown_by(world: &World, proxy: &Proxy) -> Vec<u8> {
    let config = Hello::default().config(world.papers());
    let client = login(proxy.port, Door::Asked, &config, &Login::default()).expect("login");
    client.certificate().expect("a certificate")
}

fn start(world: &World, pair: &Pair) -> Proxy {
    let client = format!("client: {{ mode: require, cert: {:?}, key: {:?} }}", pair.cert, pair.key);
    world.start_proxy(&Setup::default().size(2).top(&tls(&[client])), world.cluster())
}

fn new_files_are_for_new_clients(world: &World) {
    let papers = world.papers();
    let pair = own_pair(world, "renewed");
    let proxy = start(world, &pair);
    let config = Hello::default().config(papers);
    let mut old = login(proxy.port, Door::Asked, &config, &Login::default()).expect("login");
    old.query("begin");
    let before = shown_by(world, &proxy);
    // By the other authority, so that nothing of the first is left.
    certs::server(&papers.dir, "renewed", &papers.other, "DNS:localhost");
    assert_eq!(shown_by(world, &proxy), before, "not before it is told");
    hup(&proxy);
    reloaded(&proxy, 1);
    assert_ne!(shown_by(world, &proxy), before);
    assert_eq!(old.certificate(), Some(before));
    assert_eq!(old.query("select 1").letters(), "T D C(SELECT 1) Z(T)", "the old client goes on");
    assert_eq!(old.query("commit").letters(), "C(COMMIT) Z(I)");
}

fn bad_files_change_nothing(world: &World) {
    let pair = own_pair(world, "spoilt");
    let proxy = start(world, &pair);
    let before = shown_by(world, &proxy);
    let good = fs::read(&pair.key).expect("read");
    let other = fs::read(&world.papers().app.key).expect("read");
    for (key, words) in [
        (Some(other), "does not belong to the certificate"),
        (Some(vec![]), "no private key"),
        (None, "can not be read"),
    ] {
        match key {
            Some(key) => fs::write(&pair.key, key).expect("write"),
            None => fs::remove_file(&pair.key).expect("remove"),
        }
        let (status, body) = crate::lifecycle::request(proxy.admin, "POST", "/reload");
        assert!(status != "200" && body.contains(words) && body.contains(".yaml:"), "{status} {body}");
        hup(&proxy);
        eventually(words, || proxy.log().matches(words).count() >= 2);
        assert_eq!(shown_by(world, &proxy), before);
    }
    fs::write(&pair.key, good).expect("write");
    assert_eq!(crate::lifecycle::request(proxy.admin, "POST", "/reload").0, "200");
    assert_eq!(shown_by(world, &proxy), before);
}

/// What was dialled under weaker terms is not used under stronger ones.
fn a_new_demand_makes_connections_anew(world: &World) {
    let papers = world.papers();
    let cluster = world.own_cluster(0);
    papers.arm(&cluster, &papers.server, "host all all 127.0.0.1/32 scram-sha-256");
    let weak = tls(&[towards_servers("disable", None)]);
    let proxy = world.start_proxy(&Setup::default().size(1).top(&weak), &cluster);
    let mut client = proxy.login();
    let mut ssl = || client.value("select ssl from pg_stat_ssl where pid = pg_backend_pid()");
    assert_eq!(ssl(), "f");
    let text = fs::read_to_string(&proxy.config).expect("read");
    let strong = tls(&[towards_servers("verify-full", Some(&papers.ca))]);
    fs::write(&proxy.config, text.replace(&weak, &strong)).expect("write");
    hup(&proxy);
    reloaded(&proxy, 1);
    assert_eq!(ssl(), "t");
    let probes =
        "select bool_and(ssl) from pg_stat_ssl join pg_stat_activity using (pid) where application_name = 'pgsluice'";
    eventually("the probes, too", || cluster.primary().psql(probes).is_ok_and(|all| all == "t"));
    fs::write(&proxy.config, text).expect("write");
    hup(&proxy);
    reloaded(&proxy, 2);
    assert_eq!(ssl(), "f");
}

fn an_equal_configuration_keeps_connections(world: &World) {
    let proxy = both_sides(world, Setup::default().size(1).primary_only());
    let config = Hello::default().config(world.papers());
    let mut client = login(proxy.port, Door::Asked, &config, &Login::default()).expect("login");
    let first = client.value("select pg_backend_pid()");
    for times in 1..4 {
        hup(&proxy);
        reloaded(&proxy, times);
        assert_eq!(client.value("select pg_backend_pid()"), first);
    }
}
