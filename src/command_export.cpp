// tessera export: a plan as the arguments of a training framework.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "io/architecture_reader.hpp"
#include "io/export.hpp"
#include "io/output_file.hpp"
#include "io/plan_text.hpp"
#include "io/preset_name.hpp"
#include "io/preset_reader.hpp"
#include "io/results_reader.hpp"
#include "io/study_reader.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

struct Options {
  std::string results;
  std::int64_t rank = 1;
  std::optional<double> days;
  std::optional<std::int64_t> nodes, devices;
  std::string architecture, cluster, plan, format, out;
  std::int64_t batch = 0, sequence = 0;
};

bool has_devices(const StoredCluster& c, const Options& o) {
  return (!o.nodes || c.nodes == *o.nodes) && (!o.devices || c.devices == *o.devices);
}

// A row of the answer: the first envelope that matches, and the rank in it.
ExportRequest from_results(const Options& o) {
  if (!o.architecture.empty() || !o.plan.empty())
    throw InputError("export: both RESULTS and -a or --plan",
                     "the row of the results has an architecture and a plan", "give one or the other.");
  if (!std::filesystem::exists(o.results) && !spelled_name(o.results, architecture_names()).empty())
    throw InputError(fmt::format("export: '{}' is an architecture", o.results), "without an option the results.h5 of a sweep is meant",
                     fmt::format("write -a {}.", o.results));
  const ResultsReader reader(o.results);
  const Results& results = reader.results();
  const TopRow* found = nullptr;
  for (const TopRow& row : results.top)
    if (row.rank == o.rank && (!o.days || row.window_days == *o.days) &&
        has_devices(results.clusters.at(row.cluster), o)) {
      found = &row;
      break;
    }
  if (!found) {
    std::string envelopes;
    for (const EnvelopeCounts& e : results.envelopes)
      envelopes += fmt::format("{}{} nodes, {} days: ranks 1 to {}", envelopes.empty() ? "" : "; ",
                               results.clusters.at(e.cluster).nodes, e.window_days,
                               std::min<std::uint64_t>(e.ranked, results.top.size()));
    throw InputError(fmt::format("export: {} has no such row", o.results),
                     "it holds " + (envelopes.empty() ? "none" : envelopes),
                     "choose --rank, --nodes and --days among these.");
  }
  Study study = restore_study(results.source, o.results);
  ExportRequest request{results.architectures.at(found->architecture), study.clusters.at(found->cluster),
                        found->plan, results.sequence};
  request.plan.batch = results.batches.at(found->batch);
  return request;
}

ExportRequest from_options(const Options& o) {
  for (const auto& [flag, missing] : {std::pair{"-a", o.architecture.empty()},
                                      {"-c", o.cluster.empty()},
                                      {"--plan", o.plan.empty()},
                                      {"--nodes or --devices", !o.nodes && !o.devices},
                                      {"--seq", o.sequence <= 0}})
    if (missing)
      throw InputError(fmt::format("export: {} is missing", flag),
                       "without RESULTS everything is said on the command line",
                       "see tessera export --help.");
  if (o.nodes && o.devices)
    throw InputError("export: both --nodes and --devices", "one of them says how many", "leave one out.");
  ExportRequest request;
  request.architecture = read_architecture(o.architecture);
  const std::int64_t node_devices = read_cluster(o.cluster, 0).cluster.fabric.node_devices;
  const SourcedCluster cluster = read_cluster(o.cluster, o.devices ? *o.devices : *o.nodes * node_devices);
  request.cluster = cluster.cluster;
  request.sequence = o.sequence;
  Plan defaults;
  defaults.batch = o.batch;
  defaults.zero = cluster.cluster.stack.default_zero;
  if (cluster.precision) defaults.precision = *cluster.precision;
  request.plan = parse_plan(o.plan, defaults, request.cluster.devices,
                            request.cluster.stack.etp_follows_tp && request.architecture.is_moe());
  return request;
}

// The first file under the name the user chose; what it refers to keeps its name, in the same folder.
void write(const Export& e, const std::string& out) {
  const std::filesystem::path first(out);
  for (std::size_t i = 0; i < e.files.size(); ++i) {
    const std::filesystem::path path = i == 0 ? first : first.parent_path() / e.files[i].name;
    OutputFile("--out", path.string()).write(e.files[i].text);
    fmt::print(stderr, "wrote {}\n", path.string());
  }
}

// The notes speak of the file by the name it is given.
void rename_first(Export& e, const std::string& out) {
  if (out.empty() || e.files.empty()) return;
  const std::string from = e.files[0].name, to = std::filesystem::path(out).filename().string();
  e.files[0].name = to;
  for (std::string& note : e.notes)
    if (const auto at = note.find(from); at != std::string::npos) note.replace(at, from.size(), to);
}

int run(const Options& o, bool json) {
  Export e = export_plan(o.results.empty() ? from_options(o) : from_results(o), o.format);
  rename_first(e, o.out);
  if (!o.out.empty()) write(e, o.out);
  if (json) {
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    for (const ExportFile& file : e.files) files.push_back({{"name", file.name}, {"text", file.text}});
    fmt::print("{}\n",
               nlohmann::ordered_json{{"format", e.format}, {"files", files}, {"notes", e.notes}}.dump(2));
    return kDone;
  }
  for (const std::string& note : e.notes) fmt::print(stderr, "{}\n", note);
  if (!o.out.empty()) return kDone;
  for (std::size_t i = 0; i < e.files.size(); ++i) {
    if (i > 0) fmt::print("\n");
    if (e.files.size() > 1) fmt::print("==> {} <==\n", e.files[i].name);
    fmt::print("{}", e.files[i].text);
  }
  return kDone;
}

}  // namespace

void add_export(CLI::App& app, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("export", "A plan as arguments of a training framework");
  sub->add_option("RESULTS", o->results, "results.h5 of a sweep: its best row is exported");
  sub->add_option("-f,--format", o->format, fmt::format("{}", fmt::join(export_formats(), ", ")))->required();
  sub->add_option("-o,--out", o->out, "File to write (further files go beside it); default: standard output");
  sub->add_option("--rank", o->rank, "Row of RESULTS to export (1: lowest loss)");
  sub->add_option("--days", o->days, "Window of RESULTS [days]; default: the first");
  sub->add_option("--nodes", o->nodes, "Number of nodes; with RESULTS: which of its cluster sizes");
  sub->add_option("--devices", o->devices, "Number of devices, instead of --nodes");
  sub->add_option("-a,--architecture", o->architecture, "Architecture: preset, file or key=value,...");
  sub->add_option("-c,--cluster", o->cluster, "Cluster: preset, file or preset,key=value,...");
  sub->add_option(
      "--plan", o->plan,
      "tp=1,pp=8,ep=32,...: " + fmt::format("{}", fmt::join(plan_keys(), " ")) + "; dp is derived");
  sub->add_option("--batch", o->batch, "Sequences per optimizer step");
  sub->add_option("--seq", o->sequence, "Tokens per sequence");
  sub->add_flag("--json", session.json, "One JSON object on stdout: format files[{name text}] notes[]");
  sub->footer(
      "Examples:\n  tessera export results/paper/results.h5 --format megatron-lm -o arguments.txt\n"
      "  tessera export -a mixtral_8x7b -c p6-b200 --nodes 4 --batch 512 --seq 4096 --plan pp=2,ep=8 "
      "--format nemo\n"
      "What a framework cannot express is an error that names it. docs/commands.md has the options.");
  sub->callback([o, &session] { session.action = [o, &session] { return run(*o, session.json); }; });
}

}  // namespace tessera
