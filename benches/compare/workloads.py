"""What is measured: one row per workload."""

from dataclasses import dataclass
from enum import Enum


class Auth(Enum):
    """How clients log in, and the role for which the servers ask the same."""

    TRUST = ("trust", "app")
    MD5 = ("md5", "app_md5")
    SCRAM = ("scram-sha-256", "app_scram")

    def __init__(self, method: str, role: str):
        self.method = method
        self.role = role


class Cache(Enum):
    """pgsluice's result cache; PgBouncer has none."""

    OFF = "false"
    ON = "true"


class Rules(Enum):
    """Whether pgsluice runs with the rules in benches/compare/rules and the firewall on."""

    OFF = "off"
    ON = "on"


class Tls(Enum):
    """TLS on every connection, from pgbench to the proxy and from the proxy to the servers, or on none."""

    OFF = "disable"
    ON = "require"


@dataclass(frozen=True)
class Setting:
    """What the proxies are started with; workloads of one setting share the processes."""

    auth: Auth = Auth.TRUST
    bouncer_mode: str = "transaction"
    bouncer_pool: int = 20
    cache: Cache = Cache.OFF
    tls: Tls = Tls.OFF


# Debian's PgBouncer knows no prepared statements in transaction mode. In session mode every client needs a
# server of its own, hence the larger pool.
SESSION = Setting(bouncer_mode="session", bouncer_pool=40)


@dataclass(frozen=True)
class Workload:
    name: str
    clients: int
    arguments: tuple[str, ...]
    script: str | None = None
    setting: Setting = Setting()


def _selects(protocol: str, setting: Setting) -> list[Workload]:
    return [Workload(f"select-{protocol}-{c}", c, ("-S", "-M", protocol), setting=setting) for c in (1, 8, 32)]


# A hundred keys, read again and again.
HOT_READS = "\\set aid random(1, 100)\nselect abalance from pgbench_accounts where aid = :aid;\n"

# TPC-B comes last: it leaves dead rows behind.
WORKLOADS = [
    *_selects("simple", Setting()),
    *_selects("extended", Setting()),
    *_selects("prepared", SESSION),
    Workload("select-simple-8-tls", 8, ("-S", "-M", "simple"), setting=Setting(tls=Tls.ON)),
    Workload("rows-simple-4", 4, ("-M", "simple"), script="select pad from wide;\n"),
    Workload("cached-simple-8", 8, ("-M", "simple"), script=HOT_READS, setting=Setting(cache=Cache.ON)),
    Workload("reconnect-trust-8", 8, ("-S", "-C", "-M", "simple")),
    Workload("reconnect-md5-8", 8, ("-S", "-C", "-M", "simple"), setting=Setting(Auth.MD5)),
    Workload("reconnect-scram-8", 8, ("-S", "-C", "-M", "simple"), setting=Setting(Auth.SCRAM)),
    Workload("tpcb-simple-8", 8, ("-M", "simple")),
]

# pgbench's own tables come from pgbench -i; this one is for large results: 5,000 rows of 100 bytes.
WIDE_TABLE = "create table wide as select repeat('x', 100) as pad from generate_series(1, 5000)"
