// tessera calibrate: constants of devices, links and stacks from timing tables, or from measured runs.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "calibrate_options.hpp"
#include "command.hpp"
#include "io/file_system.hpp"
#include "io/kernel_fit.hpp"
#include "io/kernel_fit_table.hpp"
#include "io/nccl_text.hpp"
#include "io/preset_writer.hpp"
#include "io/run_fit.hpp"
#include "io/text_file.hpp"
#include "io/validation.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

using Options = CalibrateOptions;

std::string preset_text(const Options& o, const std::string& kind, const std::string& name) {
  if (name.ends_with(".toml")) return read_text_file(name, "a preset");
  const std::string file = o.presets + "/" + kind + "/" + name + ".toml";
  return !o.presets.empty() && std::filesystem::exists(file) ? read_text_file(file, "a preset") : Presets().text(kind, name);
}

/// Writes each changed preset to DIR/kind/name.toml and returns the paths.
std::vector<std::string> write_presets(const Options& o, const std::vector<Constant>& constants) {
  std::vector<std::string> paths;
  if (o.out.empty()) return paths;
  std::map<std::pair<std::string, std::string>, std::vector<Constant>> homes;
  for (const Constant& c : constants) homes[{c.kind, c.preset}].push_back(c);
  for (const auto& [home, values] : homes) {
    const auto& [kind, name] = home;
    const std::string text = rewrite_constants(preset_text(o, kind, name), values, command_line(o));
    std::error_code failed;
    std::filesystem::create_directories(o.out + "/" + kind, failed);
    if (failed) throw InputError("cannot create " + o.out + "/" + kind, failed.message(), "give another --out.");
    paths.push_back(o.out + "/" + kind + "/" + stem_of(name) + ".toml");
    replace_file(paths.back(), text);
  }
  return paths;
}

Json json_of(const Constant& c, double before) {
  Json j{{"kind", c.kind}, {"preset", c.preset}, {"key", c.key}, {"unit", c.unit}, {"value", c.value}, {"low", c.low}, {"high", c.high}, {"before", before}};
  j["prior"] = c.prior_width > 0 ? Json{c.prior_centre, c.prior_width} : Json();
  j["source"] = c.source;
  return j;
}

void print_constant(const Constant& c, double before) {
  const std::string prior = c.prior_width > 0 ? fmt::format("{:.4g} x/ {:.3g}", c.prior_centre, 1 + c.prior_width) : "-";
  fmt::print("  {:<44} {:>11.4g} {:<9} {:>11.4g} {:>11.4g} {:>16} {:>11.4g}\n", fmt::format("{}/{} {}", c.kind, c.preset.empty() ? "-" : c.preset, c.key), c.value, c.unit, c.low, c.high, prior, before);
}

void print_constant_header() {
  fmt::print("\n  {:<44} {:>11} {:<9} {:>11} {:>11} {:>16} {:>11}\n", "constant (home preset, key)", "value", "unit", "10 %", "90 %", "prior", "before");
}

void print_written(const Options& o, const std::vector<std::string>& paths) {
  if (!o.out.empty() && paths.empty()) fmt::print("no constant belongs to a named preset: nothing is written\n");
  for (const auto& path : paths) fmt::print("written {}\n", path);
}

// ---- timing tables

/// What the tables call the device.
std::string rows_of(const Options& o) {
  const std::string name = stem_of(o.device);
  return o.rows.empty() ? name.substr(0, name.find('-')) : o.rows;
}

DeviceTables device_tables(const Options& o, const Presets& presets) {
  DeviceTables t;
  t.device = presets.device(o.device);
  t.preset = o.into.empty() ? o.device : o.into;
  t.rows = rows_of(o);
  t.stack = o.stack;
  return t;
}

KernelFits fit_tables(const Options& o, const Presets& presets) {
  KernelFits fits;
  if (has_kernel_table(o)) {
    const DeviceTables t = device_tables(o, presets);
    if (!o.gemm.empty()) fit_gemm(fits, t, CsvTable::read(o.gemm), o.gemm);
    if (!o.grouped.empty()) fit_grouped(fits, t, CsvTable::read(o.grouped), o.grouped);
    if (!o.attention.empty()) fit_attention(fits, t, CsvTable::read(o.attention), o.attention, o.backend);
    if (!o.topk.empty()) fit_topk(fits, t, CsvTable::read(o.topk), o.topk);
    if (!o.cross_entropy.empty()) fit_cross_entropy(fits, t, CsvTable::read(o.cross_entropy), o.cross_entropy);
    if (!o.gaps.empty()) fit_gaps(fits, t, CsvTable::read(o.gaps), o.gaps);
  }
  if (!has_collective_table(o)) return fits;
  std::vector<CollectiveCell> cells;
  const auto append = [&](const std::vector<CollectiveCell>& more) { cells.insert(cells.end(), more.begin(), more.end()); };
  for (const auto* files : {&o.exchange, &o.collectives})
    for (const auto& file : *files) append(collective_cells(CsvTable::read(file), file, rows_of(o), o.node_devices));
  for (const auto& file : o.nccl) append(nccl_cells(read_text_file(file, "the output of nccl-tests"), file));
  // One link and cells of one kind only: the link is what was measured, be it inside a node or between nodes.
  const bool all_across = std::all_of(cells.begin(), cells.end(), [](const auto& c) { return c.nodes > 1; });
  const bool moved = o.network.empty() && all_across;
  LinkTables links;
  links.inside_preset = moved ? "" : o.link;
  links.across_preset = moved ? o.link : o.network;
  if (!links.inside_preset.empty()) links.inside = presets.link(links.inside_preset);
  if (!links.across_preset.empty()) links.across = presets.link(links.across_preset);
  fit_collectives(fits, links, cells);
  return fits;
}

/// Constants of the presets that take new ones, by kind/preset/key.
std::map<std::string, Constant> old_constants(const Options& o, const Presets& presets) {
  std::map<std::string, Constant> out;
  const auto keep = [&](const std::string& kind, const std::string& preset, const ConstantSources& sources) {
    for (const auto& [key, c] : sources) out[kind + "/" + preset + "/" + c.key] = c;
  };
  if (!o.device.empty()) {
    const std::string name = o.into.empty() ? o.device : o.into;
    ConstantSources sources;
    presets.device(name, &sources);
    keep("devices", name, sources);
  }
  if (!o.stack.empty()) {
    ConstantSources sources;
    presets.stack(o.stack, &sources);
    keep("stacks", o.stack, sources);
  }
  for (const auto& link : {o.link, o.network}) {
    if (link.empty()) continue;
    ConstantSources sources;
    presets.link(link, &sources);
    keep("links", link, sources);
  }
  return out;
}

struct Change {
  Constant constant;
  double before = 0;  ///< value of the preset, 0 where it had none
  std::string why;
};

// A constant that stays free in fits of runs keeps the width of its prior; the table's value is the new centre.
std::vector<Change> changes_of(const KernelFits& fits, const std::map<std::string, Constant>& old) {
  std::vector<Change> out;
  for (const FittedConstant& f : fits.constants) {
    Change change;
    Constant& c = change.constant;
    c.kind = f.kind;
    c.preset = f.preset;
    c.key = f.key;
    c.unit = f.unit;
    c.source = f.source;
    c.value = f.value;
    c.low = f.low;
    c.high = f.high;
    c.fitted = true;
    if (const auto before = old.find(f.kind + "/" + f.preset + "/" + f.key); before != old.end()) {
      change.before = before->second.value;
      c.prior_width = before->second.prior_width;
      if (c.prior_width > 0) c.prior_centre = f.value;
    }
    change.why = f.why;
    out.push_back(change);
  }
  return out;
}

Json json_of(const TableFit& fit) {
  Json j{{"what", fit.what}, {"file", fit.file}};
  j["terms"] = Json::object();
  for (const FitTerm& t : fit.form.terms)
    j["terms"][t.key] = {{"value", t.value}, {"unit", t.unit}, {"low", t.interval_low}, {"high", t.interval_high}, {"prior", {t.prior_centre, t.prior_width}},
                         {"bounds", {t.low, t.high}}, {"at_bound", t.at_bound}, {"meaning", t.meaning}};
  j["errors"] = Json::array();
  for (const ErrorClass& e : fit.errors)
    j["errors"].push_back({{"class", e.label}, {"cells", e.cells}, {"median_abs_pct", e.median_abs_pct}, {"p90_abs_pct", e.p90_abs_pct}, {"bias_pct", e.bias_pct}});
  j["notes"] = fit.notes;
  return j;
}

void print_fit(const TableFit& fit) {
  fmt::print("\n{} ({})\n", fit.what, fit.file);
  for (const FitTerm& t : fit.form.terms)
    fmt::print("  {:<26} {:>11.4g} {:<9} [{:.4g}, {:.4g}]{}  {}\n", t.key, t.value, t.unit, t.interval_low, t.interval_high, t.at_bound ? " at its bound" : "", t.meaning);
  fmt::print("  {:<46} {:>6} {:>9} {:>8} {:>8}\n", "error of the time, %", "cells", "median", "p90", "bias");
  for (const ErrorClass& e : fit.errors) fmt::print("  {:<46} {:>6} {:>9.1f} {:>8.1f} {:>+8.1f}\n", e.label, e.cells, e.median_abs_pct, e.p90_abs_pct, e.bias_pct);
  for (const auto& note : fit.notes) fmt::print("  note: {}\n", note);
}

int run_tables(const Options& o, bool json) {
  const Presets presets(o.presets);
  const KernelFits fits = fit_tables(o, presets);
  const std::vector<Change> changes = changes_of(fits, old_constants(o, presets));
  std::vector<Constant> homed;
  for (const Change& c : changes)
    if (!c.constant.preset.empty()) homed.push_back(c.constant);
  const auto written = write_presets(o, homed);
  if (json) {
    Json j{{"calibrated_by", command_line(o)}};
    j["tables"] = Json::array();
    for (const TableFit& fit : fits.fits) j["tables"].push_back(json_of(fit));
    j["constants"] = Json::array();
    for (const Change& c : changes) {
      j["constants"].push_back(json_of(c.constant, c.before));
      j["constants"].back()["why"] = c.why;
    }
    j["written"] = written;
    std::cout << j.dump(2) << "\n";
    return kDone;
  }
  fmt::print("Terms with their 10-90 % interval; errors are |predicted/measured - 1|\n");
  for (const TableFit& fit : fits.fits) print_fit(fit);
  print_constant_header();
  for (const Change& c : changes) {
    print_constant(c.constant, c.before);
    fmt::print("    from {}: {}{}\n", c.constant.source, c.why, c.constant.preset.empty() ? "; only printed: name its preset with --stack" : "");
  }
  print_written(o, written);
  return kDone;
}

// ---- runs

Json json_of(const ErrorSummary& e) {
  return {{"used", e.used}, {"median_abs_pct", e.median_abs_pct}, {"mean_abs_pct", e.mean_abs_pct}, {"p90_abs_pct", e.p90_abs_pct}, {"bias_pct", e.bias_pct}};
}

void print_errors(const char* label, const ErrorSummary& e) {
  fmt::print("  {:<8} {:>5} runs: median {:.2f} %, mean {:.2f} %, p90 {:.2f} %, bias {:+.2f} %\n", label, e.used, e.median_abs_pct, e.mean_abs_pct, e.p90_abs_pct, e.bias_pct);
}

/// The evidence of the prior stays in the source, behind the latest fit.
std::string source_after(const std::string& file, const ErrorSummary& e, const std::string& old) {
  const std::string mark = "; prior: ";
  const std::size_t at = old.find(mark);
  return fmt::format("{}, {} runs: median {:.1f} %, p90 {:.1f} %{}{}", file, e.used, e.median_abs_pct, e.p90_abs_pct, mark, at == std::string::npos ? old : old.substr(at + mark.size()));
}

int run_runs(const Options& o, bool json) {
  const CsvTable table = CsvTable::read(o.runs);
  table.require({"gpu", "n_gpus"}, o.runs, "a run needs at least its device and their number");
  const Presets presets(o.presets);
  const std::vector<std::string> quality = o.quality.size() == 1 && o.quality[0] == "all" ? std::vector<std::string>{} : o.quality;
  MappedRuns runs = RunMapping(presets, o.map).map(table, quality);
  if (std::none_of(runs.runs.begin(), runs.runs.end(), [](const MappedRun& r) { return r.seconds.has_value(); }))
    throw InputError(o.runs + ": no usable run with a step time", "every row was skipped or has none", "see tessera validate for the reasons.");
  std::map<std::string, double> old;
  std::set<std::string> homes;
  for (const Constant& c : free_constants(runs.runs)) {
    old[c.kind + "/" + c.preset + "/" + c.key] = c.value;
    homes.insert(c.preset);
  }
  for (const auto& name : o.only)
    if (!homes.count(name)) throw InputError("--only " + name, "no run uses a free constant of a preset with this name", suggestion(name, {homes.begin(), homes.end()}));
  const ErrorSummary before = validate_runs(runs.runs).time;
  RunFitOptions options;
  options.only = o.only;
  RunFit fit = fit_constants(runs.runs, options);
  set_constants(runs.runs, fit.constants);
  const ErrorSummary after = validate_runs(runs.runs).time;
  std::vector<Constant> constants;
  for (const FreeConstant& f : fit.constants) {
    constants.push_back(f.constant);
    constants.back().source = source_after(base_name(o.runs), after, f.constant.source);
  }
  const auto written = write_presets(o, constants);
  const auto before_of = [&](const Constant& c) { return old.at(c.kind + "/" + c.preset + "/" + c.key); };
  if (json) {
    Json j{{"calibrated_by", command_line(o)}, {"rows", runs.rows}, {"used", after.used}};
    j["skipped"] = Json::object();
    for (const auto& [reason, count] : runs.skipped) j["skipped"][reason] = count;
    j["before"] = json_of(before);
    j["after"] = json_of(after);
    j["iterations"] = fit.iterations;
    j["cost"] = fit.cost;
    j["constants"] = Json::array();
    for (const Constant& c : constants) j["constants"].push_back(json_of(c, before_of(c)));
    j["written"] = written;
    std::cout << j.dump(2) << "\n";
    return kDone;
  }
  fmt::print("{} rows, {} runs with a step time; {} free constants, {} iterations\nError of the step time\n", runs.rows, after.used, constants.size(), fit.iterations);
  print_errors("before", before);
  print_errors("after", after);
  print_constant_header();
  for (const Constant& c : constants) print_constant(c, before_of(c));
  print_written(o, written);
  return kDone;
}

constexpr const char* kExamples =
    "Examples:\n"
    "  tessera calibrate --runs runs.csv --out presets && tessera validate runs.csv --presets presets\n"
    "  tessera calibrate --device b200 --gemm gemm_util.csv --grouped gemm_grouped_b200.csv --attention sdpa_fwd_bwd_timings.csv --out presets\n"
    "  tessera calibrate --device b200 --link nvlink5 --network network-400 --all-to-all a2a_b200_4node.csv --collectives dp_collectives_b200_4node.csv\n"
    "  tessera calibrate --link nvlink5 --nccl-tests all_gather_perf.txt --json\n"
    "Tables, their columns and forms: docs/calibration.md";

void add_table_options(CLI::App& c, Options& o) {
  c.add_option("--device", o.device, "Device preset or file that the kernel tables are of");
  c.add_option("--rows", o.rows, "Name of the device in the tables (default: the preset's name up to '-')");
  c.add_option("--into", o.into, "Device preset that takes the constants (default: --device)");
  c.add_option("--stack", o.stack, "Stack preset that takes host_expert_seconds and cross_entropy_passes (default: they are only printed)");
  c.add_option("--gemm", o.gemm, "Dense GEMM table, bf16 and fp8 (CSV)");
  c.add_option("--grouped", o.grouped, "Grouped GEMM table (CSV)");
  c.add_option("--attention", o.attention, "Flash attention table (CSV)");
  c.add_option("--backend", o.backend, "Rows of the attention table that give the constants (default: the fastest backend)");
  c.add_option("--topk", o.topk, "Router top-k table (CSV)");
  c.add_option("--cross-entropy", o.cross_entropy, "Cross-entropy and head table (CSV)");
  c.add_option("--gaps", o.gaps, "Table of chains of dependent kernels (CSV)");
  c.add_option("--link", o.link, "Link preset inside a node (or the only link measured)");
  c.add_option("--network", o.network, "Link preset between nodes");
  c.add_option("--all-to-all", o.exchange, "All-to-all table (CSV); several may be given");
  c.add_option("--collectives", o.collectives, "Table of all-reduce, all-gather and reduce-scatter (CSV); several may be given");
  c.add_option("--nccl-tests", o.nccl, "Plain output of nccl-tests; several may be given");
  c.add_option("--node-devices", o.node_devices, "Devices of a node in the collective tables")->capture_default_str()->check(CLI::PositiveNumber);
}

}  // namespace

void add_calibrate(CLI::App& app, Session& session) {
  auto* c = app.add_subcommand("calibrate", "Fit constants of devices, links and stacks to timing tables or measured runs");
  auto o = std::make_shared<Options>();
  c->add_option("--runs", o->runs, "CSV table of measured runs (columns: docs/accuracy.md)");
  c->add_option("--only", o->only, "Presets whose constants runs may change (default: all)")->delimiter(',');
  c->add_option("--quality", o->quality, "Qualities of runs to fit, or 'all'")->delimiter(',')->capture_default_str();
  c->add_option("--map", o->map, "TOML table that maps rows to presets (default: the built-in one)");
  add_table_options(*c, *o);
  c->add_option("--presets", o->presets, "Folder of preset files that shadow the built-in ones");
  c->add_option("--out", o->out, "Folder for the changed presets: DIR/devices/NAME.toml and so on");
  c->add_flag("--json", session.json, "One JSON object on standard output");
  c->footer(kExamples);
  c->callback([o, &session] {
    session.action = [o, &session] {
      check_usage(*o);
      return o->runs.empty() ? run_tables(*o, session.json) : run_runs(*o, session.json);
    };
  });
}

}  // namespace tessera
