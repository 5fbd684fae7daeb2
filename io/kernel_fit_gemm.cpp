// Dense and grouped GEMM tables. Form: moe-step-time note, sections 2.1 to 2.3:
//   t = launch + max(burst, sustained, bytes/bandwidth), burst and bytes by gemm_seconds(), sustained = w 2MNK/(peak e_sustained),
//   w = burst/(burst + t_throttle): the clock falls under sustained power, short kernels escape.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "io/kernel_fit_table.hpp"
#include "model/kernels.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr double kSmallest = 64;   // dimensions below are launch-bound and no GEMM of a model
constexpr double kLarge = 512;     // all dimensions at least this: the class of the accuracy table
constexpr double kBf16Bytes = 2;

struct Shape {
  double m, n, k;
  double flop() const { return 2 * m * n * k; }
  double least() const { return std::min({m, n, k}); }
};

// A series of shapes that differ in depth only shares kernels, and with them their error.
std::uint64_t family_of(const Shape& s) { return static_cast<std::uint64_t>(s.m) * 1000003u + static_cast<std::uint64_t>(s.n); }

struct GemmCells {
  std::vector<Shape> shapes;
  Cells cells;
};

std::string dtype_of(const TimingRows& rows, std::size_t i) { return rows.has("dtype") ? rows.text(i, "dtype") : "bf16"; }

GemmCells gemm_cells(const TimingRows& rows, const std::string& dtype, double small_weight) {
  GemmCells out;
  const char* time = rows.has("time_ms_med") ? "time_ms_med" : "time_ms";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (dtype_of(rows, i) != dtype) continue;
    const Shape s{rows.number(i, "M"), rows.number(i, "N"), rows.number(i, "K")};
    const double seconds = 1e-3 * rows.number_or_zero(i, time);
    if (s.least() < kSmallest || seconds <= 0) continue;
    out.shapes.push_back(s);
    out.cells.add(seconds, family_of(s), s.least() < kLarge ? small_weight : 1);
  }
  return out;
}

// A device whose GEMM constants are the terms of a form, without the gap between kernels.
Device device_of(const Device& base, double ceiling, double tile_half, double depth, double split, double hbm_share) {
  Device d = base;
  d.gemm_ceiling = ceiling;
  d.gemm_tile_half = tile_half;
  d.gemm_depth = depth;
  d.gemm_split_seconds = split;
  d.hbm_share = hbm_share;
  d.kernel_gap = 0;
  return d;
}

/// Rate of the best tile over a kernel without tile losses: a gemm_ceiling is a rate before them.
double best_tile_rate(const Device& d, double tile_half) {
  double a = 0;
  for (const Tile& t : d.gemm_tiles) a = std::max(a, t.rows * t.columns / (t.rows + t.columns));
  return a / (a + tile_half);
}

void add_size_classes(TableFit& fit, const GemmCells& g) {
  add_class(fit, g.cells, "all dimensions >= 512", [&](std::size_t i) { return g.shapes[i].least() >= kLarge; });
  add_class(fit, g.cells, "smallest dimension 64 to 511", [&](std::size_t i) { return g.shapes[i].least() < kLarge; });
  const double edges[] = {1e9, 1e11, 1e12, 1e13, 1e14, 1e300};
  for (std::size_t e = 0; e + 1 < std::size(edges); ++e) {
    const std::string label = edges[e + 1] > 1e200 ? fmt::format(">= 512, from {:.0e} FLOP", edges[e]) : fmt::format(">= 512, {:.0e} to {:.0e} FLOP", edges[e], edges[e + 1]);
    add_class(fit, g.cells, label, [&](std::size_t i) { return g.shapes[i].least() >= kLarge && g.shapes[i].flop() >= edges[e] && g.shapes[i].flop() < edges[e + 1]; });
  }
}

// Error of what the model computes in a step (one ceiling, no launch of the table) where a step has its GEMMs.
void add_step_form(TableFit& fit, const GemmCells& g, const Device& d, double launch, double ratio, double bytes) {
  constexpr double kStepFlop = 1e12;
  Cells cells = g.cells;
  for (std::size_t i = 0; i < cells.measured.size(); ++i)
    cells.predicted[i] = launch + gemm_seconds(d, g.shapes[i].m, g.shapes[i].n, g.shapes[i].k, ratio, bytes);
  add_class(fit, cells, "form of a step (one ceiling), from 1e12 FLOP", [&](std::size_t i) { return g.shapes[i].least() >= kLarge && g.shapes[i].flop() >= kStepFlop; });
}

enum GemmTerm { kBurst, kTileHalf, kDepth, kSustained, kThrottle, kHbm, kLaunch, kSplit };

TableFit fit_bf16(const DeviceTables& tables, GemmCells& g, const std::string& file) {
  const Device& base = tables.device;
  TableFit fit = fit_cells("GEMM bf16", file, fit_form("gemm"), g.cells, [&](std::span<const double> t, std::size_t i) {
    const Shape& s = g.shapes[i];
    const Device d = device_of(base, t[kBurst], t[kTileHalf], t[kDepth], t[kSplit], t[kHbm]);
    const double burst = gemm_seconds(d, s.m, s.n, s.k, 1, kBf16Bytes);
    const double sustained = burst / (burst + t[kThrottle]) * s.flop() / (base.peak_bf16 * t[kSustained]);
    return t[kLaunch] + std::max(burst, sustained);
  });
  add_size_classes(fit, g);
  return fit;
}

void give_gemm(KernelFits& out, const DeviceTables& tables, TableFit& fit, const GemmCells& g) {
  const FitForm& f = fit.form;
  const double best = best_tile_rate(tables.device, f.value("tile_half"));
  // Where the long kernel never falls below the short one, the short one's share is the ceiling.
  const bool throttled = f.value("sustained_share") < f.value("burst_share") * best;
  const FitTerm& ceiling = f.term(throttled ? "sustained_share" : "burst_share");
  const auto give = [&](const FitTerm& t, const char* key, const char* unit, double factor, const std::string& why) {
    out.constants.push_back(constant_of(fit, t, "devices", tables.preset, key, unit, factor, why));
  };
  give(ceiling, "gemm_ceiling", "1", throttled ? 1 / best : 1,
       throttled ? fmt::format("sustained_share over the rate {:.3f} of the best tile: a training step is long enough to throttle", best) : "burst_share: the table shows no throttling");
  give(f.term("tile_half"), "gemm_tile_half", "elements", 1, "tile_half");
  give(f.term("depth"), "gemm_depth", "elements", 1, "depth");
  give(f.term("split_seconds"), "gemm_split_seconds", "s", 1, "split_seconds");
  give(f.term("hbm_share"), "hbm_share", "1", 1, "hbm_share of operand traffic, taken for all streaming kernels");
  const FittedConstant& c = out.constants[out.constants.size() - 5];
  const Device d = device_of(tables.device, c.value, f.value("tile_half"), f.value("depth"), f.value("split_seconds"), f.value("hbm_share"));
  add_step_form(fit, g, d, f.value("launch_seconds"), 1, kBf16Bytes);
  fit.notes.push_back("launch_seconds and throttle_seconds are of the table: in a step kernels follow each other on a warm device");
}

void fit_fp8(KernelFits& out, const DeviceTables& tables, const TableFit& bf16, GemmCells& g, const std::string& file) {
  enum { kRatio, kShare, kCast, kStart };
  const FitForm& f = bf16.form;
  const Device d = device_of(tables.device, f.value("burst_share"), f.value("tile_half"), f.value("depth"), f.value("split_seconds"), f.value("hbm_share"));
  TableFit fit = fit_cells("GEMM fp8", file, fit_form("gemm_fp8"), g.cells, [&](std::span<const double> t, std::size_t i) {
    const Shape& s = g.shapes[i];
    const double casts = t[kCast] * (s.m * s.k + s.n * s.k) / streaming_rate(d);
    const double burst = gemm_seconds(d, s.m, s.n, s.k, t[kRatio], 1);
    return t[kStart] + casts + std::max(burst, s.flop() / (d.peak_fp8 * t[kShare]));
  });
  add_size_classes(fit, g);
  fit.notes.push_back("launch_seconds and quantise_bytes are of the table: the model counts casts of a step itself");
  const double per_share = d.peak_fp8 / (d.peak_bf16 * f.value("sustained_share"));
  out.constants.push_back(constant_of(fit, fit.form.term("sustained_share"), "devices", tables.preset, "fp8_ratio", "1", per_share,
                                      fmt::format("sustained rate over the sustained bf16 rate (short kernels: {:.2f})", fit.form.value("burst_ratio"))));
  out.fits.push_back(std::move(fit));
}

enum GroupTerm { kHost, kHostGroup, kCeiling, kGroupDepth, kGroupHbm, kGroupLaunch };

struct GroupCells {
  std::vector<double> groups, rows, in, out;
  std::vector<bool> skewed;
};

GroupCells group_cells(const TimingRows& rows) {
  GroupCells g;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    g.groups.push_back(rows.number(i, "num_gemms"));
    g.rows.push_back(rows.number(i, "tokens_per_expert"));
    g.in.push_back(rows.number(i, "in_features"));
    g.out.push_back(rows.number(i, "out_features"));
    g.skewed.push_back(rows.has("distribution") && rows.text(i, "distribution") != "balanced");
  }
  return g;
}

TableFit fit_direction(const DeviceTables& tables, const TimingRows& rows, const GroupCells& g, bool forward, const std::string& file) {
  std::vector<std::size_t> balanced;
  Cells cells, skewed;
  const char* column = forward ? "fwd_ms" : "bwd_ms";
  std::vector<std::size_t> other;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::uint64_t family = static_cast<std::uint64_t>(g.groups[i]) * 1000003u + static_cast<std::uint64_t>(g.in[i]);
    (g.skewed[i] ? skewed : cells).add(1e-3 * rows.number(i, column), family);
    (g.skewed[i] ? other : balanced).push_back(i);
  }
  const auto device_seconds = [&](std::span<const double> t, std::size_t i) {
    const Device d = device_of(tables.device, t[kCeiling], tables.device.gemm_tile_half, t[kGroupDepth], 0, t[kGroupHbm]);
    if (forward) return grouped_gemm_seconds(d, g.groups[i], g.rows[i], g.out[i], g.in[i], 1, kBf16Bytes, 0);
    return grouped_gemm_seconds(d, g.groups[i], g.rows[i], g.in[i], g.out[i], 1, kBf16Bytes, 0) +
           grouped_gemm_seconds(d, g.groups[i], g.in[i], g.out[i], g.rows[i], 1, kBf16Bytes, kBf16Bytes);
  };
  const auto host_seconds = [&](std::span<const double> t, std::size_t i) { return t[kHost] + t[kHostGroup] * g.groups[i]; };
  const double launches = forward ? 1 : 2;
  const auto seconds = [&](std::span<const double> t, std::size_t i) { return std::max(host_seconds(t, i), device_seconds(t, i) + launches * t[kGroupLaunch]); };
  TableFit fit = fit_cells(forward ? "grouped GEMM forward" : "grouped GEMM backward", file, fit_form(forward ? "grouped_forward" : "grouped_backward"), cells,
                           [&](std::span<const double> t, std::size_t c) { return seconds(t, balanced[c]); });
  std::vector<double> t;
  for (const FitTerm& term : fit.form.terms) t.push_back(term.value);
  const auto host_bound = [&](std::size_t c) { return host_seconds(t, balanced[c]) >= cells.predicted[c]; };
  add_class(fit, cells, "host-bound", host_bound);
  add_class(fit, cells, "device-bound", [&](std::size_t c) { return !host_bound(c); });
  for (const std::size_t i : other) skewed.predicted.push_back(seconds(t, i));
  add_class(fit, skewed, "skewed rows, not in the fit", [](std::size_t) { return true; });
  fit.notes.push_back("ceiling and depth check gemm_ceiling and gemm_depth of the dense table; launch_seconds and host_seconds are of the table");
  return fit;
}

}  // namespace

void fit_gemm(KernelFits& out, const DeviceTables& tables, const CsvTable& table, const std::string& file) {
  const TimingRows rows(table, file, tables.rows, {"M", "N", "K", table.has("time_ms_med") ? "time_ms_med" : "time_ms"});
  GemmCells bf16 = gemm_cells(rows, "bf16", fit_form("gemm").small_weight), fp8 = gemm_cells(rows, "fp8", fit_form("gemm_fp8").small_weight);
  TableFit fit = fit_bf16(tables, bf16, file);
  give_gemm(out, tables, fit, bf16);
  const TableFit base = fit;
  out.fits.push_back(std::move(fit));
  if (fp8.shapes.empty()) return;
  if (!(tables.device.peak_fp8 > 0))
    throw InputError(fmt::format("{}: fp8 rows of a device without fp8", file), "peak_fp8 of '" + tables.preset + "' is 0", "give the preset its peak_fp8 or drop the rows.");
  fit_fp8(out, tables, base, fp8, file);
}

void fit_grouped(KernelFits& out, const DeviceTables& tables, const CsvTable& table, const std::string& file) {
  const TimingRows rows(table, file, tables.rows, {"num_gemms", "tokens_per_expert", "in_features", "out_features", "fwd_ms", "bwd_ms"});
  const GroupCells cells = group_cells(rows);
  const TableFit forward = fit_direction(tables, rows, cells, true, file), backward = fit_direction(tables, rows, cells, false, file);
  const FitTerm &f = forward.form.term("host_group_seconds"), &b = backward.form.term("host_group_seconds");
  constexpr double kProjections = 2;  // of an expert; each is one cell of the table
  FittedConstant c = constant_of(backward, b, "stacks", tables.stack, "host_expert_seconds", "s", kProjections, "two projections, host_group_seconds forward and backward");
  c.value += kProjections * f.value;
  c.low += kProjections * f.interval_low;
  c.high += kProjections * f.interval_high;
  c.prior_centre += kProjections * f.prior_centre;
  c.source = source_of(forward) + "; " + source_of(backward);
  out.constants.push_back(c);
  out.fits.push_back(forward);
  out.fits.push_back(backward);
}

}  // namespace tessera
