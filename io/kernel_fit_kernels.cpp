// Attention, top-k, cross-entropy, head and kernel-gap tables. Forms: moe-step-time note, sections 2.4 and 2.6.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "io/kernel_fit_table.hpp"
#include "model/kernels.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

struct AttentionCells {
  std::vector<double> length, batch_heads, width;
  Cells forward, backward;
  double total_seconds = 0;
};

AttentionCells attention_cells(const TimingRows& rows, const std::string& backend) {
  AttentionCells a;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows.has("backend") && rows.text(i, "backend") != backend) continue;
    if (rows.has("dtype") && rows.text(i, "dtype") != "bf16") continue;
    a.length.push_back(rows.number(i, "seq_len"));
    a.batch_heads.push_back(rows.number(i, "micro_bs") * rows.number(i, "n_q_heads"));
    a.width.push_back(rows.number(i, "head_dim"));
    const std::uint64_t family = static_cast<std::uint64_t>(a.width.back()) * 100003u + static_cast<std::uint64_t>(a.batch_heads.back());
    const double forward = 1e-3 * rows.number(i, "fwd_time_ms_med"), backward = 1e-3 * rows.number(i, "bwd_time_ms_med");
    a.forward.add(forward, family);
    a.backward.add(backward, family);
    a.total_seconds += forward + backward;
  }
  return a;
}

// Blocks of 128 query rows fill the device in waves; the last one is partly empty.
double wave_loss(const Device& d, double length, double batch_heads) {
  constexpr double kBlockRows = 128;
  const double blocks = std::ceil(length / kBlockRows) * batch_heads;
  return std::ceil(blocks / d.sms) / (blocks / d.sms);
}

struct Shares {
  double forward_64, forward, backward_64, backward, half_length;
};

AttentionSeconds attention_seconds(const Device& base, const AttentionCells& a, std::size_t i, const Shares& s) {
  Device d = base;
  d.attention_forward_64 = s.forward_64;
  d.attention_forward = s.forward;
  d.attention_backward_64 = s.backward_64;
  d.attention_backward = s.backward;
  d.attention_half_length = s.half_length;
  d.kernel_gap = 0;
  const double flop = 2 * a.batch_heads[i] * a.length[i] * a.length[i] * a.width[i];  // causal half square, both GEMMs
  AttentionSeconds t = flash_attention_seconds(d, Stack{}, flop, a.length[i], a.width[i], false);
  const double waves = wave_loss(base, a.length[i], a.batch_heads[i]);
  return {t.forward * waves, t.backward * waves};
}

TableFit fit_direction(const Device& device, AttentionCells& a, bool forward, const std::string& backend, const std::string& file) {
  enum { kShare64, kShare, kHalf, kLaunch };
  return fit_cells(fmt::format("attention {} ({})", forward ? "forward" : "backward", backend), file, fit_form(forward ? "attention_forward" : "attention_backward"),
                   forward ? a.forward : a.backward, [&](std::span<const double> t, std::size_t i) {
                     const AttentionSeconds s = attention_seconds(device, a, i, {t[kShare64], t[kShare], t[kShare64], t[kShare], t[kHalf]});
                     return t[kLaunch] + (forward ? s.forward : s.backward);
                   });
}

TableFit fit_both(const Device& device, const AttentionCells& a, const std::string& backend, const std::string& file) {
  enum { kForward64, kForward, kBackward64, kBackward, kHalf, kLaunchForward, kLaunchBackward };
  const std::size_t n = a.length.size();
  Cells cells = a.forward;
  cells.measured.insert(cells.measured.end(), a.backward.measured.begin(), a.backward.measured.end());
  cells.weight.insert(cells.weight.end(), a.backward.weight.begin(), a.backward.weight.end());
  cells.family.insert(cells.family.end(), a.backward.family.begin(), a.backward.family.end());
  TableFit fit = fit_cells(fmt::format("attention, one ramp for both directions ({})", backend), file, fit_form("attention"), cells, [&](std::span<const double> t, std::size_t i) {
    const AttentionSeconds s = attention_seconds(device, a, i % n, {t[kForward64], t[kForward], t[kBackward64], t[kBackward], t[kHalf]});
    return i < n ? t[kLaunchForward] + s.forward : t[kLaunchBackward] + s.backward;
  });
  add_class(fit, cells, "forward", [&](std::size_t i) { return i < n; });
  add_class(fit, cells, "backward", [&](std::size_t i) { return i >= n; });
  fit.notes.push_back("the form of a step; launch terms are of the table (kernel_gap takes their place), wave losses vanish at the sizes of training");
  return fit;
}

}  // namespace

void fit_attention(KernelFits& out, const DeviceTables& tables, const CsvTable& table, const std::string& file, const std::string& backend) {
  const TimingRows rows(table, file, tables.rows, {"seq_len", "micro_bs", "n_q_heads", "head_dim", "fwd_time_ms_med", "bwd_time_ms_med"});
  std::map<std::string, AttentionCells> all;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string name = rows.has("backend") ? rows.text(i, "backend") : "kernel";
    if (!all.count(name)) all[name] = attention_cells(rows, name);
  }
  if (!backend.empty() && !all.count(backend)) {
    std::string names;
    for (const auto& [name, cells] : all) names += (names.empty() ? "" : ", ") + name;
    throw InputError(fmt::format("{}: no rows of backend '{}'", file, backend), "it has " + names, "give one of them with --backend.");
  }
  const auto fastest = std::min_element(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second.total_seconds < b.second.total_seconds; });
  const std::string chosen = backend.empty() ? fastest->first : backend;
  for (auto& [name, cells] : all)
    for (const bool forward : {true, false}) out.fits.push_back(fit_direction(tables.device, cells, forward, name, file));
  const TableFit both = fit_both(tables.device, all.at(chosen), chosen, file);
  for (const char* key : {"attention_forward_64", "attention_forward", "attention_backward_64", "attention_backward", "attention_half_length"}) {
    const FitTerm& t = both.form.term(key);
    out.constants.push_back(constant_of(both, t, "devices", tables.preset, key, t.unit, 1, "backend " + chosen));
  }
  out.fits.push_back(both);
}

void fit_topk(KernelFits& out, const DeviceTables& tables, const CsvTable& table, const std::string& file) {
  const TimingRows rows(table, file, tables.rows, {"num_tokens", "num_experts", "k", "dtype", "profiler_kernel_ms"});
  std::set<std::string> dtypes;
  for (std::size_t i = 0; i < rows.size(); ++i) dtypes.insert(rows.text(i, "dtype"));
  for (const auto& dtype : dtypes) {
    std::vector<double> tokens, experts;
    Cells cells;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows.text(i, "dtype") != dtype) continue;
      tokens.push_back(rows.number(i, "num_tokens"));
      experts.push_back(rows.number(i, "num_experts"));
      cells.add(1e-3 * rows.number(i, "profiler_kernel_ms"), static_cast<std::uint64_t>(experts.back()));
    }
    TableFit fit = fit_cells("top-k " + dtype, file, fit_form("topk"), cells,
                             [&](std::span<const double> t, std::size_t i) { return t[0] + tokens[i] * (t[1] + t[2] * experts[i]); });
    fit.notes.push_back("independent of k; no preset constant: the model counts the router's traffic in its point-wise bytes");
    out.fits.push_back(std::move(fit));
  }
}

namespace {

// One direction of one operation of the table: form with a single share or count, the work of a cell over its rate at 1.
TableFit fit_single(const TimingRows& rows, const char* op, const char* column, const std::string& what, const char* form, bool inverse,
                    const std::function<double(double tokens, double hidden, double vocabulary)>& unit_seconds, const std::string& file) {
  Cells cells;
  std::vector<double> unit;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows.text(i, "op") != op) continue;
    unit.push_back(unit_seconds(rows.number(i, "m_tokens"), rows.number(i, "hidden"), rows.number(i, "vocab_padded")));
    cells.add(1e-3 * rows.number(i, column), i);
  }
  return fit_cells(what, file, fit_form(form), cells, [&](std::span<const double> t, std::size_t i) { return inverse ? unit[i] / t[0] : unit[i] * t[0]; });
}

}  // namespace

void fit_cross_entropy(KernelFits& out, const DeviceTables& tables, const CsvTable& table, const std::string& file) {
  const TimingRows rows(table, file, tables.rows, {"op", "m_tokens", "hidden", "vocab_padded", "fwd_ms_p50", "bwd_ms_p50", "fwd_bwd_ms_p50"});
  const Device& d = tables.device;
  const auto pass = [&](double tokens, double, double vocabulary) { return 4 * tokens * vocabulary / d.hbm_bandwidth; };
  const auto head = [&](double factor) { return [&d, factor](double tokens, double hidden, double vocabulary) { return factor * 2 * tokens * hidden * vocabulary / d.peak_bf16; }; };
  out.fits.push_back(fit_single(rows, "cross_entropy", "fwd_ms_p50", "cross-entropy forward", "cross_entropy", false, pass, file));
  const TableFit both = fit_single(rows, "cross_entropy", "fwd_bwd_ms_p50", "cross-entropy forward and backward", "cross_entropy", false, pass, file);
  // The model streams passes at the achieved bandwidth; the table's are at the data sheet's.
  out.constants.push_back(constant_of(both, both.form.term("passes"), "stacks", tables.stack, "cross_entropy_passes", "1", d.hbm_share,
                                      fmt::format("passes x hbm_share {:.3g}: an unfused loss, whose passes the model streams at the achieved bandwidth", d.hbm_share)));
  out.fits.push_back(both);
  out.fits.push_back(fit_single(rows, "lm_head_gemm", "fwd_ms_p50", "head forward", "lm_head", true, head(1), file));
  out.fits.push_back(fit_single(rows, "lm_head_gemm", "bwd_ms_p50", "head backward", "lm_head", true, head(2), file));
}

void fit_gaps(KernelFits& out, const DeviceTables& tables, const CsvTable& table, const std::string& file) {
  const TimingRows rows(table, file, tables.rows, {"wall_us_per_kernel", "gpu_active_us_per_kernel"});
  constexpr double kBusy = 0.85;  // from this share of busy time the device is the limit, not the host
  Cells busy;
  std::map<std::string, Cells> waiting;  // by what a link of the chain is
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double wall = 1e-6 * rows.number(i, "wall_us_per_kernel"), active = 1e-6 * rows.number(i, "gpu_active_us_per_kernel");
    if (active >= kBusy * wall) busy.add(wall - active, i);
    else waiting[rows.has("mode") ? rows.text(i, "mode") : "kernel"].add(wall, i);
  }
  const auto constant = [](std::span<const double> t, std::size_t) { return t[0]; };
  for (auto& [mode, cells] : waiting) {
    TableFit fit = fit_cells("launch where the host is the limit, " + mode, file, fit_form("launch"), cells, constant);
    fit.notes.push_back("no preset constant by itself: host_layer_seconds is launches of a layer times this");
    out.fits.push_back(std::move(fit));
  }
  if (busy.measured.empty()) throw InputError(file + ": no chain keeps the device busy", fmt::format("a gap needs kernels that run {:.0f} % of the time", 100 * kBusy), "add longer kernels.");
  const TableFit fit = fit_cells("gap between kernels where the device is the limit", file, fit_form("gap"), busy, constant);
  out.constants.push_back(constant_of(fit, fit.form.term("gap_seconds"), "devices", tables.preset, "kernel_gap", "s", 1, "gap_seconds"));
  out.fits.push_back(fit);
}

}  // namespace tessera
