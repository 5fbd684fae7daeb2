// tessera sweep: the main job, alone or under mpiexec.
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>

#include "command.hpp"
#include "io/output_folder.hpp"
#include "io/segment.hpp"
#include "io/study_reader.hpp"
#include "search/agreement.hpp"
#include "search/mpi_context.hpp"
#include "search/threads.hpp"
#include "src/progress.hpp"
#include "src/sweep_output.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

struct Options {
  std::string study, out, record, search;
  StudyOverrides overrides;
  std::optional<int> threads;
  std::optional<double> time_limit;
  bool resume = false, redo = false;
};

// The only state a signal handler may touch.
volatile std::sig_atomic_t g_stop = 0;
extern "C" void ask_to_stop(int) { g_stop = 1; }

void catch_signals() {
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGUSR1, SIGINT}) sigaction(signal, &action, nullptr);
}

/// One rank's run of the command.
class Run {
 public:
  Run(const Options& options, const Session& session, Context& context) : o_(options), session_(session), context_(context) {}

  int go() {
    together(context_, [&] { prepare(); });
    together(context_, [&] {
      if (first()) open_folder();
    });
    catch_signals();
    SegmentSink sink(o_.out, context_.rank(), study_->record);
    SweepOptions options;
    options.threads = threads_.threads;
    options.time_limit_seconds = o_.time_limit;
    options.stop = [] { return g_stop != 0; };
    std::optional<ProgressLine> line;
    if (first() && session_.verbosity >= 0) {
      line.emplace(*study_);
      options.progress = [&line](const Progress& p) { line->show(p); };
    }
    const SweepResult result = sweep(*study_, *space_, context_, sink, options);
    line.reset();
    for (const std::string& notice : sink.notices()) say(notice);
    if (result.interrupted) return interrupted(result);
    together(context_, [&] {
      if (first()) folder_->finish(*study_, *space_, result, threads_.threads);
    });
    return first() ? answer(result) : kDone;
  }

 private:
  bool first() const { return context_.rank() == 0; }
  void say(const std::string& text) {
    if (first() && session_.verbosity >= 0) fmt::print(stderr, "{}\n", text);
    if (log_) log_->info(text);
  }

  void prepare() {
    StudyOverrides overrides = o_.overrides;
    if (!o_.record.empty()) overrides.record = record_from(o_.record);
    if (!o_.search.empty()) overrides.search = search_from(o_.search);
    // Plans that are left out cannot be recorded: where the study does not say what to keep, the pruned search
    // keeps the best.
    if (overrides.search == Search::pruned && !overrides.record) overrides.record = Record::best;
    study_ = read_study(o_.study, overrides);
    space_.emplace(*study_);
    threads_ = choose_threads(o_.threads, context_.ranks_on_my_cores());
  }

  void open_folder() {
    const FolderMode mode = o_.redo ? FolderMode::redo : o_.resume ? FolderMode::resume : FolderMode::fresh;
    folder_.emplace(o_.out, mode, *study_, *space_);
    auto file = std::make_shared<spdlog::sinks::basic_file_sink_mt>(o_.out + "/sweep.log");
    log_ = std::make_shared<spdlog::logger>("sweep", file);
    log_->set_error_handler([](const std::string&) {});  // a full disk shows in the results; the log stays silent
    log_->flush_on(spdlog::level::info);
    const std::string text =
        fmt::format("{} points, {} legal plans in {} units; {} rank(s) x {} thread(s) (from {}); --record {} needs at most {:.2f} GiB",
                    grouped(space_->points()), grouped(space_->legal()), grouped(space_->units()), context_.ranks(),
                    threads_.threads, threads_.source, to_string(study_->record),
                    needed_bytes(*space_, study_->record) / kGiB);
    log_->info("{}: study {}", o_.study, study_hash(*study_));
    log_->info(text);
    if (session_.verbosity > 0) fmt::print(stderr, "{}\n", text);
  }

  int interrupted(const SweepResult& result) {
    if (!first()) return kInterrupted;
    if (session_.json) fmt::print("{}\n", sweep_json(*study_, *space_, result).dump());
    say(fmt::format("interrupted: {} of {} units are safe in {}; go on with --resume", grouped(result.units_done),
                    grouped(result.units_total), o_.out));
    return kInterrupted;
  }

  int answer(const SweepResult& result) {
    const bool nothing = result.counts.feasible == 0;
    const std::optional<FittingNodes> nodes = nothing ? nodes_that_fit(*study_, *space_, result) : std::nullopt;
    log_->info("{} evaluations, {} feasible, {:.3f} s, signature {}", result.counts.evaluations, result.counts.feasible,
               result.seconds, signature_text(result.signature));
    if (session_.json) {
      auto object = sweep_json(*study_, *space_, result);
      if (nothing) object["closest_miss"] = closest_miss_json(*study_, *space_, result, nodes);
      object["results"] = folder_->results_path();
      fmt::print("{}\n", object.dump());
    } else {
      fmt::print("{}\nResults: {}\n", sweep_table(*study_, result), folder_->results_path());
    }
    if (!nothing) return kDone;
    fmt::print(stderr, "{}", nothing_fits_text(*space_, result, nodes));
    return kNothingFeasible;
  }

  const Options& o_;
  const Session& session_;
  Context& context_;
  std::optional<Study> study_;
  std::optional<Space> space_;
  ThreadChoice threads_;
  std::optional<OutputFolder> folder_;
  std::shared_ptr<spdlog::logger> log_;
};

/// Every rank ends with the same exit code; rank 0 alone speaks.
int run(const Options& options, const Session& session) {
  const std::unique_ptr<Context> context = make_context();
  try {
    return Run(options, session, *context).go();
  } catch (const InputError&) {
    if (context->rank() == 0) throw;
    return kBadInput;
  } catch (const std::exception&) {
    if (context->rank() == 0) throw;
    return kFailed;
  }
}

}  // namespace

void add_sweep(CLI::App& app, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("sweep", "Search every architecture and plan of a study; ends with DIR/results.h5");
  c->add_option("study", o->study, "Study file (TOML)")->required();
  c->add_option("-o,--out", o->out, "Folder for the results")->required();
  c->add_option("--record", o->record, "Evaluations kept: all (default of studies), feasible or best (per cluster, batch and architecture)")
      ->check(CLI::IsMember({"all", "feasible", "best"}));
  c->add_option("--search", o->search, "exhaustive (default), or pruned: leaves out what an exact bound proves not to be best; records best")
      ->check(CLI::IsMember({"exhaustive", "pruned"}));
  c->add_option("--top", o->overrides.top, "Rows kept per cluster size and window");
  c->add_option("--threads", o->threads, "Evaluating threads of a rank; default: the scheduler's variables or the affinity mask");
  auto* resume = c->add_flag("--resume", o->resume, "Go on with the units that an earlier run has not finished");
  c->add_flag("--redo", o->redo, "Start over: deletes the results in the folder")->excludes(resume);
  c->add_option("--time-limit", o->time_limit, "Finish the units in hand and stop after this time, resumable [s]")
      ->check(CLI::NonNegativeNumber);
  c->add_option("--fix", o->overrides.fix, "An axis takes these values only, e.g. --fix tp=8");
  c->add_option("--forbid", o->overrides.forbid, "Values taken out of an axis, e.g. --forbid schedule=dualpipe");
  c->add_option("--nodes", o->overrides.nodes, "Numbers of nodes, in place of the study's")->delimiter(',');
  c->add_option("--devices", o->overrides.devices, "Numbers of devices instead, in place of the study's")->delimiter(',');
  c->add_option("--days", o->overrides.days, "Windows, in place of the study's [days]")->delimiter(',');
  c->add_flag("--json", session.json, "One JSON object on stdout");
  c->add_flag("-v,--verbose", [&session](std::int64_t n) { session.verbosity = static_cast<int>(n); }, "Say more on stderr");
  c->add_flag("-q,--quiet", [&session](std::int64_t) { session.verbosity = -1; }, "Say nothing on stderr but errors");
  c->footer("Examples:\n  mpiexec -n 2 tessera sweep jobs/paper.toml --out results/paper\n"
            "  tessera sweep jobs/paper.toml --out results/tp8 --record best --fix tp=8 --days 10,20,30,40\n"
            "Exit codes: 0 done, 2 bad input, 3 nothing fits, 75 interrupted (go on with --resume).");
  c->callback([o, &session] { session.action = [o, &session] { return run(*o, session); }; });
}

}  // namespace tessera
