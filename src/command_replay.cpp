// tessera replay: one point of a results file evaluated again, with everything that was not stored.
#include <charconv>
#include <cmath>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/architecture_fields.hpp"
#include "io/plan_text.hpp"
#include "io/results_reader.hpp"
#include "io/study_reader.hpp"
#include "io/used_presets.hpp"
#include "src/cost_output.hpp"
#include "src/sweep_output.hpp"
#include "tessera/error.hpp"
#include "tessera/step_cost.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// Columns of /evaluations are 32-bit floats: half a unit in the last place, and the batched path agrees with the
// scalar one far closer.
constexpr double kFloatTolerance = 1e-6;

struct Options {
  std::string results, id;
};

struct Stored {
  std::string table;  ///< evaluations or best
  bool fits = false;
  double step_seconds = 0, memory_bytes = 0;
};

std::uint64_t parse_id(const std::string& text, std::uint64_t points) {
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size())
    throw InputError("'" + text + "' is not an id", "a whole number is needed", "take one from: tessera query RESULTS --columns id,mfu");
  if (id >= points)
    throw InputError(fmt::format("there is no id {}", id), fmt::format("the study has the ids 0 to {}", points - 1),
                     "take one from: tessera query RESULTS --columns id,mfu");
  return id;
}

/// The study made again must have the presets of the results, value by value.
void check_presets(const Results& results, const Study& study) {
  const auto now = used_presets(study);
  for (const auto& stored : results.presets) {
    const std::string entry = stored.kind + " " + stored.name + " " + stored.hash;
    bool same = false;
    std::string other = "missing";
    for (const auto& preset : now) {
      if (preset.kind != stored.kind || preset.name != stored.name) continue;
      same = same || preset_entry(preset) == entry;
      other = preset_entry(preset).substr(preset_entry(preset).rfind(' ') + 1);
    }
    if (!same)
      throw InputError(fmt::format("the {} preset {} is not the one of these results: hash {} there, {} now", stored.kind, stored.name, stored.hash, other),
                       "its values have changed since, so the evaluation would differ",
                       fmt::format("use tessera {}, or the preset text in /study/presets, or sweep again.", results.version));
  }
}

std::optional<Stored> stored_of(const ResultsReader& reader, std::uint64_t id) {
  if (const auto row = reader.evaluation(id))
    return Stored{"evaluations", row->status[0] == static_cast<std::uint8_t>(Status::fits), row->step_seconds[0], row->memory_bytes[0]};
  for (const auto& best : reader.results().best)
    if (best.row.id == id) return Stored{"best", best.row.feasible != 0, best.row.step_seconds, best.row.memory_bytes};
  return std::nullopt;
}

bool close(double a, double b) { return std::abs(a - b) <= kFloatTolerance * std::max(std::abs(a), std::abs(b)); }

bool agree(const Stored& stored, const StepCost& cost) {
  return stored.fits == cost.fits() && close(stored.memory_bytes, cost.memory_bytes) && (!stored.fits || close(stored.step_seconds, cost.step_seconds));
}

int run(const Options& options, bool json) {
  const ResultsReader reader(options.results);
  const Results& results = reader.results();
  const std::uint64_t id = parse_id(options.id, results.points);
  const Study study = restore_study(results.source, options.results + " (/study/input)");
  check_presets(results, study);
  const Space space(study);
  if (space.points() != results.points)
    throw InputError(fmt::format("the study has {} points in these results and {} now", results.points, space.points()),
                     "this version of tessera lays the space out differently", fmt::format("use tessera {}.", results.version));
  const Digits digits = space.decode(id);
  const Plan plan = space.plan(digits);
  const Cluster& cluster = space.cluster(digits);
  const Reason reason = space.legality(digits);
  const auto stored = stored_of(reader, id);
  Json out;
  out["id"] = id;
  out["architecture"] = architecture_json(space.architecture(digits));
  out["cluster"] = {{"name", cluster.name}, {"nodes", nodes_of(cluster)}, {"devices", cluster.devices}};
  out["plan"] = plan_json(plan);
  out["reason"] = to_string(reason);
  if (!json)
    fmt::print("id {}: {} on {} ({} nodes, {} devices), batch {} sequences\nplan {}\n", id, space.architecture(digits).name, cluster.name,
               nodes_of(cluster), cluster.devices, plan.batch, to_text(plan));
  bool agrees = true;
  if (reason == Reason::none) {
    const StepCost cost = evaluate(space.architecture(digits), cluster, plan, study.sequence);
    agrees = !stored || agree(*stored, cost);
    out.update(cost_json(cost));
    if (!json) print_cost(cost);
  } else if (!json) {
    fmt::print("refused: {} ({})\n", to_string(reason), explanation(reason));
  }
  out["stored"] = nullptr;
  if (stored)
    out["stored"] = {{"table", stored->table}, {"fits", stored->fits}, {"step_seconds", stored->step_seconds}, {"memory_bytes", stored->memory_bytes}};
  out["agrees"] = stored ? Json(agrees) : Json(nullptr);
  if (json) fmt::print("{}\n", out.dump(2));
  else if (!stored) fmt::print("not recorded in {}\n", options.results);
  else fmt::print("stored in /{}: step {:.6g} s, memory {:.3f} GiB: {}\n", stored->table, stored->step_seconds, stored->memory_bytes / kGiB, agrees ? "agrees" : "DIFFERS");
  return agrees ? kDone : kFailed;
}

}  // namespace

void add_replay(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("replay", "Evaluate one id of a results file again, with the full breakdown");
  sub->add_option("RESULTS", options->results, "results.h5 of a sweep")->required();
  sub->add_option("ID", options->id, "Id of a point: column id of /evaluations, /best and /top")->required();
  sub->add_flag("--json", session.json, "One JSON object on stdout: id architecture{} cluster{} plan{} reason step_seconds time{} memory{stages[]} stored{} agrees");
  sub->footer("Exit code 1 where the stored row differs from the evaluation.\n"
              "Example:\n  tessera replay results/paper/results.h5 $(tessera query results/paper/results.h5 --table top --columns id --top 1 --csv | tail -1)");
  sub->callback([options, &session] { session.action = [options, &session] { return run(*options, session.json); }; });
}

}  // namespace tessera
