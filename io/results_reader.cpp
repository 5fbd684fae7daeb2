#include "io/results_reader.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "io/architecture_fields.hpp"
#include "io/result_tables.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

[[noreturn]] void damaged(const Hdf5Reader& file, const std::string& what) {
  throw InputError(file.path() + " is damaged", what, "run the sweep again, or finish it with: tessera merge DIR");
}

/// Columns of one group, all of one length, checked as they are read.
class Group {
 public:
  Group(const Hdf5Reader& file, std::string name, const std::string& first) : file_(&file), name_(std::move(name)), rows_(file.rows(path(first))) {}

  std::uint64_t rows() const { return rows_; }

  std::vector<double> reals(const std::string& column) const {
    auto values = file_->numbers(same(column));
    for (const double value : values)
      if (!std::isfinite(value)) damaged(*file_, path(column) + " holds a value that is no finite number");
    return values;
  }
  std::vector<std::int64_t> wholes(const std::string& column, std::int64_t low, std::int64_t high) const {
    auto values = file_->integers(same(column));
    for (const std::int64_t value : values)
      if (value < low || value > high) damaged(*file_, fmt::format("{} holds {}, outside {} .. {}", path(column), value, low, high));
    return values;
  }
  /// Indices into a table of `size` rows.
  std::vector<std::int64_t> indices(const std::string& column, std::size_t size) const {
    return wholes(column, 0, static_cast<std::int64_t>(size) - 1);
  }
  std::vector<std::uint64_t> ids(const std::string& column) const {
    std::vector<std::uint64_t> values(rows_);
    file_->read(same(column), 0, std::span<std::uint64_t>(values));
    return values;
  }
  std::vector<std::string> texts(const std::string& column) const { return file_->texts(same(column)); }
  template <class T>
  std::vector<T> words(const std::string& column, std::optional<T> (*from)(std::string_view)) const {
    std::vector<T> values;
    for (const auto& text : texts(column)) {
      const auto value = from(text);
      if (!value) damaged(*file_, fmt::format("{} holds the unknown word '{}'", path(column), text));
      values.push_back(*value);
    }
    return values;
  }

 private:
  std::string path(const std::string& column) const { return name_ + "/" + column; }
  std::string same(const std::string& column) const {
    if (file_->rows(path(column)) != rows_) damaged(*file_, path(column) + " has another length than its neighbours");
    return path(column);
  }
  const Hdf5Reader* file_;
  std::string name_;
  std::uint64_t rows_;
};

constexpr std::int64_t kLargest = std::int64_t{1} << 62;
constexpr std::int64_t kMostDegree = std::int64_t{1} << 30;

template <class Rows, class Values, class Set>
void fill(Rows& rows, const Values& values, Set set) {
  for (std::size_t i = 0; i < rows.size(); ++i) set(rows[i], values[i]);
}

void read_study(const Hdf5Reader& file, Results& r) {
  if (!file.has_attribute("/study", "format"))
    throw InputError(file.path() + " holds no results of tessera", "it has no /study with an attribute `format`", "give the results.h5 of a sweep.");
  const std::int64_t format = file.integer_attribute("/study", "format");
  if (format != kResultsFormat)
    throw InputError(fmt::format("{} has format {}", file.path(), format), fmt::format("this program reads format {}", kResultsFormat),
                     "read it with the version of tessera that wrote it, or run the sweep again.");
  for (const auto& [name, member] : {std::pair{"title", &Results::title}, {"hash", &Results::hash}, {"version", &Results::version},
                                     {"record", &Results::record}, {"search", &Results::search}, {"law", &Results::law},
                                     {"optimizer", &Results::optimizer}, {"signature", &Results::signature}})
    r.*member = file.text_attribute("/study", name);
  r.sequence = file.integer_attribute("/study", "sequence");
  for (const auto& [name, member] : {std::pair{"points", &Results::points}, {"legal", &Results::legal}, {"evaluations", &Results::evaluations},
                                     {"feasible", &Results::feasible}}) {
    const std::int64_t value = file.integer_attribute("/study", name);
    if (value < 0) damaged(file, fmt::format("/study has a negative number of {}", name));
    r.*member = static_cast<std::uint64_t>(value);
  }
  const auto input = file.texts("/study/input");
  if (input.size() != 1) damaged(file, "/study/input is not one text");
  r.source = input.front();
  r.days = Group(file, "/study", "days").reals("days");
  r.batches = Group(file, "/study", "batches").wholes("batches", 1, kLargest);
  const Group presets(file, "/study/presets", "kind");
  r.presets.resize(presets.rows());
  fill(r.presets, presets.texts("kind"), [](StoredPreset& p, const std::string& v) { p.kind = v; });
  fill(r.presets, presets.texts("name"), [](StoredPreset& p, const std::string& v) { p.name = v; });
  fill(r.presets, presets.texts("hash"), [](StoredPreset& p, const std::string& v) { p.hash = v; });
  fill(r.presets, presets.texts("text"), [](StoredPreset& p, const std::string& v) { p.text = v; });
}

void read_clusters(const Hdf5Reader& file, Results& r) {
  const Group g(file, "/clusters", "name");
  r.clusters.resize(g.rows());
  for (const auto& [name, member] : {std::pair{"name", &StoredCluster::name}, {"device", &StoredCluster::device}, {"fabric", &StoredCluster::fabric},
                                     {"stack", &StoredCluster::stack}})
    fill(r.clusters, g.texts(name), [m = member](StoredCluster& c, const std::string& v) { c.*m = v; });
  for (const auto& [name, member] : {std::pair{"devices", &StoredCluster::devices}, {"nodes", &StoredCluster::nodes},
                                     {"node_devices", &StoredCluster::node_devices}})
    fill(r.clusters, g.wholes(name, 1, kLargest), [m = member](StoredCluster& c, std::int64_t v) { c.*m = v; });
  fill(r.clusters, g.reals("memory_cap_bytes"), [](StoredCluster& c, double v) { c.memory_cap_bytes = v; });
  fill(r.clusters, g.reals("peak_bf16"), [](StoredCluster& c, double v) { c.peak_bf16 = v; });
}

struct FieldReader {
  const Group& g;
  std::vector<Architecture>& list;
  std::string key;
  void operator()(std::int64_t Architecture::*m) const {
    fill(list, g.wholes(key, 0, kLargest), [m](Architecture& a, std::int64_t v) { a.*m = v; });
  }
  void operator()(double Architecture::*m) const {
    fill(list, g.reals(key), [m](Architecture& a, double v) { a.*m = v; });
  }
  void operator()(bool Architecture::*m) const {
    fill(list, g.wholes(key, 0, 1), [m](Architecture& a, std::int64_t v) { a.*m = v != 0; });
  }
  template <class Text>
  void operator()(Text Architecture::*) const {
    const ArchitectureField& field = *architecture_field(key);
    fill(list, g.texts(key), [&](Architecture& a, const std::string& v) { set_field(a, field, v, "/architectures/" + key); });
  }
};

void read_architectures(const Hdf5Reader& file, Results& r) {
  const Group g(file, "/architectures", "name");
  r.architectures.resize(g.rows());
  r.counts.resize(g.rows());
  fill(r.architectures, g.texts("name"), [](Architecture& a, const std::string& v) { a.name = v; });
  for (const auto& field : architecture_fields()) std::visit(FieldReader{g, r.architectures, std::string(field.key)}, field.member);
  for (std::size_t i = 0; i < r.architectures.size(); ++i) r.counts[i] = count_parameters(r.architectures[i]);
  // The stored counts are what readers without this program see: they must be the ones the geometry gives.
  const auto total = g.wholes("non_embedding_total", 0, kLargest), active = g.wholes("non_embedding_active", 0, kLargest);
  for (std::size_t i = 0; i < r.counts.size(); ++i)
    if (r.counts[i].non_embedding_total != total[i] || r.counts[i].non_embedding_active != active[i])
      damaged(file, "the counts of " + r.architectures[i].name + " do not belong to its geometry");
}

template <class Rows, class GetPlan>
void read_plans(const Group& g, Rows& rows, Optimizer optimizer, GetPlan plan) {
  fill(rows, g.wholes("global_batch", 1, kLargest), [&](auto& r, std::int64_t v) { plan(r).batch = v; });
  for (const auto& [name, member] : {std::pair{"tp", &Plan::tp}, {"cp", &Plan::cp}, {"pp", &Plan::pp}, {"dp", &Plan::dp}, {"ep", &Plan::ep},
                                     {"etp", &Plan::etp}, {"virtual_stages", &Plan::virtual_stages}, {"micro_batch", &Plan::micro_batch}})
    fill(rows, g.wholes(name, 1, kMostDegree), [&, m = member](auto& r, std::int64_t v) { plan(r).*m = static_cast<int>(v); });
  fill(rows, g.wholes("zero", 0, 3), [&](auto& r, std::int64_t v) { plan(r).zero = static_cast<int>(v); });
  fill(rows, g.words("recompute", recompute_from), [&](auto& r, Recompute v) { plan(r).recompute = v; });
  fill(rows, g.words("schedule", schedule_from), [&](auto& r, Schedule v) { plan(r).schedule = v; });
  fill(rows, g.words("precision", precision_from), [&](auto& r, Precision v) { plan(r).precision = v; });
  for (auto& row : rows) plan(row).optimizer = optimizer;
}

template <class Row, class Rows, class GetRow>
void read_costs(const Group& g, Rows& rows, const Results& results, GetRow row) {
  fill(rows, g.indices("cluster", results.clusters.size()), [&](auto& r, std::int64_t v) { row(r).cluster = static_cast<std::uint32_t>(v); });
  fill(rows, g.indices("batch", results.batches.size()), [&](auto& r, std::int64_t v) { row(r).batch = static_cast<std::uint32_t>(v); });
  fill(rows, g.indices("architecture", results.architectures.size()),
       [&](auto& r, std::int64_t v) { row(r).architecture = static_cast<std::uint32_t>(v); });
  fill(rows, g.ids("id"), [&](auto& r, std::uint64_t v) { row(r).id = v; });
  for (const auto& [name, member] :
       {std::pair{"step_seconds", &Row::step_seconds}, {"memory_bytes", &Row::memory_bytes}, {"memory_with_reserve_bytes", &Row::memory_with_reserve_bytes},
        {"compute_seconds", &Row::compute_seconds}, {"communication_seconds", &Row::communication_seconds}, {"ramp_seconds", &Row::ramp_seconds},
        {"host_seconds", &Row::host_seconds}})
    fill(rows, g.reals(name), [&, m = member](auto& r, double v) { row(r).*m = v; });
}

void read_best(const Hdf5Reader& file, Results& r, Optimizer optimizer) {
  const Group g(file, "/best", "id");
  r.best.resize(g.rows());
  read_costs<BestRow>(g, r.best, r, [](StoredBest& b) -> BestRow& { return b.row; });
  read_plans(g, r.best, optimizer, [](StoredBest& b) -> Plan& { return b.plan; });
  fill(r.best, g.wholes("feasible", 0, 1), [](StoredBest& b, std::int64_t v) { b.row.feasible = static_cast<std::uint32_t>(v); });
  fill(r.best, g.reals("mfu"), [](StoredBest& b, double v) { b.mfu = v; });
}

void read_top(const Hdf5Reader& file, Results& r, Optimizer optimizer) {
  const Group g(file, "/top", "id");
  r.top.resize(g.rows());
  read_costs<TopRow>(g, r.top, r, [](TopRow& t) -> TopRow& { return t; });
  read_plans(g, r.top, optimizer, [](TopRow& t) -> Plan& { return t.plan; });
  fill(r.top, g.wholes("rank", 1, kLargest), [](TopRow& t, std::int64_t v) { t.rank = v; });
  fill(r.top, g.wholes("tokens_cut", 0, 1), [](TopRow& t, std::int64_t v) { t.tokens_cut = v != 0; });
  for (const auto& [name, member] :
       {std::pair{"window_days", &TopRow::window_days}, {"mfu", &TopRow::mfu}, {"goodput", &TopRow::goodput}, {"tokens", &TopRow::tokens},
        {"tokens_per_active_parameter", &TopRow::tokens_per_active_parameter}, {"model_flops", &TopRow::model_flops}, {"loss", &TopRow::loss}})
    fill(r.top, g.reals(name), [m = member](TopRow& t, double v) { t.*m = v; });
}

void read_envelopes(const Hdf5Reader& file, Results& r) {
  const Group g(file, "/envelopes", "cluster");
  r.envelopes.resize(g.rows());
  fill(r.envelopes, g.indices("cluster", r.clusters.size()), [](EnvelopeCounts& e, std::int64_t v) { e.cluster = static_cast<std::uint32_t>(v); });
  fill(r.envelopes, g.reals("window_days"), [](EnvelopeCounts& e, double v) { e.window_days = v; });
  fill(r.envelopes, g.ids("ranked"), [](EnvelopeCounts& e, std::uint64_t v) { e.ranked = v; });
  fill(r.envelopes, g.ids("nothing_fits"), [](EnvelopeCounts& e, std::uint64_t v) { e.nothing_fits = v; });
  fill(r.envelopes, g.ids("over_limits"), [](EnvelopeCounts& e, std::uint64_t v) { e.over_limits = v; });
  fill(r.envelopes, g.ids("too_few_tokens"), [](EnvelopeCounts& e, std::uint64_t v) { e.too_few_tokens = v; });
  fill(r.envelopes, g.ids("outside_law"), [](EnvelopeCounts& e, std::uint64_t v) { e.outside_law = v; });
}

void read_refused(const Hdf5Reader& file, Results& r) {
  r.totals.points = r.points;
  r.totals.evaluations = r.evaluations;
  r.totals.feasible = r.feasible;
  const Group g(file, "/refused", "reason");
  const auto names = g.texts("reason");
  const auto count = g.ids("count"), sample = g.ids("sample_id");
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::size_t reason = 1;
    while (reason < kReasonCount && to_string(static_cast<Reason>(reason)) != names[i]) ++reason;
    if (reason == kReasonCount) damaged(file, "/refused/reason holds the unknown word '" + names[i] + "'");
    r.totals.refused[reason] = count[i];
    r.totals.sample[reason] = sample[i];
  }
  const Group miss(file, "/refused/closest_miss", "id");
  if (miss.rows() > 0) r.totals.miss = {miss.ids("id")[0], miss.reals("excess_bytes")[0], miss.reals("memory_with_reserve_bytes")[0]};
}

}  // namespace

ResultsReader::ResultsReader(const std::string& path) : file_(path) {
  read_study(file_, results_);
  const auto optimizer = optimizer_from(results_.optimizer);
  if (!optimizer) damaged(file_, "/study has the unknown optimizer '" + results_.optimizer + "'");
  read_clusters(file_, results_);
  try {
    read_architectures(file_, results_);
  } catch (const InputError& error) {
    throw InputError(path, error);
  }
  read_best(file_, results_, *optimizer);
  read_top(file_, results_, *optimizer);
  read_envelopes(file_, results_);
  read_refused(file_, results_);
  rows_ = file_.rows("/evaluations/id");
}

Columns ResultsReader::evaluations(std::uint64_t first, std::uint64_t count) const {
  Columns c;
  c.id.resize(count);
  c.status.resize(count);
  file_.read("/evaluations/id", first, std::span<std::uint64_t>(c.id));
  file_.read("/evaluations/status", first, std::span<std::uint8_t>(c.status));
  std::vector<double> values(count);
  for (const auto& [name, column] :
       {std::pair{"step_seconds", &c.step_seconds}, {"memory_bytes", &c.memory_bytes}, {"compute_seconds", &c.compute_seconds},
        {"communication_seconds", &c.communication_seconds}, {"ramp_seconds", &c.ramp_seconds}, {"host_seconds", &c.host_seconds}}) {
    evaluation_column(name, first, values);
    column->assign(values.begin(), values.end());
  }
  return c;
}

void ResultsReader::evaluation_column(const std::string& name, std::uint64_t first, std::span<double> out) const {
  file_.read("/evaluations/" + name, first, out);
}

std::optional<Columns> ResultsReader::evaluation(std::uint64_t id) const {
  std::uint64_t low = 0, high = rows_;
  while (low < high) {
    const std::uint64_t middle = low + (high - low) / 2;
    std::uint64_t found = 0;
    file_.read("/evaluations/id", middle, std::span<std::uint64_t>(&found, 1));
    if (found == id) return evaluations(middle, 1);
    if (found < id) low = middle + 1;
    else high = middle;
  }
  return std::nullopt;
}

}  // namespace tessera
