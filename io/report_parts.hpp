// Pieces of the report's data, each from plain values: shared by the files of the report only.
#pragma once
#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/space.hpp"
#include "tessera/sweep.hpp"

namespace tessera::reporting {

using Json = nlohmann::ordered_json;

/// A number with as many significant digits as a chart can show; NaN and infinity become null.
Json rounded(double value, int digits = 5);

/// "q12 E256 K1 G4", further keys of the ladder as "layers=q*6" behind it; other architectures by their name.
std::string short_name(const Architecture&);
/// "tp 2 pp 8 ep 16 mb 2 selective": degrees of 1 and defaults left out.
std::string short_plan(const Plan&);

/// How sure the choice among the rows of an envelope is: drawn over the law's ensemble and the step-time
/// error. {draws, members, time_error, common_time_error, choice, nominal, near_ties, ninety, law_only{...},
/// time_only{...}, rows[{row, probability, regret, low, high}]}; `row` counts from 0 in `rows`.
Json certainty(const Study&, const std::vector<TopRow>& rows, double time_error);

/// Seconds and bytes of a plan, part by part: {label, seconds{}, bytes{}, capacity, ...}.
Json breakdown(const Study&, const TopRow&);

/// Best law MFU over pp x ep for one architecture on one cluster and batch, every other axis free:
/// {pp[], ep[], cells[[pp index, ep index, mfu or null, GiB, plan]]}; null: legal plans, none of which fits.
Json mesh_map(const Study&, std::uint32_t cluster, std::uint32_t batch, std::uint32_t architecture);

/// Largest part of a relative error: the expected error of a predicted step time on this cluster.
double expected_time_error(const Study&, const TopRow&);

}  // namespace tessera::reporting

namespace tessera {

/// Files of io/report and the chart library, compiled in (cmake/embed_report.cmake). Empty library: not found
/// when this build was configured.
struct EmbeddedReport {
  struct Licence {
    std::string_view project, notice, text;
  };
  std::string_view page, style, script, library;
  std::array<Licence, 4> licences;
};
const EmbeddedReport& embedded_report();

}  // namespace tessera
