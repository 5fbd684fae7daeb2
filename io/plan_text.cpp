#include "io/plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "io/toml_reader.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::int64_t integer_value(std::string_view key, std::string_view value, std::int64_t least,
                           std::int64_t most) {
  std::int64_t number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc() || end != value.data() + value.size())
    throw InputError(fmt::format("plan: {} = '{}'", key, value), "it is not a whole number",
                     fmt::format("write for example {}={}.", key, std::max<std::int64_t>(least, 1)));
  if (number < least || number > most)
    throw InputError(fmt::format("plan: {} = {}", key, number),
                     fmt::format("it must be between {} and {}", least, most), "give a value in that range.");
  return number;
}

int degree(std::string_view key, std::string_view value) {
  return static_cast<int>(integer_value(key, value, 1, std::numeric_limits<int>::max()));
}

template <class T>
T word(std::string_view key, std::string_view value, std::optional<T> parsed,
       std::vector<std::string> known) {
  if (parsed) return *parsed;
  throw InputError(fmt::format("plan: {} = '{}'", key, value), "there is no such value",
                   suggestion(value, known));
}

template <class T>
std::vector<std::string> words(std::initializer_list<T> values) {
  std::vector<std::string> all;
  for (const T value : values) all.emplace_back(to_string(value));
  return all;
}

void set_word(Plan& plan, std::string_view key, std::string_view value) {
  if (key == "schedule")
    plan.schedule =
        word(key, value, schedule_from(value),
             words({Schedule::one_f_one_b, Schedule::interleaved, Schedule::zb_h1, Schedule::dualpipe}));
  else if (key == "recompute")
    plan.recompute =
        word(key, value, recompute_from(value),
             words({Recompute::none, Recompute::selective, Recompute::super_selective, Recompute::full}));
  else if (key == "precision")
    plan.precision = word(key, value, precision_from(value),
                          words({Precision::bf16, Precision::fp8, Precision::mxfp8, Precision::nvfp4}));
  else
    plan.optimizer =
        word(key, value, optimizer_from(value), words({Optimizer::adam, Optimizer::muon, Optimizer::scion}));
}

void set_key(Plan& plan, std::string_view key, std::string_view value) {
  if (key == "tp")
    plan.tp = degree(key, value);
  else if (key == "cp")
    plan.cp = degree(key, value);
  else if (key == "pp")
    plan.pp = degree(key, value);
  else if (key == "dp")
    plan.dp = degree(key, value);
  else if (key == "ep")
    plan.ep = degree(key, value);
  else if (key == "etp")
    plan.etp = degree(key, value);
  else if (key == "virtual_stages")
    plan.virtual_stages = degree(key, value);
  else if (key == "micro_batch")
    plan.micro_batch = degree(key, value);
  else if (key == "batch")
    plan.batch = integer_value(key, value, 1, std::int64_t{1} << 40);
  else if (key == "zero")
    plan.zero = static_cast<int>(integer_value(key, value, 0, 3));
  else
    set_word(plan, key, value);
}

}  // namespace

const std::vector<std::string>& plan_keys() {
  static const std::vector<std::string> keys{
      "batch",          "tp",          "cp",        "pp",   "dp",       "ep",        "etp",
      "virtual_stages", "micro_batch", "recompute", "zero", "schedule", "precision", "optimizer"};
  return keys;
}

bool PlanText::has(const std::string& key) const {
  return std::find(given.begin(), given.end(), key) != given.end();
}

PlanText read_plan_text(const std::string& text, const Plan& defaults) {
  PlanText result{defaults, {}};
  std::string_view rest = trim(text);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    const std::string_view item = trim(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    if (item.empty()) continue;  // "tp=2," and "tp=2,,pp=4" leave nothing in doubt
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos)
      throw InputError(fmt::format("plan: '{}'", item), "it is not of the form key=value",
                       "write for example tp=1,pp=8,ep=32.");
    const std::string key(trim(item.substr(0, equals)));
    if (std::find(plan_keys().begin(), plan_keys().end(), key) == plan_keys().end())
      throw InputError(fmt::format("plan: unknown key '{}'", key), "a plan has no such part",
                       suggestion(key, plan_keys()));
    if (result.has(key))
      throw InputError(fmt::format("plan: '{}' is given twice", key), "it can have one value only",
                       "leave one out.");
    set_key(result.plan, key, trim(item.substr(equals + 1)));
    result.given.push_back(key);
  }
  return result;
}

Plan parse_plan(const std::string& text, const Plan& defaults, std::int64_t devices, bool etp_follows_tp) {
  PlanText read = read_plan_text(text, defaults);
  Plan& plan = read.plan;
  if (plan.virtual_stages > 1 && !read.has("schedule")) plan.schedule = Schedule::interleaved;
  if (etp_follows_tp && !read.has("etp")) plan.etp = plan.tp;
  if (devices > 0 && !read.has("dp")) {
    // Three degrees below 2^31 each can pass 2^63: divide one by one instead of multiplying.
    std::int64_t left = devices;
    for (const auto& [name, value] : {std::pair{"pp", plan.pp}, {"cp", plan.cp}, {"tp", plan.tp}}) {
      if (left % value != 0)
        throw InputError(
            fmt::format("plan: tp={} x cp={} x pp={} on {} devices", plan.tp, plan.cp, plan.pp, devices),
            fmt::format("{} does not divide what is left ({}), so dp would not be whole", name, left),
            "change a degree, the number of devices, or give dp.");
      left /= value;
    }
    plan.dp = static_cast<int>(left);
  }
  return plan;
}

std::string to_text(const Plan& plan) {
  const std::string batch = plan.batch > 0 ? fmt::format("batch={},", plan.batch) : "";  // 0: not chosen yet
  return batch + fmt::format(
                     "tp={},cp={},pp={},dp={},ep={},etp={},virtual_stages={},micro_batch={},recompute={},"
                     "zero={},schedule={},precision={},optimizer={}",
                     plan.tp, plan.cp, plan.pp, plan.dp, plan.ep, plan.etp, plan.virtual_stages,
                     plan.micro_batch, to_string(plan.recompute), plan.zero, to_string(plan.schedule),
                     to_string(plan.precision), to_string(plan.optimizer));
}

}  // namespace tessera
