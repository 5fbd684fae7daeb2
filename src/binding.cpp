#include "src/binding.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "tessera/units.hpp"

namespace tessera {
namespace {

struct Traffic {
  const char* name;
  double seconds;
  std::int64_t reach;  ///< devices from the first to the last of a group, in rank order (tp, cp, dp, pp; experts: etp, ep)
};

Traffic largest_traffic(const TimeBreakdown& t, const Plan& p) {
  const std::int64_t tp = p.tp, cp = tp * p.cp, dp = cp * p.dp, pp = dp * p.pp, experts = std::int64_t{1} * p.ep * p.etp;
  const std::array<Traffic, 5> all{{{"tensor parallelism", t.tensor_parallel, tp},
                                    {"context parallelism", t.context_parallel, cp},
                                    {"expert exchange", t.expert_exchange, experts},
                                    {"data parallelism", t.data_parallel, dp},
                                    {"stage to stage", t.point_to_point, pp}}};
  return *std::max_element(all.begin(), all.end(), [](const Traffic& a, const Traffic& b) { return a.seconds < b.seconds; });
}

/// The innermost level whose domain holds the whole group.
std::string level_of(const Fabric& f, std::int64_t reach) {
  for (const FabricLevel& level : f.levels)
    if (level.size >= static_cast<double>(reach)) return level.name;
  return f.levels.back().name;
}

}  // namespace

Binding binding_of(const StepCost& c, const Plan& p, const Fabric& f) {
  const Traffic traffic = largest_traffic(c.time, p);
  std::vector<std::pair<std::string, double>> parts{{"compute", c.time.compute()},
                                                    {"network", c.time.communication()},
                                                    {"host", c.time.host + c.time.fixed + c.time.jitter},
                                                    {"pipeline ramp", c.time.ramp}};
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  Binding out;
  if (!c.fits()) out.text = fmt::format("memory ({:.2f} GiB too little)\n  of the time: ", (c.memory_with_reserve_bytes - c.capacity_bytes) / kGiB);
  for (const auto& [name, seconds] : parts) {
    if (seconds <= 0) continue;
    out.text += fmt::format("{}{} {:.1f} %", &seconds == &parts.front().second ? "" : ", ", name, 100 * seconds / c.step_seconds);
    if (name == "network") out.text += fmt::format(" (most of it {} over {})", traffic.name, level_of(f, traffic.reach));
  }
  out.part = c.fits() ? parts.front().first : "memory";
  if (out.part == "network") out.level = level_of(f, traffic.reach);
  return out;
}

}  // namespace tessera
