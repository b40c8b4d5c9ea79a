"""Measures Regard and every installed peer, keeps the results, and writes the tables and the plots.

    python benches/report.py                    # all rows: results/DATE-CPU-TIER.jsonl, the tables, the plots
    python benches/report.py --rows "^dot"      # some rows; the file keeps the day's other rows
    python benches/report.py --wasm             # in WebAssembly under Node.js, beside naive loops alone
    python benches/report.py --table-only       # the tables and the plots, from the results that are kept

RESULTS.md has all rows of each kind of machine, from its newest results.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import re
import statistics
import subprocess
import sys
import tomllib

import programs

ROOT = programs.BENCHES.parent
MATMUL = ["gemm", "nano-gemm", "matrixmultiply", "nalgebra", "faer", "torch", "onnxruntime"]
ATTENTION = ["torch", "ort-mha", "ort-gqa", "ort-attention", "candle-nn", "burn-flex"]
SOFTMAX = ["rten-vecmath", "candle-nn", "torch", "onnxruntime"]
FIXED = ["nalgebra-static", "nano-gemm", "gemm", "matrixmultiply", "faer"]

# (its name, the flags of `regard bench`, the name of ours, its peers)
ROWS = [
    ("attention, 512 × 64", "attention --queries 512", "kernel", ATTENTION),
    ("attention, 512 × 64, causal", "attention --queries 512 --causal", "kernel", ATTENTION),
    ("attention, 2048 × 64", "attention --queries 2048", "kernel", ATTENTION),
    ("attention, 2048 × 64, causal", "attention --queries 2048 --causal", "kernel", ATTENTION),
    ("attention, 1024 × 128", "attention --queries 1024 --dim 128", "kernel", ATTENTION),
    ("attention, 1024 × 128, causal", "attention --queries 1024 --dim 128 --causal", "kernel", ATTENTION),
    ("attention, 128 × 64", "attention --queries 128", "kernel", ATTENTION),
    ("attention, 128 × 64, causal", "attention --queries 128 --causal", "kernel", ATTENTION),
    ("attention, 12 heads, 128 × 32", "attention --queries 128 --dim 32 --heads 12", "kernel", ATTENTION),
    ("attention, batch 32, 12 heads, 64 × 32", "attention --batch 32 --heads 12 --queries 64 --dim 32", "kernel", ATTENTION),
    ("attention, 512 × 64, 2 threads", "attention --queries 512 --threads 2", "multi-head", ATTENTION),
    ("attention, 2048 × 64, causal, 2 threads", "attention --queries 2048 --causal --threads 2", "multi-head", ATTENTION),
    ("decoding, 9 heads, 1 on 2048 × 64", "attention --queries 1 --keys 2048 --heads 9", "kernel", ATTENTION),
    ("attention, 1 head, 16 × 16", "attention --fixed --queries 16 --dim 16", "fixed", ATTENTION),
    ("attention, 1 head, 4 × 8", "attention --fixed --queries 4 --dim 8", "fixed", ATTENTION),
    *((f"matmul, {n}³, fixed", f"matmul --fixed --queries {n}", "fixed", FIXED) for n in (4, 8, 16, 32, 64)),
    *(
        (f"matmul, {n}³", f"matmul --queries {n} --dim {n} --keys {n}", "kernel", MATMUL)
        for n in (128, 256, 512, 1024)
    ),
    *((f"dot, {n}", f"dot --dim {n}", "kernel", ["numkong", "nalgebra"]) for n in (256, 1024, 4096)),
    *(
        (f"softmax, {rows} rows of {n}", f"softmax --queries {rows} --keys {n}", "kernel", SOFTMAX)
        for rows, n in ((1024, 64), (128, 512), (16, 4096))
    ),
]
NAMES = ["naive", "kernel", "multi-head", "fixed"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="", help="measure only the rows whose name matches this pattern")
    parser.add_argument("--passes", type=int, default=3, help="how often each program runs [default: 3]")
    parser.add_argument("--results", type=str, default=programs.BENCHES / "results", help="the folder of the results")
    parser.add_argument("--wasm", action="store_true", help="measure the kernels in WebAssembly, as the page has them")
    parser.add_argument("--table-only", action="store_true", help="measure nothing")
    args = parser.parse_args()
    if not args.table_only:
        measure([row for row in ROWS if re.search(args.rows, row[0])], args.passes, args.results, args.wasm)
    machines = newest(args.results)
    tables(machines)
    for machine in machines:
        plot(machine)


def measure(rows, passes, folder, wasm):
    command = programs.build(wasm)
    missing = [name for name in programs.PEERS if wasm or not programs.installed(name)]
    if wasm:
        rows = [row for row in rows if "--threads" not in row[1]]
    elif missing:
        print(f"not installed: {', '.join(missing)}", file=sys.stderr)
    tier = programs.lines([*command, "dot", "--dim", "256", "--threads", "1", "--impl", "kernel"])[0]["tier"]
    header = {
        "date": datetime.date.today().isoformat(),
        "cpu": f"WebAssembly under Node.js, {cpu()}" if wasm else cpu(),
        "cores": os.cpu_count(),
        "versions": versions(),
    }
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{header['date']}-{machine_name(header['cpu'], tier)}.jsonl")
    measured = {row for row, *_ in rows}
    kept = [line for line in open(path).readlines()[1:] if json.loads(line)["row"] not in measured] if os.path.exists(path) else []
    with open(path, "w") as file:
        print(json.dumps(header), file=file)
        file.writelines(kept)
        for count, (row, flags, ours, peers) in enumerate(rows, 1):
            print(f"{count:>3}/{len(rows)} {row}", file=sys.stderr)
            for turn in range(passes):
                present = [peer for peer in peers if peer not in missing]
                for line in turn_of(command, flags.split(), ours, present, turn == 0):
                    print(json.dumps({"row": row, "pass": turn} | line), file=file, flush=True)


def turn_of(command, flags, ours, peers, naive):
    """The lines of every program, run once."""
    if "--threads" not in flags:
        flags = [*flags, "--threads", "1"]
    lines = [programs.lines([*command, *flags, "--impl", ours])[-1]]  # the last uses all threads
    if naive:
        lines += programs.lines([*command, *flags, "--impl", "naive"])
    return lines + [line for peer in peers if (line := programs.peer(peer, flags, lines[0]["peak_gflops"]))]


def machine_name(cpu, tier):
    """Names files. Machines of different tiers can have one CPU's name."""
    return re.sub(r"[^a-z0-9]+", "-", f"{cpu} {tier}".lower()).strip("-")


def cpu():
    try:
        return re.search(r"model name\s*: (.*)", open("/proc/cpuinfo").read())[1]
    except (OSError, TypeError):
        import platform

        return platform.processor() or platform.machine()


def versions():
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    found = {"regard": commit.stdout.strip()}
    with open(programs.BENCHES / "peers/Cargo.lock", "rb") as lock:
        packages = {package["name"]: package["version"] for package in tomllib.load(lock)["package"]}
    found |= {name: packages[name] for name in programs.RUST_PEERS if name in packages}
    for name in ["torch", "onnxruntime"]:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    return found


class Machine:
    """The results of one file."""

    def __init__(self, path):
        header, *lines = (json.loads(line) for line in open(path))
        self.file = os.path.basename(path)
        self.cpu, self.date, self.versions = header["cpu"], header["date"], header["versions"]
        self.rows = medians(lines)
        self.peak = statistics.median(line["peak_gflops"] for line in lines if line["peak_gflops"])
        # Results of earlier versions do not name tiers.
        tiers = next((line for line in lines if "tier" in line), {"tier": "AVX2", "peak_tier": "AVX2"})
        self.tier, self.peak_tier = tiers["tier"], tiers["peak_tier"]
        self.name = machine_name(self.cpu, self.tier)

    def described(self):
        return (
            f"{self.cpu}, {self.date}. The kernels ran on {self.tier}. One thread's FMA peak on {self.peak_tier}, "
            f"measured between the runs, was {self.peak:.0f} GFLOP/s."
        )


def newest(folder):
    """The newest results of each CPU and tier."""
    files = sorted(entry.path for entry in os.scandir(folder) if entry.name.endswith(".jsonl"))
    return sorted({machine.name: machine for machine in map(Machine, files)}.values(), key=lambda machine: machine.name)


def medians(lines):
    """The line with the median time of all passes, by row and implementation."""
    rows = {}
    for line in lines:
        rows.setdefault(line["row"], {}).setdefault(line["impl"], []).append(line)
    middle = lambda turns: sorted(turns, key=lambda line: line["median_s"])[(len(turns) - 1) // 2]
    return {row: {name: middle(turns) for name, turns in found.items()} for row, found in rows.items()}


def split(found):
    """The naive line, ours, and the others from the fastest to the slowest."""
    ours = next(line for name, line in found.items() if name in NAMES[1:])
    others = [line for name, line in found.items() if name not in NAMES]
    return found.get("naive"), ours, sorted(others, key=lambda line: line["median_s"])


def tables(machines):
    """Writes RESULTS.md."""
    results = [
        "# Results",
        "",
        "Written by [report.py](report.py); [README.md](README.md) says how to repeat it. Rows use one thread and 8 heads",
        "unless they say otherwise.",
    ]
    for machine in machines:
        versions = ", ".join(f"{name} {version}" for name, version in machine.versions.items() if name != "regard")
        results += [
            "",
            f"## {machine.cpu}, {machine.tier}",
            "",
            machine.described(),
            f"[All numbers](results/{machine.file}).",
            "",
            f"![Share of the FMA peak that ours and others reach](../docs/{picture(machine)})",
            "",
            "| | naive | ours | GFLOP/s | of peak | best of the others | ratio |",
            "|---|---|---|---|---|---|---|",
            *(cells(machine, row) for row, *_ in ROWS if row in machine.rows),
        ]
        if any(split(found)[2] for found in machine.rows.values()):
            results += ["", f"The others: {versions}."]
    (programs.BENCHES / "RESULTS.md").write_text("\n".join(results) + "\n")


def cells(machine, row):
    """A line of a table."""
    naive, ours, others = split(machine.rows[row])
    share = f"{ours['fraction_of_peak']:.0%}"
    if ours["op"] == "softmax":
        share = f"{ours['ns_per_element']:.2f} ns an element"
    best = f"{programs.duration(others[0])}, {others[0]['impl']}" if others else ""
    ratio = f"{others[0]['median_s'] / ours['median_s']:.1f}×" if others else ""
    naive = programs.duration(naive) if naive else ""
    line = [row, naive, programs.duration(ours), f"{ours['gflops']:.0f}", share, best, ratio]
    return "| " + " | ".join(line) + " |"


def picture(machine):
    return f"benchmarks-{machine.name}.svg"


def plot(machine):
    """Writes the plot: a dot for each implementation at its share of the FMA peak. Grey text without a background is legible
    on light and on dark pages."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    grey = "#7d8590"
    colors = {
        "torch": "#e8743b",
        "ort": "#3fa66a",
        "burn-flex": "#b07cd8",
        "candle-nn": "#d9a514",
        "other crates": grey,
    }
    legend = {"torch": "PyTorch", "ort": "ONNX Runtime"}
    rows = {row: found for row, found in machine.rows.items() if not row.startswith("softmax")}
    plt.rcParams |= {"text.color": grey, "axes.labelcolor": grey, "xtick.color": grey, "ytick.color": grey}
    plt.rcParams |= {"font.size": 9, "svg.hashsalt": "regard"}
    figure, axes = plt.subplots(figsize=(8, 0.8 + 0.27 * len(rows)))
    for y, found in enumerate(rows.values()):
        _, ours, others = split(found)
        best = others[0]["fraction_of_peak"] if others else 0
        axes.plot([best, ours["fraction_of_peak"]], [y, y], color="#2f81f7", alpha=0.45, linewidth=2, zorder=1)
        for line in others:
            family = "ort" if line["impl"] in ("onnxruntime", "ort-mha", "ort-gqa", "ort-attention") else line["impl"]
            family = family if family in colors else "other crates"
            axes.scatter(
                line["fraction_of_peak"], y, s=22, color=colors[family], label=legend.get(family, family), zorder=2
            )
        axes.scatter(ours["fraction_of_peak"], y, s=52, color="#2f81f7", label="Regard", zorder=3)
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1))
    axes.set_xlabel(f"of the FMA peak, {machine.cpu}, {machine.date}")
    axes.grid(axis="x", color=grey, alpha=0.25)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    handles, labels = axes.get_legend_handles_labels()
    unique = dict(zip(labels, handles))
    order = ["Regard", "PyTorch", "ONNX Runtime", "burn-flex", "candle-nn", "other crates"]
    order = [name for name in order if name in unique]
    axes.legend(
        [unique[name] for name in order], order, loc="lower center", bbox_to_anchor=(0.4, 1), ncols=6, frameon=False
    )
    figure.savefig(ROOT / "docs" / picture(machine), transparent=True, bbox_inches="tight", metadata={"Date": None})


if __name__ == "__main__":
    main()
