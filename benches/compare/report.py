"""Figures as a table on the terminal and as a section of RESULTS.md."""

import argparse
import datetime
import os
import re
import subprocess
from pathlib import Path

from measure import Target
from servers import POOL, ROOT
from workloads import Workload

INTRODUCTION = """# Measured

`make bench-compare` writes this file; the newest run comes first. Load, proxy and servers share one machine, and
rounds are interleaved: compare figures within one run, never between runs. "of direct" and "of PgBouncer" are shares
of TPS; CPU is the proxy's own, user and system, all threads, per transaction.
"""


def share(target: Target, other: Target | None) -> str:
    mine, theirs = target.median("tps"), other.median("tps") if other else None
    return f"{mine / theirs:.3f}" if mine and theirs else "-"


def on_replicas(target: Target) -> str:
    """The share of transactions that replicas committed: proof that reads were split at all."""
    if not target.commits or not sum(target.commits):
        return "-"
    return f"{sum(target.commits[1:]) / sum(target.commits):.0%}"


def row(target: Target, targets: list[Target]) -> list[str]:
    if target.failure:
        return [target.name, "failed: " + target.failure, *["-"] * 5]
    named = {t.name: t for t in targets if not t.failure}
    cpu = target.median("cpu_us")
    return [target.name, f"{target.median('tps'):.0f}", share(target, named.get("direct")), share(target, named.get("pgbouncer")),
            f"{target.median('latency_ms'):.3f}", f"{cpu:.1f}" if cpu is not None else "-", on_replicas(target)]


HEADINGS = ["target", "TPS", "of direct", "of PgBouncer", "latency ms", "CPU us/tx", "on replicas"]


def text(workload: Workload, targets: list[Target]) -> str:
    lines = [workload.name + (" (PgBouncer in session mode)" if workload.setting.bouncer_mode == "session" else "")]
    for cells in [HEADINGS, *(row(t, targets) for t in targets)]:
        figures = cells[1] if cells[1].startswith("failed") else "".join(f"{cell:>14}" for cell in cells[1:])
        lines.append(f"  {cells[0]:<12}{figures}")
    return "\n".join(lines) + "\n"


def memory_text(memory: list[tuple[str, float | None, str]]) -> str:
    return "".join(f"idle-memory  {name:<12} {f'{each:.0f} bytes per client' if each is not None else 'failed'} ({how})\n" for name, each, how in memory)


def output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def machine() -> str:
    model = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.M)
    return f"{model[1] if model else 'unknown CPU'}, {len(os.sched_getaffinity(0))} cores, Linux {os.uname().release}"


def record(path: Path, a: argparse.Namespace, results: list[tuple[Workload, list[Target]]], memory, binary: Path | None) -> None:
    """Puts this run in front of the earlier ones."""
    commit = output("git", "rev-parse", "--short=12", "HEAD") + (" with uncommitted changes" if output("git", "status", "--porcelain", "-uno") else "")
    versions = [output("pgbench", "--version").removeprefix("pgbench "), *output("pgbouncer", "--version").splitlines()[:1]]
    if binary:
        given = " (not built for this run: given by PGSLUICE_BIN)" if "PGSLUICE_BIN" in os.environ else ""
        versions.append(output(str(binary), "--version") + given)
    split = f"; pgsluice with splitting on, firewall and rules {a.rules.value}, " + ("primary only" if a.single else "reads on two replicas, while the others have the primary only")
    now = datetime.datetime.now(datetime.timezone.utc)
    lines = [f"## {now:%Y-%m-%d %H:%M} UTC, commit {commit}", "", f"{machine()}, load average {a.load:.1f} before the run. {', '.join(versions)}.",
             f"pgbench scale {a.scale}, {a.rounds} interleaved rounds of {a.seconds} s, medians; pool {POOL} per node (40 for PgBouncer in session mode,",
             f"which *prepared* needs); synchronous_commit on, fsync off{split if binary else ''}.", "",
             "| workload | " + " | ".join(HEADINGS) + " |", "|---|---|" + "---:|" * (len(HEADINGS) - 1)]
    for workload, targets in results:
        lines += ["| " + " | ".join([workload.name, *(cell.replace("|", "/") for cell in row(t, targets))]) + " |" for t in targets]
    if memory:
        lines += ["", "Resident memory per idle client: " + "; ".join(f"{name} {f'{each:.0f} bytes' if each is not None else 'failed'} ({how})" for name, each, how in memory) + "."]
    earlier = path.read_text().split("\n## ")[1:] if path.exists() else []
    path.write_text(INTRODUCTION + "\n" + "\n".join(lines) + "\n" + "".join("\n## " + section for section in earlier))
    print(f"recorded in {path.relative_to(ROOT)}")
