// tessera estimate: the size of a sweep in points, bytes and time, before an allocation is spent on it.
#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/chunk_codec.hpp"
#include "io/output_folder.hpp"
#include "io/study_reader.hpp"
#include "search/dry_run_context.hpp"
#include "search/estimate.hpp"
#include "search/threads.hpp"
#include "search/work_order.hpp"
#include "src/sweep_output.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

struct Options {
  std::string study, record, search;
  StudyOverrides overrides;
  int ranks = 1;
  std::optional<int> threads;
  double seconds = 1.0;  ///< spent on measuring [s]
};

/// Compresses the columns of measured units as the merge will: bytes and time of a row.
class Compression {
 public:
  void look(const UnitResult& unit) {
    const Columns& c = unit.columns;
    if (c.size() == 0) return;
    const auto start = std::chrono::steady_clock::now();
    column(c.id);
    column(c.status);
    for (const auto* metric : {&c.step_seconds, &c.memory_bytes, &c.compute_seconds, &c.communication_seconds, &c.ramp_seconds, &c.host_seconds})
      column(*metric);
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    rows_ += static_cast<double>(c.size());
  }
  double row_bytes() const { return rows_ > 0 ? bytes_ / rows_ : 0.0; }
  double row_seconds() const { return rows_ > 0 ? seconds_ / rows_ : 0.0; }

 private:
  template <class T>
  void column(const std::vector<T>& values) {
    compress_chunk({reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(T)}, sizeof(T), out_);
    bytes_ += static_cast<double>(out_.size());
  }
  std::vector<std::uint8_t> out_;
  double bytes_ = 0, seconds_ = 0, rows_ = 0;
};

struct Answer {
  std::uint64_t architectures = 0, points = 0, legal = 0, units = 0;
  double evaluations = 0, bytes = 0, result_bytes = 0;
  double core_seconds = 0, merge_seconds = 0, seconds = 0;
  std::uint64_t measured = 0;
  Rehearsal rehearsal;
  int ranks = 1, threads = 1;
};

Answer estimate(const Options& o, const Study& study) {
  const Space space(study);
  Answer a;
  a.ranks = o.ranks;
  a.threads = choose_threads(o.threads, 1).threads;
  a.architectures = study.architectures.size();
  a.points = space.points();
  a.legal = space.legal();
  a.units = space.units();
  a.bytes = needed_bytes(space, study.record);
  Compression compression;
  const UnitCosts costs = measure_units(space, o.seconds, [&](const UnitResult& u) { compression.look(u); });
  a.measured = costs.measured;
  a.evaluations = costs.evaluations;
  a.result_bytes = costs.rows * compression.row_bytes() + needed_bytes(space, Record::best);
  DryRunContext context(o.ranks);
  a.rehearsal = rehearse(context, costs.unit_seconds, expected_work(space), a.threads, MachineModel{});
  // results.h5 is put together by the threads of rank 0.
  a.merge_seconds = costs.rows * compression.row_seconds() / a.threads;
  a.core_seconds = costs.core_seconds + costs.rows * compression.row_seconds();
  a.seconds = a.rehearsal.seconds + a.merge_seconds;
  return a;
}

nlohmann::ordered_json to_json(const Answer& a, const Study& study) {
  return {{"architectures", a.architectures},
          {"points", a.points},
          {"legal", a.legal},
          {"evaluations", a.evaluations},
          {"units", a.units},
          {"record", to_string(study.record)},
          {"bytes", a.bytes},
          {"results_bytes", a.result_bytes},
          {"core_hours", a.core_seconds / 3600.0},
          {"core_seconds", a.core_seconds},
          {"ranks", a.ranks},
          {"threads", a.threads},
          {"seconds", a.seconds},
          {"evaluation_seconds", a.rehearsal.seconds},
          {"merge_seconds", a.merge_seconds},
          {"efficiency", a.rehearsal.efficiency},
          {"bound", a.rehearsal.bound},
          {"units_measured", a.measured}};
}

void print(const Answer& a, const Study& study) {
  const MachineModel m;
  fmt::print("{} architectures, {} points, {} legal plans, about {:.4g} evaluations in {} units\n", grouped(a.architectures),
             grouped(a.points), grouped(a.legal), a.evaluations, grouped(a.units));
  fmt::print("--record {}: results.h5 about {:.3f} GiB; the folder needs up to {:.3f} GiB while it is made\n",
             to_string(study.record), a.result_bytes / kGiB, a.bytes / kGiB);
  fmt::print("{:.4g} core-hours ({:.4g} core-seconds), from {} units measured on one core of this machine\n",
             a.core_seconds / 3600.0, a.core_seconds, grouped(a.measured));
  fmt::print("{} rank(s) x {} thread(s): {:.4g} s, of which {:.4g} s merge; parallel efficiency {:.1f} %\n", a.ranks, a.threads,
             a.seconds, a.merge_seconds, 100.0 * a.rehearsal.efficiency);
  fmt::print("  bound: {}\n", a.rehearsal.bound);
  fmt::print("  model: rank start {:g} ms, counter {:g} us a fetch and {:g} us to answer, segment {:g} ms\n", 1e3 * m.start_seconds,
             1e6 * m.fetch_service_seconds, 1e6 * m.fetch_latency_seconds, 1e3 * m.segment_seconds);
}

int run(const Options& o, const Session& session) {
  StudyOverrides overrides = o.overrides;
  if (!o.record.empty()) overrides.record = record_from(o.record);
  if (!o.search.empty()) overrides.search = search_from(o.search);
  if (overrides.search == Search::pruned && !overrides.record) overrides.record = Record::best;
  const Study study = read_study(o.study, overrides);
  const Answer answer = estimate(o, study);
  if (session.json) fmt::print("{}\n", to_json(answer, study).dump());
  else print(answer, study);
  return kDone;
}

}  // namespace

void add_estimate(CLI::App& app, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("estimate", "Size of a sweep in points, bytes and core-hours, before it is run");
  c->add_option("study", o->study, "Study file (TOML)")->required();
  c->add_option("--ranks", o->ranks, "Ranks that the distribution is rehearsed for")->check(CLI::Range(1, 1 << 20))->capture_default_str();
  c->add_option("--threads", o->threads, "Evaluating threads of a rank; default: as for sweep");
  c->add_option("--record", o->record, "as for sweep")->check(CLI::IsMember({"all", "feasible", "best"}));
  c->add_option("--search", o->search, "as for sweep")->check(CLI::IsMember({"exhaustive", "pruned"}));
  c->add_option("--seconds", o->seconds, "Time spent on measuring units [s]")->check(CLI::Range(0.0, 3600.0))->capture_default_str();
  c->add_option("--fix", o->overrides.fix, "as for sweep");
  c->add_option("--forbid", o->overrides.forbid, "as for sweep");
  c->add_option("--nodes", o->overrides.nodes, "as for sweep")->delimiter(',');
  c->add_option("--devices", o->overrides.devices, "as for sweep")->delimiter(',');
  c->add_option("--days", o->overrides.days, "as for sweep [days]")->delimiter(',');
  c->add_flag("--json", session.json, "One JSON object on stdout");
  c->footer("Examples:\n  tessera estimate jobs/paper.toml --ranks 64 --threads 8\n"
            "  tessera estimate jobs/benchmark.toml --record best --json");
  c->callback([o, &session] { session.action = [o, &session] { return run(*o, session); }; });
}

}  // namespace tessera
