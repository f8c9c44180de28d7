#!/usr/bin/env python3
"""Compares pgsluice with PgBouncer and with PostgreSQL itself: pgbench, interleaved rounds, medians.

Everything is on loopback and thrown away afterwards: a primary and two replicas, both proxies, all with the
same pool size. pgsluice splits reads and writes and has its rules on; its reads go to the replicas, while
the others only know the primary. With --single it gets the primary alone: equal work for all servers.

A full run is recorded in benches/RESULTS.md; a partial one (--quick, --only, --targets, --plain), or one of an executable
that PGSLUICE_BIN names instead of a release build, only with --record.
"""

import argparse
import fnmatch
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import report
from idle_memory import allow_files, bytes_per_client
from measure import Target, interleaved
from servers import PASSWORD, ROOT, BenchError, Cluster, Proxy, accepts, start_pgbouncer, start_pgsluice
from workloads import WIDE_TABLE, WORKLOADS, Cache, Rules, Setting, Workload

IDLE_MEMORY = "idle-memory"


def arguments() -> argparse.Namespace:
    names = ", ".join([*(w.name for w in WORKLOADS), IDLE_MEMORY])
    parser = argparse.ArgumentParser(description=__doc__, epilog=f"workloads: {names}", formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-T", "--seconds", type=int, default=5, help="length of a round")
    parser.add_argument("-r", "--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="two rounds of three seconds")
    parser.add_argument("--only", action="append", metavar="NAME", help="workloads by name or pattern (select-*); may be repeated")
    parser.add_argument("--targets", default="direct,pgbouncer,pgsluice", help="comma-separated; default: %(default)s")
    parser.add_argument("--plain", action="store_true", help="measure what cargo build --release gives, not what make release gives")
    parser.add_argument("--single", action="store_true", help="pgsluice knows the primary only")
    parser.add_argument("--scale", type=int, default=10, help="pgbench scale")
    parser.add_argument("--clients", type=int, default=1000, help="idle clients of " + IDLE_MEMORY)
    parser.add_argument("--record", action="store_true", help="record a partial run too")
    a = parser.parse_args()
    if a.quick:
        a.rounds, a.seconds = 2, 3
    a.whole = not (a.quick or a.only or a.plain or a.targets != parser.get_default("targets") or "PGSLUICE_BIN" in os.environ)
    a.targets = a.targets.split(",")
    a.load = os.getloadavg()[1]  # of five minutes: others on the machine make the figures worth less
    return a


def build(plain: bool) -> Path:
    if named := os.environ.get("PGSLUICE_BIN"):
        return Path(named)
    if plain:
        print("building pgsluice (cargo build --release)", flush=True)
        subprocess.run(["cargo", "build", "--release", "--quiet", "--bin", "pgsluice"], cwd=ROOT, check=True)
        return ROOT / "target/release/pgsluice"
    print("building pgsluice (make release)", flush=True)
    subprocess.run(["scripts/release.sh"], cwd=ROOT, check=True)
    return ROOT / "target/ship/pgsluice"


class Proxies:
    """The running proxies of one setting; another setting restarts them, so that none runs idle beside a measurement."""

    def __init__(self, directory: Path, cluster: Cluster, names: list[str], binary: Path | None, nodes: list[str], rules: Rules):
        self.directory, self.cluster, self.names = directory, cluster, names
        self.binary, self.nodes, self.rules = binary, nodes, rules
        self.setting: Setting | None = None
        self.running: list[Proxy] = []

    def of(self, setting: Setting) -> list[Proxy]:
        if setting != self.setting:
            self.stop()
            if "pgbouncer" in self.names:
                self.running.append(start_pgbouncer(self.directory, self.cluster, setting))
            if self.binary:
                self.running.append(start_pgsluice(self.directory, self.cluster, setting, self.binary, self.nodes, self.rules))
            self.setting = setting
        return self.running

    def stop(self) -> None:
        self.setting = None
        while self.running:
            self.running.pop().stop()


def measure(workload: Workload, a: argparse.Namespace, directory: Path, cluster: Cluster, proxies: Proxies) -> list[Target]:
    targets = [Target("direct", cluster.primary)] if "direct" in a.targets else []
    for proxy in proxies.of(workload.setting):
        splits = proxy.name == "pgsluice" and not a.single
        targets.append(Target(proxy.name, proxy.port, proxy.pid, commits=[0] * len(cluster.nodes) if splits else None))
    script = None
    if workload.script:
        script = directory / f"{workload.name}.sql"
        script.write_text(workload.script)
    cluster.settle()
    interleaved(targets, workload, script, a.rounds, a.seconds, cluster.commits)
    return targets


def idle_memory(a: argparse.Namespace, proxies: Proxies) -> list[tuple[str, float | None, str]]:
    """Fresh processes: what earlier load left behind is not what a client costs."""
    proxies.stop()
    rows = []
    for proxy in proxies.of(Setting()):
        try:
            before, after, each = bytes_per_client(proxy.port, proxy.pid, a.clients, Setting().auth.role, PASSWORD, "app")
            rows.append((proxy.name, each, f"{before} KiB -> {after} KiB with {a.clients} more clients"))
        except (OSError, BenchError) as error:
            rows.append((proxy.name, None, str(error)))
    return rows


def main() -> int:
    a = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    patterns = a.only or ["*"]
    chosen = [w for w in WORKLOADS if any(fnmatch.fnmatch(w.name, p) for p in patterns)]
    with_memory = any(fnmatch.fnmatch(IDLE_MEMORY, p) for p in patterns)
    if not chosen and not with_memory:
        raise BenchError(f"no workload is called {' or '.join(patterns)}; see --help")
    if with_memory:
        allow_files(a.clients)
    binary = build(a.plain) if "pgsluice" in a.targets else None
    with ExitStack() as stack:
        # User postgres walks through it, and PgBouncer reads its files as that user.
        directory = Path(tempfile.mkdtemp(prefix="pgsluice-compare-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        directory.chmod(0o755)
        a.rules = Rules.OFF
        if binary:
            a.rules = Rules.ON if accepts(directory, binary, Setting()) else Rules.OFF
            if a.rules is Rules.OFF:
                print("this pgsluice does not accept the rules in benches/compare/rules: measured without rules and firewall")
            if a.rules is Rules.OFF or not accepts(directory, binary, Setting(cache=Cache.ON)):
                skipped = [w for w in chosen if w.setting.cache is Cache.ON]
                chosen = [w for w in chosen if w not in skipped]
                print("".join(f"{w.name} skipped: this pgsluice has no result cache\n" for w in skipped), end="", flush=True)
        cluster = Cluster(directory, a.scale)
        stack.callback(cluster.stop)
        cluster.fill([WIDE_TABLE])
        proxies = Proxies(directory, cluster, a.targets, binary, cluster.nodes[:1] if a.single else cluster.nodes, a.rules)
        stack.callback(proxies.stop)
        results = []
        for workload in chosen:
            results.append((workload, measure(workload, a, directory, cluster, proxies)))
            print(report.text(*results[-1]), flush=True)
        memory = idle_memory(a, proxies) if with_memory else []
        print(report.memory_text(memory), end="", flush=True)
        if a.whole or a.record:
            report.record(ROOT / "benches/RESULTS.md", a, results, memory, binary)
    failed = any(t.failure for _, targets in results for t in targets) or any(each is None for _, each, _ in memory)
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        sys.exit(f"compare: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"compare: {error}\n{error.stderr or ''}")
