// tessera report: results as one self-contained page.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "command.hpp"
#include "io/output_file.hpp"
#include "io/report.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

struct Options {
  std::string results, out = "report.html";
};

int run(const Options& o, bool json) {
  const OutputFile out("--out", o.out);
  const std::string page = report_page(ResultsReader(o.results));
  out.write(page);
  if (json)
    fmt::print("{}\n", nlohmann::ordered_json{{"file", o.out}, {"bytes", page.size()}}.dump(2));
  else
    fmt::print("{}: {:.2f} MB, opens in any browser, needs no network\n", o.out,
               static_cast<double>(page.size()) / 1e6);
  return kDone;
}

}  // namespace

void add_report(CLI::App& app, Session& session) {
  auto o = std::make_shared<Options>();
  CLI::App* sub = app.add_subcommand(
      "report", "Results as one page of charts, readable in any browser without a network");
  sub->add_option("RESULTS", o->results, "results.h5 of a sweep")->required();
  sub->add_option("-o,--out", o->out, "HTML file to write")->capture_default_str();
  sub->add_flag("--json", session.json, "One JSON object on stdout: file bytes");
  sub->footer("Example:\n  tessera report results/paper/results.h5 -o report.html");
  sub->callback([o, &session] { session.action = [o, &session] { return run(*o, session.json); }; });
}

}  // namespace tessera
