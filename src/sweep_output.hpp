// What a sweep says: the JSON object, the tables for a person, and the sentence when nothing fits.
#pragma once
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "tessera/space.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

/// The object of `sweep --json` (design: architectures points evaluations feasible refused{} seconds ... top[]).
nlohmann::ordered_json sweep_json(const Study&, const Space&, const SweepResult&);
/// One row of top[].
nlohmann::ordered_json top_row_json(const Study&, const TopRow&);
nlohmann::ordered_json plan_json(const Plan&);

/// Counts, then one table per envelope of its ten best; at most 100 columns wide.
std::string sweep_table(const Study&, const SweepResult&);

/// A number of nodes on which something fits, and whether it is the smallest or the first among doublings.
struct FittingNodes {
  std::int64_t nodes = 0;
  bool smallest = false;
};
/// For the cluster of the closest miss; nothing if there is no miss or nothing fits on any doubling.
std::optional<FittingNodes> nodes_that_fit(const Study&, const Space&, const SweepResult&);

/// Why nothing fits: counts by rule, the closest miss and its bytes, the number of nodes that would fit.
std::string nothing_fits_text(const Space&, const SweepResult&, std::optional<FittingNodes>);
nlohmann::ordered_json closest_miss_json(const Study&, const Space&, const SweepResult&, std::optional<FittingNodes>);

/// "tp 1 pp 8 ep 8 mb 4 selective": degrees of 1 and defaults left out.
std::string short_plan(const Plan&);
/// "1,092"
std::string grouped(std::uint64_t);
/// "0123456789abcdef"
std::string signature_text(std::uint64_t);

}  // namespace tessera
