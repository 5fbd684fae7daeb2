// The table as JSON: everything an answer needs, every number with all its bits.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/architecture_fields.hpp"
#include "io/budget_table_parts.hpp"
#include "io/budget_terms.hpp"
#include "io/law_reader.hpp"
#include "io/plan_text.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Parsed = nlohmann::json;  // sorted keys: an architecture has half a hundred, and each is looked up

constexpr const char* kFormat = "tessera budget table 2";

// --- what turns tokens into effective tokens: one list of members for both directions
// --------------------------

template <class T>
struct Member {
  const char* key;
  double T::*member;
};
constexpr Member<CriticalBatch> kCriticalBatch[] = {
    {"coefficient", &CriticalBatch::coefficient},
    {"exponent", &CriticalBatch::exponent},
    {"reference_coefficient", &CriticalBatch::reference_coefficient},
    {"reference_exponent", &CriticalBatch::reference_exponent},
    {"twenty_percent_coefficient", &CriticalBatch::twenty_percent_coefficient},
    {"twenty_percent_exponent", &CriticalBatch::twenty_percent_exponent},
    {"scale_low", &CriticalBatch::scale_low},
    {"scale_high", &CriticalBatch::scale_high},
    {"tokens_low", &CriticalBatch::tokens_low},
    {"tokens_high", &CriticalBatch::tokens_high},
};
constexpr Member<Repetition> kRepetition[] = {
    {"epochs", &Repetition::epochs},
    {"note_epochs", &Repetition::note_epochs},
    {"warn_epochs", &Repetition::warn_epochs},
    {"text_stock", &Repetition::text_stock},
    {"text_stock_low", &Repetition::text_stock_low},
    {"text_stock_high", &Repetition::text_stock_high},
};

template <class T>
struct TextMember {
  const char* key;
  std::string T::*member;
};
template <class T>
constexpr TextMember<T> kTexts[] = {
    {"name", &T::name}, {"source", &T::source}, {"evidence", &T::evidence}, {"note", &T::note}};

template <class T, std::size_t N>
Json members_json(const T& value, const Member<T> (&members)[N]) {
  Json out;
  for (const auto& [key, member] : kTexts<T>) out[key] = value.*member;
  for (const auto& [key, member] : members) out[key] = value.*member;
  return out;
}

double finite(const Parsed& json) {
  const double value = json.get<double>();  // throws for null, which is how JSON holds NaN
  if (!std::isfinite(value)) throw std::invalid_argument("a number that is not finite");
  return value;
}

double positive(const Parsed& json) {
  const double value = finite(json);
  if (!(value > 0)) throw std::invalid_argument(fmt::format("{} where a positive number belongs", value));
  return value;
}

template <class T, std::size_t N>
T members_from(const Parsed& json, const Member<T> (&members)[N]) {
  T out;
  for (const auto& [key, member] : kTexts<T>) out.*member = json.at(key).template get<std::string>();
  for (const auto& [key, member] : members) out.*member = finite(json.at(key));
  return out;
}

Json value_json(const TokenValue& v) {
  Json out{{"critical_batch", nullptr},
           {"critical_scale", v.critical_scale},
           {"repetition", nullptr},
           {"unique_tokens", v.unique_tokens}};
  if (v.critical_batch) out["critical_batch"] = members_json(*v.critical_batch, kCriticalBatch);
  if (v.repetition) out["repetition"] = members_json(*v.repetition, kRepetition);
  return out;
}

TokenValue value_from(const Parsed& json) {
  TokenValue v;
  if (!json.at("critical_batch").is_null())
    v.critical_batch = members_from(json.at("critical_batch"), kCriticalBatch);
  v.critical_scale = positive(json.at("critical_scale"));
  if (!json.at("repetition").is_null()) v.repetition = members_from(json.at("repetition"), kRepetition);
  v.unique_tokens = finite(json.at("unique_tokens"));
  return v;
}

// --- settings
// ---------------------------------------------------------------------------------------------------

Json bound_json(const std::optional<double>& bound) { return bound ? Json(*bound) : Json(nullptr); }
std::optional<double> bound_from(const Parsed& json) {
  return json.is_null() ? std::nullopt : std::optional<double>(positive(json));
}

Json settings_json(const CertaintySettings& s) {
  return {{"common_time_error", s.common_time_error},
          {"paired_law_sd", s.paired_law_sd},
          {"compressed_slope", s.compressed_slope},
          {"compressed_slope_sd", s.compressed_slope_sd},
          {"sparsity_bands", s.sparsity_bands}};
}

std::vector<double> finite_list(const Parsed& json) {
  std::vector<double> out;
  for (const auto& item : json) out.push_back(finite(item));
  return out;
}

CertaintySettings settings_from(const Parsed& json) {
  return {finite(json.at("common_time_error")), finite(json.at("paired_law_sd")),
          finite(json.at("compressed_slope")), finite(json.at("compressed_slope_sd")),
          finite_list(json.at("sparsity_bands"))};
}

// --- architectures, clusters, candidates
// ------------------------------------------------------------------------

Architecture architecture_from(const Parsed& json, const std::string& where) {
  Architecture a;
  a.name = json.at("name").get<std::string>();
  for (const auto& field : architecture_fields()) {
    const Parsed& value = json.at(field.key == "rung" ? "q" : std::string(field.key));
    set_field(a, field, value.is_string() ? value.get<std::string>() : value.dump(), where);
  }
  check(a);
  return a;
}

Json candidates_json(const std::vector<TableCandidate>& candidates) {
  Json out = Json::array();
  for (const auto& c : candidates)
    out.push_back(Json::array({c.cluster, c.architecture, c.id, to_text(c.plan), c.step_seconds,
                               c.memory_bytes, c.mfu, c.goodput}));
  return out;
}

TableCandidate candidate_from(const Parsed& row) {
  TableCandidate c;
  c.cluster = row.at(0).get<std::uint32_t>();
  c.architecture = row.at(1).get<std::uint32_t>();
  c.id = row.at(2).get<std::uint64_t>();
  c.plan = read_plan_text(row.at(3).get<std::string>(), Plan{}).plan;
  c.step_seconds = positive(row.at(4));
  c.memory_bytes = finite(row.at(5));
  c.mfu = positive(row.at(6));
  c.goodput = positive(row.at(7));
  return c;
}

void read_parts(const Parsed& json, const std::string& name, BudgetTable& t) {
  budgets::read_settings(json, name, t);
  for (const Parsed& c : json.at("clusters"))
    t.clusters.push_back({c.at("name").get<std::string>(), c.at("device").get<std::string>(),
                          c.at("nodes").get<std::int64_t>(), c.at("devices").get<std::int64_t>(),
                          c.at("node_devices").get<std::int64_t>(), positive(c.at("peak_bf16")),
                          finite(c.at("time_error"))});
  for (const Parsed& a : json.at("architectures")) {
    t.architectures.push_back(architecture_from(a, name));
    t.counts.push_back(count_parameters(t.architectures.back()));
  }
  for (const Parsed& row : json.at("candidates")) t.candidates.push_back(candidate_from(row));
  budgets::check_parts(t);
}

}  // namespace

namespace budgets {

Json settings_to_json(const BudgetTable& t) {
  Json out{{"format", kFormat}, {"title", t.title}, {"hash", t.hash}, {"version", t.version}};
  out["units"] = {{"days", "d"},           {"sequence", "tokens"},        {"tokens", "tokens"},
                  {"loss", "nats/token"},  {"regret_nats", "nats/token"}, {"mfu", "fraction"},
                  {"goodput", "fraction"}, {"step_seconds", "s"},         {"memory_bytes", "B"},
                  {"peak_bf16", "FLOP/s"}, {"time_error", "fraction"},    {"device_hours", "h"}};
  out["sequence"] = t.sequence;
  out["days"] = t.days;
  out["law_name"] = t.law.name;
  out["law"] = law_to_toml(t.law);
  out["tokens_per_active_parameter"] = Json::array({bound_json(t.bounds.low), bound_json(t.bounds.high)});
  out["token_value"] = value_json(t.value);
  out["terms"] = terms_json(t.terms);
  out["draws"] = {{"members", t.draws.members}, {"replicates", t.draws.replicates}, {"seed", t.draws.seed}};
  out["certainty"] = settings_json(t.settings);
  return out;
}

void read_settings(const Parsed& json, const std::string& name, BudgetTable& t) {
  t.title = json.at("title").get<std::string>();
  t.hash = json.at("hash").get<std::string>();
  t.version = json.at("version").get<std::string>();
  t.sequence = json.at("sequence").get<std::int64_t>();
  if (t.sequence <= 0) throw std::invalid_argument("a sequence that is not positive");
  t.days = finite_list(json.at("days"));
  t.law = read_law_text(json.at("law").get<std::string>(), name + " (law)");
  t.law.name = json.at("law_name").get<std::string>();
  t.bounds = {bound_from(json.at("tokens_per_active_parameter").at(0)),
              bound_from(json.at("tokens_per_active_parameter").at(1))};
  t.value = value_from(json.at("token_value"));
  t.terms = terms_from_json(json.at("terms"));
  const Parsed& draws = json.at("draws");
  t.draws = {draws.at("members").get<std::int64_t>(), draws.at("replicates").get<std::int64_t>(),
             draws.at("seed").get<std::int64_t>()};
  if (t.draws.members <= 0 || t.draws.replicates <= 0)
    throw std::invalid_argument("draws that are not positive");
  t.settings = settings_from(json.at("certainty"));
}

void check_parts(const BudgetTable& t) {
  for (const TableCluster& c : t.clusters)
    if (c.nodes <= 0 || c.devices <= 0 || c.node_devices <= 0 || !(c.peak > 0))
      throw std::invalid_argument("a cluster without devices");
  for (const TableCandidate& c : t.candidates) {
    if (c.cluster >= t.clusters.size() || c.architecture >= t.architectures.size())
      throw std::invalid_argument("a candidate of a cluster or architecture that is not in the table");
    if (!(c.step_seconds > 0) || !(c.mfu > 0) || !(c.goodput > 0))
      throw std::invalid_argument("a candidate without step time, MFU or goodput");
  }
  if (t.candidates.empty()) throw std::invalid_argument("it has no candidates");
  if (!std::is_sorted(t.candidates.begin(), t.candidates.end(), before))
    throw std::invalid_argument("candidates that are not sorted by cluster, architecture and batch");
}

void not_a_table(const std::string& name, const std::string& why) {
  throw InputError(name + " is no table of tessera", why, "make one with: tessera table RESULTS -o TABLE.h5");
}

}  // namespace budgets

Json table_to_json(const BudgetTable& t) {
  Json out = budgets::settings_to_json(t);
  out["clusters"] = Json::array();
  for (const auto& c : t.clusters)
    out["clusters"].push_back({{"name", c.name},
                               {"device", c.device},
                               {"nodes", c.nodes},
                               {"devices", c.devices},
                               {"node_devices", c.node_devices},
                               {"peak_bf16", c.peak},
                               {"time_error", c.time_error}});
  out["architectures"] = Json::array();
  for (const auto& a : t.architectures) out["architectures"].push_back(architecture_json(a));
  out["candidate_columns"] = {"cluster",      "architecture", "id",  "plan",
                              "step_seconds", "memory_bytes", "mfu", "goodput"};
  out["candidates"] = candidates_json(t.candidates);
  return out;
}

BudgetTable table_from_json(const std::string& text, const std::string& name) {
  // The rows are what a table says, not what it is made from: they are skipped.
  const auto keep = [](int depth, Parsed::parse_event_t event, Parsed& key) {
    return event != Parsed::parse_event_t::key || depth != 1 || key != "rows";
  };
  const Parsed json = Parsed::parse(text, keep, false);
  if (json.is_discarded()) budgets::not_a_table(name, "it is not JSON");
  if (!json.is_object() || !json.contains("format") || !json["format"].is_string())
    budgets::not_a_table(name, "it has no key `format`");
  if (json["format"].get<std::string>() != kFormat)
    budgets::not_a_table(name, fmt::format("its format is '{}', this program reads '{}'",
                                           json["format"].get<std::string>(), kFormat));
  BudgetTable table;
  try {
    read_parts(json, name, table);
  } catch (const InputError& error) {
    throw InputError(name, error);
  } catch (const std::exception& error) {  // of the JSON library, or a value out of range
    budgets::not_a_table(name, fmt::format("damaged: {}", error.what()));
  }
  return table;
}

}  // namespace tessera
