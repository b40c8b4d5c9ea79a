"""Runs Regard and a peer in turns, and prints the ratio of each pair and the median of the ratios.

    python3 benches/compare.py --pairs 7 --peer torch attention --queries 512 --dim 64 --causal --threads 1

Other flags are those of `regard bench`.
"""

import argparse
import statistics

import programs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--peer", choices=programs.PEERS, required=True)
    parser.add_argument("--ours", help="kernel, multi-head or fixed [default: the one that the flags ask for]")
    args, what = parser.parse_known_args()
    one_thread = "--threads" not in what or what[what.index("--threads") + 1] == "1"
    if "--threads" not in what:
        what += ["--threads", "1"]
    ours_name = args.ours or ("fixed" if "--fixed" in what else "kernel" if one_thread else "multi-head")
    print(f"{'':>6} {ours_name:>16} {args.peer:>16} {'ratio':>7}")
    ratios = []
    for pair in range(1, args.pairs + 1):
        # With several threads, the last line is the one that uses all of them.
        ours = programs.regard([*what, "--impl", ours_name])
        if not ours:
            raise SystemExit(f"ours has no {ours_name} for these flags")
        theirs = programs.peer(args.peer, what, ours[-1]["peak_gflops"])
        if theirs is None:
            raise SystemExit(f"{args.peer} lacks this operation")
        ratios.append(theirs["median_s"] / ours[-1]["median_s"])
        print(f"{pair:>6} {describe(ours[-1]):>16} {describe(theirs):>16} {ratios[-1]:>6.2f}×", flush=True)
    print(f"{'median':>6} {'':>16} {'':>16} {statistics.median(ratios):>6.2f}×  (more than 1: ours is faster)")


def describe(line):
    return f"{programs.duration(line)} {line['fraction_of_peak']:4.0%}"


if __name__ == "__main__":
    main()
