//! Sums the workers' counters when Prometheus asks.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use prometheus::{
    core::{Collector, Desc},
    proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType},
};

use super::{
    labels::{ClassifyPath, ClientState, LimitHit, LoginEnd, LookupEnd, Sent},
    metrics::{Names, Sources, Words},
    worker::{BOUNDS_US, HISTOGRAM, Table, WorkerMetrics},
};

/// Name, help, labels. interface.md fixes the names.
const FAMILIES: &[(&str, &str, &[&str])] = &[
    ("pgsluice_statements_total", "Statements by where they went and why", &["database", "route", "reason"]),
    ("pgsluice_statement_seconds", "From the request to the end of its answer", &["database", "role"]),
    ("pgsluice_clients", "Clients by what they are doing", &["database", "state"]),
    ("pgsluice_servers", "Server connections by what they are doing", &["database", "node", "state"]),
    ("pgsluice_logins_total", "Logins by how they ended", &["outcome"]),
    ("pgsluice_lookups_total", "Searches for users by auth.query, by what came out", &["outcome"]),
    ("pgsluice_half_open_logins", "Clients that have not proved yet who they are", &[]),
    ("pgsluice_limits_total", "Limits that were reached", &["limit"]),
    ("pgsluice_checkout_seconds", "Wait for a server connection", &[]),
    ("pgsluice_classify_total", "Texts by how their facts were found", &["path"]),
    ("pgsluice_read_fallback_total", "Reads that went to the primary for want of a fit replica", &["reason"]),
    ("pgsluice_pins_total", "Sessions that became bound to one server connection", &["reason"]),
    ("pgsluice_firewall_total", "Statements that a rule of the firewall matched", &["rule", "verdict"]),
    ("pgsluice_rules_total", "Statements that another rule matched", &["section", "rule", "verdict"]),
    ("pgsluice_prepared_texts", "Distinct texts of prepared statements that clients hold, summed over workers", &[]),
    ("pgsluice_taps_dropped_total", "Events dropped because a tap was slow", &["tap"]),
    ("pgsluice_replica_lag_seconds", "Upper bound of the age of a replica's data", &["node"]),
    ("pgsluice_replica_lag_bytes", "WAL flushed by the primary and not replayed", &["node"]),
    ("pgsluice_catalog_looks_total", "Looks at a database's catalog by what came out", &["database", "outcome"]),
    ("pgsluice_catalog_look_seconds_total", "What these looks took", &["database"]),
    ("pgsluice_catalog_generation", "How often what is known of the catalog was read anew", &["database"]),
    ("pgsluice_catalog_age_seconds", "Since the last look at the catalog that did not fail", &["database"]),
    ("pgsluice_catalog_fresh", "1 if what is known of the catalog is believed in all it says", &["database"]),
    ("pgsluice_catalog_questions_total", "Servers asked what code a statement reaches", &[]),
    ("pgsluice_node_up", "1 if the node answered its last probe", &["node", "role"]),
];

/// What is registered with Prometheus.
pub(super) struct Scrape {
    workers: Vec<Arc<WorkerMetrics>>,
    names: Arc<Names>,
    words: Words,
    sources: Sources,
    descriptions: Vec<Desc>,
}

/// Metrics by family name, in the making.
#[derive(Default)]
struct Page(BTreeMap<&'static str, (MetricType, Vec<Metric>)>);

impl Scrape {
    pub(super) fn new(
        workers: Vec<Arc<WorkerMetrics>>,
        names: Arc<Names>,
        words: Words,
        sources: Sources,
    ) -> Result<Self, prometheus::Error> {
        let describe = |(name, help, labels): &(&str, &str, &[&str])| {
            let labels = labels.iter().map(|&label| label.to_owned()).collect();
            Desc::new((*name).to_owned(), (*help).to_owned(), labels, HashMap::new())
        };
        let descriptions = FAMILIES.iter().map(describe).collect::<Result<_, _>>()?;
        Ok(Self { workers, names, words, sources, descriptions })
    }

    fn sum(&self, table: impl Fn(&WorkerMetrics) -> &Table, cell: usize) -> u64 {
        self.workers.iter().fold(0u64, |sum, worker| sum.wrapping_add(table(worker).read(cell)))
    }

    /// One counter per word; those still at zero are shown, so that rates exist from the first event on.
    fn words(
        &self,
        page: &mut Page,
        name: &'static str,
        label: &str,
        words: &[&str],
        table: impl Fn(&WorkerMetrics) -> &Table,
    ) {
        for (cell, word) in words.iter().enumerate() {
            page.counter(name, &[(label, word)], self.sum(&table, cell));
        }
    }

    fn histogram(&self, table: impl Fn(&WorkerMetrics) -> &Table, index: usize) -> Histogram {
        let cell = |offset: usize| self.sum(&table, index * HISTOGRAM + offset);
        let mut count = 0;
        let mut buckets = Vec::with_capacity(BOUNDS_US.len());
        for (offset, bound) in BOUNDS_US.iter().enumerate() {
            count += cell(offset);
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound as f64 / 1e6);
            bucket.set_cumulative_count(count);
            buckets.push(bucket);
        }
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets);
        histogram.set_sample_count(count + cell(BOUNDS_US.len()));
        histogram.set_sample_sum(cell(HISTOGRAM - 1) as f64 / 1e9);
        histogram
    }

    fn per_database(&self, page: &mut Page) {
        let sent = Sent::WORDS.len();
        for (database, name) in self.names.databases().iter().enumerate() {
            for (to, route) in Sent::WORDS.iter().enumerate() {
                let row = database * sent + to;
                for (reason, word) in self.words.reasons.iter().enumerate() {
                    let count = self.sum(|worker| &worker.statements, row * self.words.reasons.len() + reason);
                    if count > 0 {
                        let labels = [("database", &**name), ("route", route), ("reason", word)];
                        page.counter("pgsluice_statements_total", &labels, count);
                    }
                }
                let histogram = self.histogram(|worker| &worker.statement_seconds, row);
                if histogram.get_sample_count() > 0 {
                    let labels = [("database", &**name), ("role", *route)];
                    page.histogram("pgsluice_statement_seconds", &labels, histogram);
                }
            }
            for (state, word) in ClientState::WORDS.iter().enumerate() {
                let count = self.sum(|worker| &worker.clients, database * ClientState::WORDS.len() + state);
                page.gauge("pgsluice_clients", &[("database", name), ("state", word)], signed(count));
            }
        }
    }

    fn per_node(&self, page: &mut Page) {
        let mut shown = std::collections::BTreeSet::new();
        for facts in (self.sources.nodes)() {
            for (state, count) in [("idle", facts.idle), ("active", facts.active)] {
                let labels = [("database", &*facts.database), ("node", &*facts.node), ("state", state)];
                page.gauge("pgsluice_servers", &labels, count as f64);
            }
            // A node of several databases is one node.
            if !shown.insert(Arc::clone(&facts.node)) {
                continue;
            }
            let node = ("node", &*facts.node);
            page.gauge("pgsluice_node_up", &[node, ("role", facts.role)], f64::from(u8::from(facts.up)));
            if let Some(lag) = facts.lag {
                page.gauge("pgsluice_replica_lag_seconds", &[node], lag.as_secs_f64());
            }
            if let Some(bytes) = facts.lag_bytes {
                page.gauge("pgsluice_replica_lag_bytes", &[node], bytes as f64);
            }
        }
    }
}

impl Scrape {
    fn per_catalog(&self, page: &mut Page) {
        for facts in (self.sources.catalogs)() {
            let database = ("database", &*facts.database);
            for (outcome, count) in facts.looks {
                page.counter("pgsluice_catalog_looks_total", &[database, ("outcome", outcome)], count);
                if outcome == "changed" {
                    page.gauge("pgsluice_catalog_generation", &[database], count as f64);
                }
            }
            page.seconds("pgsluice_catalog_look_seconds_total", &[database], facts.took);
            if let Some(age) = facts.age {
                page.gauge("pgsluice_catalog_age_seconds", &[database], age.as_secs_f64());
            }
            page.gauge("pgsluice_catalog_fresh", &[database], f64::from(u8::from(facts.fresh)));
        }
    }

    fn per_rule(&self, page: &mut Page) {
        for facts in (self.sources.rules)() {
            for (verdict, count) in facts.hits {
                match facts.section {
                    // What a rule refuses is shown from the beginning, so that rates exist from its first match on.
                    "firewall" if count > 0 || verdict == "deny" => {
                        let labels = [("rule", &*facts.rule), ("verdict", verdict)];
                        page.counter("pgsluice_firewall_total", &labels, count);
                    }
                    "firewall" => {}
                    section if count > 0 => {
                        let labels = [("section", section), ("rule", &*facts.rule), ("verdict", verdict)];
                        page.counter("pgsluice_rules_total", &labels, count);
                    }
                    _ => {}
                }
            }
        }
    }
}

impl Collector for Scrape {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut page = Page::default();
        self.per_database(&mut page);
        self.per_node(&mut page);
        self.per_rule(&mut page);
        self.per_catalog(&mut page);
        let questions = self.sum(|worker| &worker.catalog_questions, 0);
        page.counter("pgsluice_catalog_questions_total", &[], questions);
        let checkouts = self.histogram(|worker| &worker.checkout_seconds, 0);
        page.histogram("pgsluice_checkout_seconds", &[], checkouts);
        self.words(&mut page, "pgsluice_classify_total", "path", ClassifyPath::WORDS, |worker| &worker.classified);
        self.words(&mut page, "pgsluice_logins_total", "outcome", LoginEnd::WORDS, |worker| &worker.logins);
        self.words(&mut page, "pgsluice_lookups_total", "outcome", LookupEnd::WORDS, |worker| &worker.lookups);
        page.gauge("pgsluice_half_open_logins", &[], self.sum(|worker| &worker.half_open, 0) as f64);
        self.words(&mut page, "pgsluice_limits_total", "limit", LimitHit::WORDS, |worker| &worker.limits);
        self.words(&mut page, "pgsluice_pins_total", "reason", self.words.pins, |worker| &worker.pins);
        self.words(&mut page, "pgsluice_taps_dropped_total", "tap", self.words.taps, |worker| &worker.taps_dropped);
        page.gauge("pgsluice_prepared_texts", &[], self.sum(|worker| &worker.prepared_texts, 0) as f64);
        for (reason, word) in self.words.reasons.iter().enumerate() {
            let count = self.sum(|worker| &worker.fallbacks, reason);
            if count > 0 {
                page.counter("pgsluice_read_fallback_total", &[("reason", word)], count);
            }
        }
        page.families()
    }
}

impl Page {
    fn counter(&mut self, name: &'static str, labels: &[(&str, &str)], value: u64) {
        self.sum(name, labels, value as f64);
    }

    fn seconds(&mut self, name: &'static str, labels: &[(&str, &str)], time: Duration) {
        self.sum(name, labels, time.as_secs_f64());
    }

    fn sum(&mut self, name: &'static str, labels: &[(&str, &str)], value: f64) {
        let mut counter = Counter::default();
        counter.set_value(value);
        let mut metric = labelled(labels);
        metric.set_counter(counter);
        self.add(name, MetricType::COUNTER, metric);
    }

    fn gauge(&mut self, name: &'static str, labels: &[(&str, &str)], value: f64) {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        let mut metric = labelled(labels);
        metric.set_gauge(gauge);
        self.add(name, MetricType::GAUGE, metric);
    }

    fn histogram(&mut self, name: &'static str, labels: &[(&str, &str)], histogram: Histogram) {
        let mut metric = labelled(labels);
        metric.set_histogram(histogram);
        self.add(name, MetricType::HISTOGRAM, metric);
    }

    fn add(&mut self, name: &'static str, kind: MetricType, metric: Metric) {
        self.0.entry(name).or_insert_with(|| (kind, Vec::new())).1.push(metric);
    }

    fn families(self) -> Vec<MetricFamily> {
        let help = |name: &str| FAMILIES.iter().find(|(known, ..)| *known == name).map_or("", |(_, help, _)| help);
        let family = |(name, (kind, metrics)): (&'static str, (MetricType, Vec<Metric>))| {
            let mut family = MetricFamily::default();
            family.set_name(name.to_owned());
            family.set_help(help(name).to_owned());
            family.set_field_type(kind);
            family.set_metric(metrics);
            family
        };
        self.0.into_iter().map(family).collect()
    }
}

fn labelled(labels: &[(&str, &str)]) -> Metric {
    let pair = |&(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name(name.to_owned());
        pair.set_value(value.to_owned());
        pair
    };
    Metric::from_label(labels.iter().map(pair).collect())
}

/// A gauge summed over workers, of which one may have counted the coming and another the going.
fn signed(sum: u64) -> f64 {
    sum.cast_signed().max(0) as f64
}
