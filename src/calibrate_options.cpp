#include "calibrate_options.hpp"

#include <fmt/format.h>

#include "io/kernel_fit_table.hpp"
#include "tessera/error.hpp"

namespace tessera {

bool has_kernel_table(const CalibrateOptions& o) {
  return !(o.gemm.empty() && o.grouped.empty() && o.attention.empty() && o.topk.empty() && o.cross_entropy.empty() && o.gaps.empty());
}
bool has_collective_table(const CalibrateOptions& o) { return !(o.exchange.empty() && o.collectives.empty() && o.nccl.empty()); }

void check_usage(const CalibrateOptions& o) {
  const bool tables = has_kernel_table(o) || has_collective_table(o);
  const auto refuse = [](bool wrong, const char* problem, const char* why, const char* remedy) {
    if (wrong) throw InputError(problem, why, remedy);
  };
  refuse(o.runs.empty() && !tables, "nothing to calibrate from", "neither runs nor a timing table is given", "give --runs FILE, or --device NAME with --gemm, --grouped, --attention, ... FILE.");
  refuse(!o.runs.empty() && tables, "--runs together with timing tables", "one calibration fits one kind of data", "calibrate from the tables first, then from runs with --presets DIR.");
  refuse(!o.only.empty() && o.runs.empty(), "--only without --runs", "it chooses the presets that runs may change", "leave it out.");
  refuse(has_kernel_table(o) && o.device.empty(), "kernel tables without --device", "peaks, memory bandwidth and SM count come from a device preset", "give --device NAME (tessera presets lists them).");
  refuse(!o.device.empty() && !has_kernel_table(o) && !has_collective_table(o), "--device without a table", "there is nothing to fit", "give --gemm FILE or another table.");
  refuse(!o.backend.empty() && o.attention.empty(), "--backend without --attention", "it chooses rows of the attention table", "leave it out.");
  refuse(!o.stack.empty() && o.grouped.empty() && o.cross_entropy.empty(), "--stack without --grouped or --cross-entropy", "only these give constants of a stack", "leave it out.");
  refuse(!o.into.empty() && !has_kernel_table(o), "--into without a kernel table", "it names the device preset that takes the constants", "leave it out.");
  refuse((!o.link.empty() || !o.network.empty()) && !has_collective_table(o), "a link without a table", "there is nothing to fit", "give --all-to-all, --collectives or --nccl-tests FILE.");
  refuse(!o.link.empty() && o.link == o.network, "--link and --network name the same preset", "a link is inside a node or between nodes", "name two.");
  refuse((!o.exchange.empty() || !o.collectives.empty()) && o.device.empty() && o.rows.empty(), "collective tables without --device or --rows", "the rows to take must be named", "give --device NAME.");
}

std::string command_line(const CalibrateOptions& o) {
  std::string out = "tessera calibrate";
  const auto add = [&](const char* name, const std::string& value, bool file) {
    if (!value.empty()) out += fmt::format(" {} {}", name, file ? base_name(value) : value);
  };
  add("--runs", o.runs, true);
  if (!o.runs.empty() && o.quality != CalibrateOptions{}.quality) out += " --quality " + fmt::format("{}", fmt::join(o.quality, ","));
  if (!o.only.empty()) out += " --only " + fmt::format("{}", fmt::join(o.only, ","));
  add("--map", o.map, true);
  for (const auto& [name, value] : {std::pair{"--device", &o.device}, {"--rows", &o.rows}, {"--into", &o.into}, {"--stack", &o.stack}}) add(name, *value, value->ends_with(".toml"));
  for (const auto& [name, value] : {std::pair{"--gemm", &o.gemm}, {"--grouped", &o.grouped}, {"--attention", &o.attention}}) add(name, *value, true);
  add("--backend", o.backend, false);
  for (const auto& [name, value] : {std::pair{"--topk", &o.topk}, {"--cross-entropy", &o.cross_entropy}, {"--gaps", &o.gaps}}) add(name, *value, true);
  add("--link", o.link, o.link.ends_with(".toml"));
  add("--network", o.network, o.network.ends_with(".toml"));
  for (const auto& [name, files] : {std::pair{"--all-to-all", &o.exchange}, {"--collectives", &o.collectives}, {"--nccl-tests", &o.nccl}})
    for (const auto& file : *files) add(name, file, true);
  if (!o.exchange.empty() || !o.collectives.empty()) out += fmt::format(" --node-devices {}", o.node_devices);
  return out;
}

std::string stem_of(const std::string& spec) {
  const std::string name = base_name(spec);
  return name.ends_with(".toml") ? name.substr(0, name.size() - 5) : spec;
}

}  // namespace tessera
