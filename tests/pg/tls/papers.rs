//! Certificates of everybody in these tests.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::Arc,
};

use pgsluice::cli::demo::Cluster;
use rustls::{
    ClientConfig, RootCertStore, SupportedProtocolVersion,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::{
    certs::{self, Pair},
    world::eventually,
};

/// Two authorities, and what they have signed.
pub struct Papers {
    pub dir: PathBuf,
    /// Believed by everybody.
    pub ca: Pair,
    /// Believed by nobody.
    pub other: Pair,
    /// The proxy's, for localhost.
    pub proxy: Pair,
    /// The servers', for 127.0.0.1.
    pub server: Pair,
    /// For elsewhere.example only.
    pub elsewhere: Pair,
    /// Of user app.
    pub app: Pair,
    /// Of user bob.
    pub bob: Pair,
    /// Of a user app whom the other authority has signed.
    pub stranger: Pair,
}

/// What a test client offers in its hello.
#[derive(Clone, Copy, Debug)]
pub struct Hello<'a> {
    pub certificate: Option<&'a Pair>,
    pub versions: &'a [&'static SupportedProtocolVersion],
    pub alpn: &'a [&'a [u8]],
}

impl Default for Hello<'_> {
    fn default() -> Self {
        Self { certificate: None, versions: rustls::ALL_VERSIONS, alpn: &[b"postgresql"] }
    }
}

impl Hello<'_> {
    /// Believes the papers' authorities, both of them.
    pub fn config(&self, papers: &Papers) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        for authority in [&papers.ca, &papers.other] {
            roots.add(CertificateDer::from_pem_file(&authority.cert).expect("a certificate")).expect("an authority");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(self.versions);
        let builder = builder.expect("versions").with_root_certificates(roots);
        let mut config = match self.certificate {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = vec![CertificateDer::from_pem_file(&pair.cert).expect("a certificate")];
                let key = PrivateKeyDer::from_pem_file(&pair.key).expect("a key");
                builder.with_client_auth_cert(chain, key).expect("a certificate of ours")
            }
        };
        config.alpn_protocols = self.alpn.iter().map(|name| name.to_vec()).collect();
        Arc::new(config)
    }
}

impl Papers {
    /// Makes them below the cluster's directory, readable for the account of its servers.
    pub fn make(cluster: &Cluster) -> Self {
        let dir = cluster.dir().join("papers");
        fs::create_dir(&dir).expect("a directory");
        let (ca, other) = (certs::authority(&dir, "ca"), certs::authority(&dir, "other"));
        let papers = Self {
            proxy: certs::server(&dir, "proxy", &ca, "DNS:localhost"),
            server: certs::server(&dir, "server", &ca, "IP:127.0.0.1"),
            elsewhere: certs::server(&dir, "elsewhere", &ca, "DNS:elsewhere.example"),
            app: certs::client(&dir, "app", &ca, "app"),
            bob: certs::client(&dir, "bob", &ca, "bob"),
            stranger: certs::client(&dir, "stranger", &other, "app"),
            dir,
            ca,
            other,
        };
        for entry in fs::read_dir(&papers.dir).expect("the directory").flatten() {
            hand_over(cluster, &entry.path());
        }
        hand_over(cluster, &papers.dir);
        papers
    }

    /// Lets a cluster's servers speak TLS with this certificate, and TCP clients in by this line of pg_hba.conf alone.
    pub fn arm(&self, cluster: &Cluster, pair: &Pair, line: &str) {
        for node in cluster.nodes() {
            for (from, to) in [(&pair.cert, "server.crt"), (&pair.key, "server.key")] {
                let to = node.data().join(to);
                fs::copy(from, &to).expect("copy");
                fs::set_permissions(&to, fs::Permissions::from_mode(0o600)).expect("chmod");
                hand_over(cluster, &to);
            }
            let hba = node.data().join("pg_hba.conf");
            fs::write(&hba, format!("local all all trust\nlocal replication all trust\n{line}\n")).expect("write");
            node.psql("alter system set ssl = on").expect("ssl = on");
            node.psql("select pg_reload_conf()").expect("reload");
            // The postmaster takes it up a moment later, and a new session is a child of it.
            eventually("the server to speak TLS", || node.psql("show ssl").is_ok_and(|on| on == "on"));
        }
    }
}

/// To the account that the servers and psql run as.
fn hand_over(cluster: &Cluster, path: &Path) {
    if let Some(account) = cluster.binaries().owner() {
        chown(path, Some(account.uid), Some(account.gid)).expect("chown");
    }
}
