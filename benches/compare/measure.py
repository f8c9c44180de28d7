"""One pgbench run, and the proxy's CPU beside it."""

import os
import re
import statistics
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from servers import PASSWORD, BenchError
from workloads import Workload

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class Target:
    """Something pgbench can be pointed at. The pid is None where there is no proxy."""

    name: str
    port: int
    pid: int | None = None
    samples: list["Sample"] = field(default_factory=list)
    failure: str | None = None
    commits: list[int] | None = None  # per node over all rounds, for a target that splits

    def median(self, what: str) -> float | None:
        values = [v for v in (getattr(sample, what) for sample in self.samples) if v is not None]
        return statistics.median(values) if values else None


@dataclass(frozen=True)
class Sample:
    tps: float
    latency_ms: float
    cpu_us: float | None  # of the proxy, user and system, all threads, per transaction


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def run_pgbench(target: Target, workload: Workload, script: Path | None, seconds: int) -> Sample:
    command = ["pgbench", "-h", "127.0.0.1", "-p", str(target.port), "-U", workload.setting.auth.role, "-n",
               "-c", str(workload.clients), "-j", "2", "-T", str(seconds), *workload.arguments]
    if script:
        command += ["-f", str(script)]
    before = cpu_seconds(target.pid) if target.pid else 0.0
    environment = os.environ | {"PGPASSWORD": PASSWORD, "PGSSLMODE": workload.setting.tls.value}
    try:
        done = subprocess.run([*command, "app"], capture_output=True, text=True, env=environment, timeout=seconds + 30)
    except subprocess.TimeoutExpired:
        raise BenchError(f"pgbench did not end within {seconds + 30} s") from None
    after = cpu_seconds(target.pid) if target.pid else 0.0
    tps = re.search(r"^tps = ([\d.]+)", done.stdout, re.M)
    count = re.search(r"actually processed: (\d+)", done.stdout)
    latency = re.search(r"latency average = ([\d.]+)", done.stdout)
    # pgbench may print figures although some of its clients gave up; those are no figures.
    if done.returncode != 0 or "aborted" in done.stderr or not (tps and count and latency) or count[1] == "0":
        raise BenchError(done.stderr.strip()[-300:] or "pgbench printed no figures")
    cpu = (after - before) / int(count[1]) * 1e6 if target.pid else None
    return Sample(float(tps[1]), float(latency[1]), cpu)


def interleaved(targets: list[Target], workload: Workload, script: Path | None, rounds: int, seconds: int, commits) -> None:
    """Warms every target up, then measures them in turns, so that a slow minute of the machine hits all of them alike.

    A target that fails keeps its reason and is left out from then on. `commits` counts transactions per node.
    """
    for round_number in range(rounds + 1):
        for target in targets:
            if target.failure:
                continue
            try:
                if round_number == 0:
                    run_pgbench(target, workload, script, 1)
                    continue
                before = commits() if target.commits is not None else []
                target.samples.append(run_pgbench(target, workload, script, seconds))
                if target.commits is not None:
                    target.commits = [total + now - then for total, now, then in zip(target.commits, commits(), before)]
            except (BenchError, OSError) as error:
                target.failure = " ".join(str(error).split())
