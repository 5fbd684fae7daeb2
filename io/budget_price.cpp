#include "io/budget_price.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "io/architecture_fields.hpp"
#include "io/budget_reader.hpp"
#include "io/toml_reader.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

constexpr double kJoulesPerKwh = 3.6e6;
constexpr double kHoursPerDay = 24;

double parse_amount(const std::string& text, const std::string& option) {
  const double value = parse_real(text, option);
  if (value <= 0)
    throw InputError(fmt::format("{} {}", option, text), "a device-hour costs a finite, positive amount",
                     "correct it.");
  return value;
}

/// "5.94", ".5", "-1", "nan": what can only be meant as a number.
bool starts_number(const std::string& text) {
  const std::string start =
      text.substr(text.find_first_not_of("+-") == std::string::npos ? 0 : text.find_first_not_of("+-"));
  return start == "nan" || start == "inf" ||
         (!start.empty() && start.find_first_not_of("0123456789.eE+-") == std::string::npos);
}

std::optional<double> own_rate(const DeviceRate& rate, const std::string& cluster,
                               const std::string& device) {
  for (const std::string& name : {cluster, device})
    if (const auto at = rate.by_name.find(name); at != rate.by_name.end()) return at->second;
  return rate.all;
}

}  // namespace

DeviceRate parse_rate(const std::string& text, const std::string& option) {
  DeviceRate rate;
  std::stringstream parts(text);
  std::string item;
  for (std::string part; std::getline(parts, part, ',');) {
    item += (item.empty() ? "" : ",") + part;
    const std::size_t equals = item.rfind('=');
    if (item == "preset") {
      rate.preset = true;
    } else if (equals == std::string::npos && starts_number(item)) {
      if (rate.all)
        throw InputError(option + " " + text, "two numbers without a name",
                         "say which device each is of: b200=5.94,h100=2.27.");
      rate.all = parse_amount(item, option);
    } else if (equals != std::string::npos && starts_number(item.substr(equals + 1))) {
      if (!rate.by_name.emplace(item.substr(0, equals), parse_amount(item.substr(equals + 1), option)).second)
        throw InputError(option + " " + text, "a name is given twice", "leave one out.");
    } else {
      continue;  // a cluster's name may have commas: "p6-b200,stack=megatron-core-2026=5"
    }
    item.clear();
  }
  if (!item.empty())
    throw InputError(option + " " + item, "no number follows", "write a number, preset, or NAME=NUMBER.");
  if (rate.preset && rate.all)
    throw InputError(option + " " + text, "the number would be for every device, and preset too",
                     "give one of the two.");
  return rate;
}

void check_names(const DeviceRate& rate, const std::string& option, const std::vector<std::string>& known) {
  for (const auto& [name, value] : rate.by_name)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError(fmt::format("{} {}={:g}", option, name, value),
                       "the table has no such device or cluster", suggestion(name, known));
}

DeviceHour device_hour(const DeviceHours& hours, const std::string& cluster, const std::string& device) {
  DeviceHour out;
  out.usd = own_rate(hours.usd, cluster, device);
  out.joules = own_rate(hours.joules, cluster, device);
  if (!out.usd && hours.usd.preset) {
    const Price p = read_price(device);
    out.usd = p.usd_per_device_hour;
    out.notes.push_back(fmt::format("{}: {:g} USD per device-hour on {}, quotations {:g} to {:g} ({}); {}",
                                    p.name, p.usd_per_device_hour, p.date, p.low, p.high, p.evidence,
                                    p.source));
  }
  if (!out.joules && hours.joules.preset) {
    const PowerModel p = read_power(device);
    out.joules = energy_kwh(p, 1) * kJoulesPerKwh;
    out.notes.push_back(fmt::format(
        "{}: {:g} W a device x {:g} load ({:g} to {:g}) x {:g} facility ({:g} to {:g}); watts from {}. {}",
        p.name, p.node_watts_per_device, p.load, p.load_low, p.load_high, p.pue, p.pue_low, p.pue_high,
        p.evidence, p.note));
  }
  return out;
}

double budget_days(BudgetUnit unit, double amount, double devices, const DeviceHour& hour,
                   const std::string& cluster) {
  const auto rate = [&](const std::optional<double>& value, const char* option) {
    if (value) return *value;
    throw InputError(fmt::format("{} has no {}", cluster, option), "the budget is given in it",
                     fmt::format("add it: --{} {}=NUMBER.", option, cluster));
  };
  switch (unit) {
    case BudgetUnit::days:
      return amount;
    case BudgetUnit::device_hours:
      return amount / devices / kHoursPerDay;
    case BudgetUnit::usd:
      return amount / rate(hour.usd, "price") / devices / kHoursPerDay;
    case BudgetUnit::mwh:
      return amount * 1e3 * kJoulesPerKwh / rate(hour.joules, "joules") / devices / kHoursPerDay;
  }
  return amount;
}

}  // namespace tessera
