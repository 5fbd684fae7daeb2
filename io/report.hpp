// A results.h5 as one page for people who would rather look than read: the answer and its certainty on top,
// then charts with filters, each with its table. One self-contained HTML file: style, script, chart library
// (Apache ECharts, its licence kept in the page) and data are inside, and the page's own policy forbids any
// request.
//
// What the charts need beyond the file is computed again from the study it holds: every architecture's row in
// each envelope, the certainty of the choice, the step and memory of the best plans part by part, and the map
// of MFU over pp x ep for a few architectures. Same file, same page, byte for byte.
#pragma once
#include <cstddef>
#include <string>

#include "io/results_reader.hpp"

namespace tessera {

/// What goes into the page, and how much at most: a page is to stay below 5 MB with the chart library's 1.1
/// MB.
struct ReportLimits {
  std::size_t rows = 24000;     ///< candidates over all envelopes; the best of each are kept
  std::size_t breakdowns = 10;  ///< best plans of an envelope shown part by part
  std::size_t maps = 5;         ///< best architectures of an envelope with a map over pp x ep
  std::size_t most_maps = 60;   ///< maps in all
};

/// The data of the page as JSON text (no '<' in it). Throws InputError where the study of the file cannot be
/// made again.
std::string report_data(const ResultsReader&, const ReportLimits& = {});

/// The page. Throws InputError where this build has no chart library (io/report/README says how to get it).
std::string report_page(const ResultsReader&, const ReportLimits& = {});

}  // namespace tessera
