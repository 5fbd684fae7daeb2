// tessera merge: results.h5 from the segments of a finished sweep.
#include <memory>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/hash.hpp"
#include "io/manifest.hpp"
#include "io/merge.hpp"
#include "io/output_folder.hpp"
#include "io/segment.hpp"
#include "io/study_reader.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

struct Options {
  std::string folder;
  int threads = 0;
};

int run(const Options& options, bool json) {
  const Manifest manifest = read_manifest(options.folder);
  const Study study = restore_study(manifest.source, options.folder + "/manifest.json (source)");
  const Space space(study);
  const OutputFolder folder(options.folder, FolderMode::resume, study, space);  // lock, and the same study, version and presets
  Reducer reducer(study, space);
  SegmentSink sink(options.folder, 0, study.record);
  for (const auto& unit : sink.finished()) reducer.add(unit);
  for (const auto& notice : sink.notices()) fmt::print(stderr, "tessera: {}\n", notice);
  const SweepResult result = reducer.result();
  const int threads = options.threads > 0 ? options.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const MergeReport report = merge_results(options.folder, study, space, result, threads);
  if (json) {
    nlohmann::ordered_json out;
    out["results"] = folder.results_path();
    out["units"] = space.units();
    out["rows"] = report.rows;
    out["bytes"] = report.bytes;
    out["signature"] = hash_text(result.signature);
    fmt::print("{}\n", out.dump(2));
  } else {
    fmt::print("{}: {} units, {} rows of /evaluations, {:.1f} MiB, signature {}\n", folder.results_path(), space.units(), report.rows,
               static_cast<double>(report.bytes) / kMiB, hash_text(result.signature));
  }
  return kDone;
}

}  // namespace

void add_merge(CLI::App& app, Session& session) {
  auto options = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand("merge", "Write results.h5 from the finished units of a sweep's folder");
  sub->add_option("DIR", options->folder, "The --out folder of a sweep whose units are all finished")->required();
  sub->add_option("--threads", options->threads, "Threads that compress (default: all of this machine)")->check(CLI::PositiveNumber);
  sub->add_flag("--json", session.json, "One JSON object on stdout: results units rows bytes signature");
  sub->footer("A sweep does this itself at its end; merge finishes one whose end was cut off, for example by a full disk.\n"
              "Example:\n  tessera merge results/paper");
  sub->callback([options, &session] { session.action = [options, &session] { return run(*options, session.json); }; });
}

}  // namespace tessera
