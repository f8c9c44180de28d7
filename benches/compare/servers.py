"""The throw-away cluster and the proxies in front of it. Every process started here is stopped here, by pid."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

from workloads import Auth, Cache, Rules, Setting, Tls

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "benches/compare/rules"
PASSWORD = "secret"
POOL = 20  # server connections per node and user, in both proxies
MOST_CLIENTS = 20000  # of both proxies: as many as anybody measures with


class BenchError(Exception):
    """Something the person at the terminal must read; the run ends."""


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for_port(port: int, process: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise BenchError(f"{log.stem} did not start:\n{log.read_text()[-2000:]}")


class Cluster:
    """One primary and two streaming replicas with pgbench's tables."""

    def __init__(self, directory: Path, scale: int):
        self.directory = directory / "cluster"
        options = {"CLUSTER_AUTH": "trust", "CLUSTER_CONNECTIONS": "300", "CLUSTER_BUFFERS": "256MB", "CLUSTER_TLS": "on"}
        self._script("start", options)
        lines = (self.directory / "ports.env").read_text().split()
        ports = dict(line.split("=", 1) for line in lines)
        self.nodes = ports["CLUSTER_NODES"].split(",")
        self.primary = int(ports["PRIMARY_PORT"])
        self.scale = scale

    def _script(self, command: str, options: dict[str, str] = {}) -> None:
        done = subprocess.run([ROOT / "scripts/cluster.sh", command, self.directory], capture_output=True, text=True, env=os.environ | options)
        if done.returncode != 0:
            raise BenchError(f"cluster.sh {command}: {done.stderr}")

    def fill(self, statements: list[str]) -> None:
        subprocess.run(["pgbench", "-h", "127.0.0.1", "-p", str(self.primary), "-U", "app", "-i", "-q", "-s", str(self.scale), "app"],
                       check=True, capture_output=True)
        for statement in [*statements, "vacuum analyze", "checkpoint"]:
            self.ask(self.primary, statement)
        self.settle()

    def settle(self) -> None:
        """Replicas that still replay would take CPU from the next workload."""
        self._script("wait")

    def ask(self, port: int, sql: str) -> str:
        command = ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "-d", "app"]
        # As role app, so that the tables are its own; the superuser only where PostgreSQL asks for one.
        if sql.startswith("create"):
            sql = f"set role app; {sql}"
        return subprocess.run([*command, "-c", sql], check=True, capture_output=True, text=True).stdout.strip()

    def commits(self) -> list[int]:
        """Transactions committed so far in database app, one number per node, the primary first."""
        query = "select xact_commit from pg_stat_database where datname = 'app'"
        return [int(self.ask(int(node.rsplit(":", 1)[1]), query)) for node in self.nodes]

    def verifier(self, role: str) -> str:
        return self.ask(self.primary, f"select rolpassword from pg_authid where rolname = '{role}'")

    def stop(self) -> None:
        self._script("stop")


class Proxy:
    """A running proxy."""

    def __init__(self, name: str, directory: Path, port: int, command: list[str], run_as_postgres: bool = False):
        self.name, self.port = name, port
        if run_as_postgres and os.geteuid() == 0:
            command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
        log = directory / f"{name}.log"
        with log.open("w") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)
        try:
            wait_for_port(port, self.process, log)
        except BenchError:
            self.stop()
            raise
        self.pid = self.process.pid

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def secret_of(cluster: Cluster, auth: Auth) -> str:
    """SCRAM verifiers for both, so that neither proxy has to derive one at each login."""
    return cluster.verifier(auth.role) if auth is Auth.SCRAM else PASSWORD


def start_pgbouncer(directory: Path, cluster: Cluster, setting: Setting) -> Proxy:
    port = free_port()
    users, ini = directory / "users.txt", directory / "pgbouncer.ini"
    users.write_text(f'"{setting.auth.role}" "{secret_of(cluster, setting.auth)}"\n')
    tls = ""
    if setting.tls is Tls.ON:
        cert, key = certificate(directory)
        tls = f"client_tls_cert_file = {cert}\nclient_tls_key_file = {key}\n"
    ini.write_text(f"""[databases]
app = host=127.0.0.1 port={cluster.primary} dbname=app user=app
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
client_tls_sslmode = {setting.tls.value}
server_tls_sslmode = {setting.tls.value}
{tls}auth_type = {setting.auth.method}
auth_file = {users}
pool_mode = {setting.bouncer_mode}
default_pool_size = {setting.bouncer_pool}
max_client_conn = {MOST_CLIENTS}
ignore_startup_parameters = extra_float_digits
log_connections = 0
log_disconnections = 0
""")
    return Proxy("pgbouncer", directory, port, [shutil.which("pgbouncer") or "/usr/sbin/pgbouncer", "-q", str(ini)], run_as_postgres=True)


def certificate(directory: Path) -> tuple[Path, Path]:
    """A certificate and its key, the same for both proxies; made at the first call, readable for user postgres."""
    cert, key = directory / "proxy.crt", directory / "proxy.key"
    if not cert.exists():
        subprocess.run(["openssl", "req", "-batch", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-days", "30",
                        "-subj", "/CN=localhost", "-keyout", key, "-out", cert], check=True, capture_output=True)
        key.chmod(0o644)
    return cert, key


def pgsluice_config(directory: Path, setting: Setting, port: int, secret: str, nodes: list[str], rules: Rules) -> str:
    patterns = [f'"{RULES}/*.yaml"', *([f'"{RULES}/cache/*.yaml"'] if setting.cache is Cache.ON else [])]
    ruled = f"firewall: {{ mode: protect }}\nrules: [{', '.join(patterns)}]\n" if rules is Rules.ON else ""
    tls = ""
    if setting.tls is Tls.ON:
        cert, key = certificate(directory)
        tls = f'tls: {{ client: {{ mode: require, cert: "{cert}", key: "{key}" }}, server: {{ mode: require }} }}\n'
    return f"""listen: 127.0.0.1:{port}
databases:
  app:
    nodes: [{", ".join(nodes)}]
    server_user: app
    server_password: {PASSWORD}
    pool: {{ mode: transaction, size: {POOL} }}
    cache: {{ enabled: {setting.cache.value} }}
users:
  - {{ name: {setting.auth.role}, password: "{secret}" }}
auth: {{ method: {setting.auth.method} }}
admin: {{ listen: 127.0.0.1:{free_port()} }}
limits: {{ clients: {MOST_CLIENTS} }}
log: {{ level: warn }}
{tls}{ruled}"""


def accepts(directory: Path, binary: Path, setting: Setting) -> bool:
    """Whether this pgsluice knows the rules of a setting. An early one may not; then it is measured without, and the record says so."""
    config = directory / "accepts.yaml"
    config.write_text(pgsluice_config(directory, setting, free_port(), PASSWORD, ["127.0.0.1:1"], Rules.ON))
    return subprocess.run([binary, "check", "-c", config], capture_output=True, timeout=60).returncode == 0


def start_pgsluice(directory: Path, cluster: Cluster, setting: Setting, binary: Path, nodes: list[str], rules: Rules) -> Proxy:
    port = free_port()
    config = directory / "pgsluice.yaml"
    config.write_text(pgsluice_config(directory, setting, port, secret_of(cluster, setting.auth), nodes, rules))
    return Proxy("pgsluice", directory, port, [str(binary), "run", "-c", str(config)])
