#include "src/plan_search.hpp"

#include <algorithm>
#include <functional>
#include <mutex>

#include <fmt/format.h>
#include <oneapi/tbb/enumerable_thread_specific.h>
#include <oneapi/tbb/parallel_for.h>

#include "io/architecture_reader.hpp"
#include "io/law_reader.hpp"
#include "io/toml_reader.hpp"
#include "search/walker.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

constexpr std::int64_t kTokensPerContextRank = 1024;
constexpr int kLargestMicroBatch = 8, kMostVirtualStages = 8;

std::vector<int> divisors_up_to(std::int64_t n, std::int64_t most) {
  std::vector<int> out;
  for (std::int64_t d = 1; d <= std::min(n, most); ++d)
    if (n % d == 0) out.push_back(static_cast<int>(d));
  return out;
}

int degree_from(const std::string& axis, const std::string& value) {
  try {
    std::size_t used = 0;
    const int number = std::stoi(value, &used);
    if (used == value.size() && number >= (axis == "zero" ? 0 : 1)) return number;
  } catch (const std::exception&) {
  }
  throw InputError(fmt::format("--fix/--forbid {}={}", axis, value), "a positive whole number is needed", "write for example tp=8.");
}

template <class T>
T word_from(const std::string& axis, const std::string& value, std::optional<T> (*parse)(std::string_view)) {
  const auto word = parse(value);
  if (!word) throw InputError(fmt::format("--fix/--forbid {}: unknown value '{}'", axis, value), "the axis takes words", "see tessera plan --help.");
  return *word;
}

// Applies "axis=value,value" to the axes: as the only values, or as forbidden ones.
void change_axis(PlanAxes& axes, const std::string& text, bool fix) {
  const std::size_t at = text.find('=');
  const std::string axis = text.substr(0, at);
  std::vector<std::string> values;
  if (at != std::string::npos)
    for (std::size_t i = at + 1; i <= text.size();) {
      const std::size_t end = std::min(text.find(',', i), text.size());
      values.push_back(text.substr(i, end - i));
      i = end + 1;
    }
  if (values.empty() || values.front().empty())
    throw InputError("--fix/--forbid '" + text + "'", "axis=value is needed", "write for example tp=8 or schedule=1f1b,interleaved.");
  auto set = [&](auto& target, auto parse) {
    std::vector<std::decay_t<decltype(parse(values.front()))>> parsed;
    for (const auto& v : values) parsed.push_back(parse(v));
    if (fix) target.values = parsed;
    else target.forbidden.insert(target.forbidden.end(), parsed.begin(), parsed.end());
  };
  auto number = [&](const std::string& v) { return degree_from(axis, v); };
  const std::vector<std::string> known{"tp", "cp", "pp", "ep", "etp", "virtual_stages", "micro_batch", "zero", "recompute", "schedule", "precision"};
  if (axis == "tp") set(axes.tp, number);
  else if (axis == "cp") set(axes.cp, number);
  else if (axis == "pp") set(axes.pp, number);
  else if (axis == "ep") set(axes.ep, number);
  else if (axis == "etp") set(axes.etp, number);
  else if (axis == "virtual_stages") set(axes.virtual_stages, number);
  else if (axis == "micro_batch") set(axes.micro_batch, number);
  else if (axis == "zero") set(axes.zero, number);
  else if (axis == "recompute") set(axes.recompute, [&](const std::string& v) { return word_from<Recompute>(axis, v, recompute_from); });
  else if (axis == "schedule") set(axes.schedule, [&](const std::string& v) { return word_from<Schedule>(axis, v, schedule_from); });
  else if (axis == "precision") set(axes.precision, [&](const std::string& v) { return word_from<Precision>(axis, v, precision_from); });
  else throw InputError("--fix/--forbid: unknown axis '" + axis + "'", "a plan has no such axis", suggestion(axis, known));
}

}  // namespace

Study plan_study(const PlanQuestion& q) {
  Study s;
  s.title = "plans of " + q.architecture.name;
  s.clusters = {q.cluster};
  s.days = {1};
  s.batches = {q.batch};
  s.sequence = q.sequence;
  s.architectures = {q.architecture};
  s.counts = {count_parameters(q.architecture)};
  s.law = read_law("mosaic");
  s.top = 1;
  s.record = Record::feasible;
  PlanAxes& axes = s.plan;
  const Stack& stack = q.cluster.stack;
  const std::int64_t devices = q.cluster.devices;
  axes.tp.values = divisors_up_to(devices, static_cast<std::int64_t>(std::min(q.cluster.fabric.levels.front().size, 1e6)));
  axes.cp.values = divisors_up_to(devices, std::max<std::int64_t>(1, q.sequence / kTokensPerContextRank));
  axes.etp.values = std::vector<int>{1};
  if (stack.etp_follows_tp && q.architecture.is_moe()) {
    for (int tp : *axes.tp.values)
      if (tp > 1) axes.etp.values->push_back(tp);
  }
  axes.micro_batch.values = std::vector<int>{};
  for (int b = 1; b <= kLargestMicroBatch; b *= 2) axes.micro_batch.values->push_back(b);
  axes.virtual_stages.values = std::vector<int>{};
  for (int v = 1; v <= kMostVirtualStages; ++v) axes.virtual_stages.values->push_back(v);
  axes.zero.values = stack.zero23_with_pp ? std::vector<int>{0, 1, 2, 3} : std::vector<int>{stack.default_zero};
  axes.precision.values = std::vector<Precision>{q.precision};
  axes.optimizer = q.optimizer;
  for (const auto& text : q.fix) change_axis(axes, text, true);
  for (const auto& text : q.forbid) change_axis(axes, text, false);
  return s;
}

PlanAnswer search_plans(const Space& space, std::size_t top) {
  const auto earlier = [](const RankedPlan& a, const RankedPlan& b) {
    return a.step_seconds != b.step_seconds ? a.step_seconds < b.step_seconds : a.id < b.id;
  };
  PlanAnswer answer;
  std::mutex merge;
  tbb::enumerable_thread_specific<Walker> walkers([&] { return Walker(space); });
  tbb::parallel_for(std::uint64_t{0}, space.units(), [&](std::uint64_t unit) {
    const UnitResult result = walkers.local().run(unit);
    std::vector<RankedPlan> rows(result.columns.size());
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = {result.columns.id[i], result.columns.step_seconds[i]};
    const std::size_t keep = std::min(top, rows.size());
    std::partial_sort(rows.begin(), rows.begin() + std::ptrdiff_t(keep), rows.end(), earlier);
    rows.resize(keep);
    const std::lock_guard lock(merge);
    answer.counts.add(result.counts);
    answer.best.insert(answer.best.end(), rows.begin(), rows.end());
    std::sort(answer.best.begin(), answer.best.end(), earlier);
    if (answer.best.size() > top) answer.best.resize(top);
  });
  return answer;
}

}  // namespace tessera
