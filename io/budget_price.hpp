// What a device-hour costs in money and energy, and the window that an amount of either pays for.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

/// "5.94" for every device, "preset" for the dated prices or the power model of the presets,
/// "b200=6,h100=2.3" by device or cluster name, or a mixture: "preset,b200=6".
struct DeviceRate {
  std::optional<double> all;
  bool preset = false;
  std::map<std::string, double> by_name;
  bool given() const { return all || preset || !by_name.empty(); }
};
/// Throws InputError naming the option: no number, not positive, not finite, a name given twice.
DeviceRate parse_rate(const std::string& text, const std::string& option);
/// Throws InputError where a rate is by a name that is not among `known`.
void check_names(const DeviceRate&, const std::string& option, const std::vector<std::string>& known);

struct DeviceHours {
  DeviceRate usd;     ///< [USD per device-hour]
  DeviceRate joules;  ///< [J per device-hour], of the facility
};

/// Of one device; nothing where it is not known.
struct DeviceHour {
  std::optional<double> usd;       ///< [USD]
  std::optional<double> joules;    ///< [J]
  std::vector<std::string> notes;  ///< date, source and weakness of what comes from presets
};
/// Throws InputError where a preset is asked for that has no such device.
DeviceHour device_hour(const DeviceHours&, const std::string& cluster, const std::string& device);

/// What a budget is given in.
enum class BudgetUnit { days, device_hours, usd, mwh };
/// Days on `devices` devices that `amount` pays for. Throws InputError where the rate is missing.
double budget_days(BudgetUnit, double amount, double devices, const DeviceHour&, const std::string& cluster);

}  // namespace tessera
