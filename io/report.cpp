#include "io/report.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "io/report_parts.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

// Text that stands between tags.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

std::string licences(const EmbeddedReport& embedded) {
  std::string out;
  for (const auto& licence : embedded.licences)
    out += fmt::format("==== {} ====\n{}{}{}\n\n", licence.project, licence.notice,
                       licence.notice.empty() ? "" : "\n\n", licence.text);
  return escaped(out);
}

// Replaces every @name@ of the page in one pass: what is put in is not searched again.
std::string fill(std::string_view page,
                 const std::vector<std::pair<std::string_view, std::string_view>>& parts) {
  std::string out;
  while (!page.empty()) {
    const std::size_t open = page.find('@');
    out += page.substr(0, open);
    if (open == std::string_view::npos) break;
    page.remove_prefix(open + 1);
    const std::string_view name = page.substr(0, page.find('@'));
    bool found = false;
    for (const auto& [key, text] : parts)
      if (key == name) {
        out += text;
        found = true;
      }
    if (found)
      page.remove_prefix(name.size() + 1);
    else
      out += '@';
  }
  return out;
}

}  // namespace

std::string report_page(const ResultsReader& results, const ReportLimits& limits) {
  const EmbeddedReport& embedded = embedded_report();
  if (embedded.library.empty())
    throw InputError("report: this build has no chart library",
                     "npm's echarts was not there when it was configured",
                     "run jobs/install-chart-library.sh, then configure and build again.");
  const std::string title = escaped(results.results().title), data = report_data(results, limits),
                    licence_text = licences(embedded);
  return fill(embedded.page, {{"title", title},
                              {"style", embedded.style},
                              {"script", embedded.script},
                              {"library", embedded.library},
                              {"licences", licence_text},
                              {"data", data}});
}

}  // namespace tessera
