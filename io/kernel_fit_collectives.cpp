// Link constants from timed collectives. Forms: moe-step-time note, section 2.5. x: bytes of a rank's buffer, g ranks, of which w in a node.
//   all-to-all inside:  latency + (x/g)/copy + x (g-1)/g / rate * (1 + half/(x/g + half))
//   all-to-all across:  latency + peer (g-w) + x (g-w)/g / rate
//   rings:              latency + hop (g-1) + k x (g-1)/g / rate * (1 + half/(x/g + half)), k = 2 for an all-reduce
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "io/kernel_fit_table.hpp"
#include "tessera/error.hpp"

namespace tessera {

std::string_view to_string(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_to_all: return "all-to-all";
    case CollectiveKind::all_gather: return "all-gather";
    case CollectiveKind::reduce_scatter: return "reduce-scatter";
    case CollectiveKind::all_reduce: return "all-reduce";
    case CollectiveKind::point_to_point: return "point-to-point";
  }
  return "";
}

namespace {

enum class Reach { inside, across, strided };

Reach reach_of(const CollectiveCell& c) {
  if (c.nodes <= 1) return Reach::inside;
  return c.ranks > c.nodes ? Reach::across : Reach::strided;
}

double members(const CollectiveCell& c) { return c.ranks / c.nodes; }
double outgoing(const CollectiveCell& c) { return c.bytes * (c.ranks - 1) / c.ranks; }

CellSeconds seconds_of(const std::vector<CollectiveCell>& cells, CollectiveKind kind, Reach reach) {
  const double volume = kind == CollectiveKind::all_reduce ? 2 : 1;
  if (kind == CollectiveKind::all_to_all && reach == Reach::inside)
    return [&cells](std::span<const double> t, std::size_t i) {
      const CollectiveCell& c = cells[i];
      const double message = c.bytes / c.ranks;
      return t[0] + message / t[2] + outgoing(c) / t[1] * (1 + t[3] / (message + t[3]));
    };
  if (kind == CollectiveKind::all_to_all)
    return [&cells](std::span<const double> t, std::size_t i) {
      const CollectiveCell& c = cells[i];
      const double peers = c.ranks - members(c);
      return t[0] + t[1] * peers + c.bytes * peers / c.ranks / t[2];
    };
  if (kind == CollectiveKind::point_to_point)
    return [&cells](std::span<const double> t, std::size_t i) { return t[0] + cells[i].bytes / t[1]; };
  if (reach == Reach::strided)
    return [&cells, volume](std::span<const double> t, std::size_t i) { return t[0] + volume * outgoing(cells[i]) / t[1]; };
  return [&cells, volume](std::span<const double> t, std::size_t i) {
    const CollectiveCell& c = cells[i];
    const double message = c.bytes / c.ranks;
    return t[0] + t[1] * (c.ranks - 1) + volume * outgoing(c) / t[2] * (1 + t[3] / (message + t[3]));
  };
}

const char* form_of(CollectiveKind kind, Reach reach) {
  if (kind == CollectiveKind::all_to_all) return reach == Reach::inside ? "all_to_all_inside" : "all_to_all_across";
  return reach == Reach::strided || kind == CollectiveKind::point_to_point ? "strided_ring" : "ring";
}

std::string where(Reach reach) { return reach == Reach::inside ? "inside a node" : reach == Reach::across ? "across whole nodes" : "one rank a node"; }

// A cell far from the form that took longer than a larger message of its group is a fault of the measurement: no rate can come
// from it. Far cells in order are the library's change of protocol and stay.
bool outlier(const std::vector<CollectiveCell>& cells, const Cells& fitted, std::size_t i) {
  constexpr double kFar = 0.35;  // of the logarithm
  if (std::abs(std::log(fitted.predicted[i] / fitted.measured[i])) < kFar) return false;
  const CollectiveCell& c = cells[i];
  return std::any_of(cells.begin(), cells.end(), [&](const CollectiveCell& other) {
    return other.ranks == c.ranks && other.nodes == c.nodes && (other.bytes - c.bytes) * (other.seconds - c.seconds) < 0;
  });
}

struct LinkFit {
  TableFit fit;
  CollectiveKind kind;
  Reach reach;
  double lanes = 1;  ///< links that a rank's traffic shares the nodes' boundary with: rate / (lanes * line rate) is the share
};

Cells cells_of(const std::vector<CollectiveCell>& cells) {
  Cells out;
  std::set<std::uint64_t> sizes;
  for (const auto& c : cells) {
    out.add(c.seconds, static_cast<std::uint64_t>(c.ranks));
    sizes.insert(out.family.back());
  }
  // Fewer than three group sizes are too few families for an interval: cells stand for themselves.
  if (sizes.size() < 3)
    for (std::size_t i = 0; i < cells.size(); ++i) out.family[i] = i;
  return out;
}

std::string names_of(const std::vector<CollectiveCell>& cells) {
  std::set<std::string> files;
  for (const auto& c : cells) files.insert(base_name(c.file));
  std::string out;
  for (const auto& file : files) out += (out.empty() ? "" : " + ") + file;
  return out;
}

LinkFit fit_group(CollectiveKind kind, Reach reach, const std::vector<CollectiveCell>& all, const std::string& more) {
  constexpr double kLong = 64e6, kLonger = 256e6;  // bytes from which rates, not protocols, decide
  const std::string what = fmt::format("{} {}{}", to_string(kind), where(reach), more);
  const FitForm form = fit_form(form_of(kind, reach));
  Cells fitted = cells_of(all);
  TableFit first = fit_cells(what, names_of(all), form, fitted, seconds_of(all, kind, reach));
  std::vector<CollectiveCell> kept;
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!outlier(all, fitted, i)) kept.push_back(all[i]);
    else notes.push_back(fmt::format("left out: {:.4g} MB on {:.0f} ranks took {:.3g} ms where the rest says {:.3g} ms", all[i].bytes / 1e6, all[i].ranks, 1e3 * fitted.measured[i], 1e3 * fitted.predicted[i]));
  }
  if (kept.size() < form.terms.size()) kept = all;
  Cells cells = cells_of(kept);
  LinkFit out{fit_cells(what, names_of(all), form, cells, seconds_of(kept, kind, reach)), kind, reach};
  if (kept.size() < all.size()) {
    out.fit.errors.front().label = "all cells but those left out";
    first.errors.front().label = "all cells, fitted to all";
    out.fit.errors.push_back(first.errors.front());
  }
  out.fit.notes.insert(out.fit.notes.end(), notes.begin(), notes.end());
  add_class(out.fit, cells, "from 64 MB", [&](std::size_t i) { return kept[i].bytes >= kLong; });
  add_class(out.fit, cells, "from 256 MB", [&](std::size_t i) { return kept[i].bytes >= kLonger; });
  // A ring over whole nodes leaves a node over the links of all its ranks; an all-to-all and a strided ring over the rank's own.
  if (reach == Reach::across && kind != CollectiveKind::all_to_all && kind != CollectiveKind::point_to_point) out.lanes = members(all.front());
  return out;
}

// Two nodes are joined by a tree whose all-reduce moves less over the network than a ring: a group of its own.
std::vector<LinkFit> fit_groups(const std::vector<CollectiveCell>& cells) {
  std::map<std::tuple<CollectiveKind, Reach, bool>, std::vector<CollectiveCell>> groups;
  for (const auto& c : cells) {
    const Reach reach = reach_of(c);
    const bool tree = c.kind == CollectiveKind::all_reduce && reach == Reach::across && c.nodes == 2;
    groups[{c.kind, reach, tree}].push_back(c);
  }
  std::vector<LinkFit> out;
  for (const auto& [key, group] : groups) {
    const auto& [kind, reach, tree] = key;
    if (group.size() < fit_form(form_of(kind, reach)).terms.size()) continue;
    out.push_back(fit_group(kind, reach, group, tree ? ", two" : ""));
    if (tree) out.back().fit.notes.push_back("two nodes: a tree; its rate does not enter the share");
  }
  return out;
}

bool is_tree(const LinkFit& f) { return f.fit.what.ends_with(", two"); }

/// Share of the line rate that a fit shows. Throws where the link cannot have carried it.
double share_of(const LinkFit& f, const FabricLevel& link, const std::string& preset) {
  constexpr double kMost = 1.02;
  const double rate = f.fit.form.value("rate"), share = rate / (f.lanes * link.bandwidth);
  if (share > kMost && f.kind != CollectiveKind::all_reduce)
    throw InputError(fmt::format("{}: {} reaches {:.3g} GB/s, {:.1f} times the line rate of link '{}'", f.fit.file, f.fit.what, rate / 1e9, share, preset),
                     fmt::format("the preset has {:.4g} GB/s per device and direction", link.bandwidth / 1e9),
                     "name another link, or give the link between nodes with --network and the one inside with --link.");
  return share;
}

/// Fits that measure the link itself. A ring over whole nodes crosses the inner links too: it counts only where nothing else does.
/// An all-reduce comes last: trees and switches that reduce move less than a ring counts.
std::vector<const LinkFit*> measures_of(const std::vector<LinkFit>& fits, const FabricLevel& link, const std::string& preset, bool inside) {
  std::vector<const LinkFit*> direct, shared, reduced;
  for (const LinkFit& f : fits) {
    if ((f.reach == Reach::inside) != inside || is_tree(f) || share_of(f, link, preset) > 1) continue;
    (f.kind == CollectiveKind::all_reduce ? reduced : f.lanes > 1 ? shared : direct).push_back(&f);
  }
  return !direct.empty() ? direct : !shared.empty() ? shared : reduced;
}

// The share of the line rate: the geometric mean over the tables, since each has its own protocol losses.
void give_share(KernelFits& out, const std::vector<LinkFit>& fits, const FabricLevel& link, const std::string& preset, bool inside) {
  const auto measures = measures_of(fits, link, preset, inside);
  if (measures.empty())
    throw InputError(fmt::format("no table measures link '{}'", preset), inside ? "it needs collectives inside a node" : "it needs collectives across nodes (of two nodes, other than all-reduce)", "add such a table.");
  FittedConstant c;
  double log_sum = 0;
  c.low = 1;
  for (const LinkFit* f : measures) {
    const FitTerm& t = f->fit.form.term("rate");
    const double line = f->lanes * link.bandwidth;
    log_sum += std::log(t.value / line);
    c.low = std::min(c.low, t.interval_low / line);
    c.high = std::max(c.high, t.interval_high / line);
    c.source += (c.source.empty() ? "" : "; ") + source_of(f->fit);
  }
  c.kind = "links";
  c.preset = preset;
  c.key = "share";
  c.unit = "1";
  c.value = std::exp(log_sum / static_cast<double>(measures.size()));
  c.high = std::min(c.high, 1.0);
  c.why = measures.size() == 1 ? "rate over the line rate" : fmt::format("rate over the line rate, geometric mean of {} fits", measures.size());
  out.constants.push_back(c);
}

// Latencies enter from the all-to-all where there is one (the model adds it to every collective), else from a gather.
void give_latency(KernelFits& out, const std::vector<LinkFit>& fits, const std::string& preset, bool inside) {
  const LinkFit* best = nullptr;
  for (const LinkFit& f : fits) {
    if ((f.reach == Reach::inside) != inside) continue;
    if (!best || f.kind == CollectiveKind::all_to_all) best = &f;
  }
  if (!best) return;
  out.constants.push_back(constant_of(best->fit, best->fit.form.term("latency"), "links", preset, "latency", "s", 1, "latency of the " + std::string(to_string(best->kind))));
  if (!inside && best->kind == CollectiveKind::all_to_all)
    out.constants.push_back(constant_of(best->fit, best->fit.form.term("peer_latency"), "links", preset, "peer_latency", "s", 1, "peer_latency"));
}

}  // namespace

std::vector<CollectiveCell> collective_cells(const CsvTable& table, const std::string& file, const std::string& device, double node_devices) {
  const bool exchange = !table.has("collective");
  const std::string bytes = table.has("payload_bytes") ? "payload_bytes" : "buffer_bytes";
  const TimingRows rows(table, file, device, {"group_size", "inter_node", bytes, "time_ms_p50"});
  const std::map<std::string, CollectiveKind> kinds{{"all_gather", CollectiveKind::all_gather}, {"reduce_scatter", CollectiveKind::reduce_scatter},
                                                    {"all_reduce", CollectiveKind::all_reduce}, {"all_to_all", CollectiveKind::all_to_all}};
  std::vector<CollectiveCell> out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    CollectiveCell c;
    const std::string name = exchange ? "all_to_all" : rows.text(i, "collective");
    if (!kinds.count(name)) throw InputError(fmt::format("{}: unknown collective '{}'", file, name), "its volume is not known", "use all_reduce, all_gather, reduce_scatter or all_to_all.");
    c.kind = kinds.at(name);
    c.ranks = rows.number(i, "group_size");
    const std::string& inter = rows.text(i, "inter_node");
    if (inter != "true" && inter != "false" && inter != "True" && inter != "False") throw InputError(fmt::format("{}: inter_node is '{}'", file, inter), "true or false is needed", "correct it.");
    if (inter == "true" || inter == "True") c.nodes = c.ranks <= node_devices ? c.ranks : std::ceil(c.ranks / node_devices);
    c.bytes = rows.number(i, bytes);
    c.seconds = 1e-3 * rows.number(i, "time_ms_p50");
    c.file = file;
    out.push_back(c);
  }
  return out;
}

void fit_collectives(KernelFits& out, const LinkTables& links, const std::vector<CollectiveCell>& cells) {
  std::vector<LinkFit> fits = fit_groups(cells);
  for (const bool inside : {true, false}) {
    const std::string& preset = inside ? links.inside_preset : links.across_preset;
    const auto mine = [&](const LinkFit& f) { return (f.reach == Reach::inside) == inside; };
    if (preset.empty()) {
      for (LinkFit& f : fits)
        if (mine(f)) f.fit.notes.push_back(fmt::format("only reported: no preset is named for the link {} (--{})", inside ? "inside a node" : "between nodes", inside ? "link" : "network"));
      continue;
    }
    give_share(out, fits, inside ? links.inside : links.across, preset, inside);
    give_latency(out, fits, preset, inside);
  }
  for (LinkFit& f : fits) {
    if (f.kind != CollectiveKind::all_to_all && f.reach != Reach::strided && f.kind != CollectiveKind::point_to_point)
      f.fit.notes.push_back("hop_latency is reported: the model books one latency a collective");
    out.fits.push_back(std::move(f.fit));
  }
}

}  // namespace tessera
