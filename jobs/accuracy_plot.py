"""Predicted against measured step times: left on logarithmic axes, right the error over the number of devices.
Usage: accuracy_plot.py RUNS.csv ERRORS.csv PICTURE (errors.csv of tessera validate --out)."""
import sys

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas

runs, errors, picture = sys.argv[1:]
table = pandas.read_csv(errors).merge(pandas.read_csv(runs, low_memory=False)[["row_id", "experts", "gpu", "n_gpus"]], on="row_id")
table = table[table.error_pct.notna()]
moe = pandas.to_numeric(table.experts, errors="coerce").fillna(0) > 1
figure, (left, right) = plt.subplots(1, 2, figsize=(10.4, 4.6), dpi=100)
for kind, rows, colour, mark in (("dense", table[~moe], "#1f5a9e", "o"), ("MoE", table[moe], "#c2571a", "^")):
    label = f"{kind}, {len(rows)} runs: median {rows.error_pct.abs().median():.1f} %"
    left.scatter(rows.measured_seconds, rows.predicted_seconds, s=14, c=colour, marker=mark, alpha=0.6, linewidths=0, label=label)
    right.scatter(rows.n_gpus, rows.error_pct, s=14, c=colour, marker=mark, alpha=0.6, linewidths=0, label=kind)
span = [table.measured_seconds.min() / 1.3, table.measured_seconds.max() * 1.3]
left.plot(span, span, c="black", lw=0.8)
left.fill_between(span, [0.9 * x for x in span], [1.1 * x for x in span], color="black", alpha=0.1, linewidth=0, label="within 10 %")
left.set(xscale="log", yscale="log", xlim=span, ylim=span, xlabel="measured step [s]", ylabel="predicted step [s]")
right.axhline(0, c="black", lw=0.8)
right.axhspan(-10, 10, color="black", alpha=0.1, linewidth=0)
right.set(xscale="log", ylim=(-52, 52), xlabel="devices", ylabel="error of the step time [%]")
for axes in (left, right):
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.legend(loc="upper left", fontsize=8, framealpha=0.9)
figure.tight_layout()
figure.savefig(picture, metadata={"Software": None})
