// Devices, links, fabrics, stacks and clusters from embedded presets, user files (same keys) and specifications on the
// spot. A preset may extend another of its kind; each constant remembers the preset it comes from, so that calibration
// changes it at its home.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "io/toml_reader.hpp"
#include "tessera/cluster.hpp"

namespace tessera {

/// A constant as written in its preset: `key = value` or
/// `key = { value = .., unit = "..", source = "..", low = .., high = .., prior = [centre, relative width], fitted = true }`.
struct Constant {
  std::string kind, preset, key, unit, source;
  double value = 0;
  double low = 0, high = 0;                    ///< 10-90 % interval where known
  double prior_centre = 0, prior_width = 0;    ///< relative width; 0: not free
  bool fitted = false;                         ///< value fitted to measured runs or kernel tables
};

/// Where each constant of a cluster comes from. Keys: "device.KEY", "level0.KEY", ..., "stack.KEY".
using ConstantSources = std::map<std::string, Constant>;

struct SourcedCluster {
  Cluster cluster;
  ConstantSources sources;
  std::optional<Precision> precision;  ///< asked for in the specification
};

/// Reads presets by kind and name. Embedded ones, shadowed by files of `folder` (kind/name.toml) where given.
class Presets {
 public:
  explicit Presets(std::string folder = "");

  Device device(const std::string& spec, ConstantSources* sources = nullptr) const;
  Stack stack(const std::string& spec, ConstantSources* sources = nullptr) const;
  Fabric fabric(const std::string& spec, ConstantSources* sources = nullptr) const;
  /// A link by itself, as one level of no size. Sources: "link.KEY".
  FabricLevel link(const std::string& spec, ConstantSources* sources = nullptr) const;

  /// `spec`: a fabric preset or TOML file, then `,key=value` changes: device=, stack=, precision=, memory_cap=179GiB,
  /// nvlink=2x or nic=2x (link bandwidths), or any key of the device or stack (e.g. host_layer_seconds=1e-3, folding=true).
  /// `devices` 0: one node. Throws InputError.
  SourcedCluster cluster(const std::string& spec, std::int64_t devices) const;
  /// From parts, each a preset name or file.
  SourcedCluster cluster(const std::string& device, const std::string& fabric, const std::string& stack,
                         std::int64_t devices) const;

  std::vector<std::string> names(const std::string& kind) const;
  /// The text of a preset, for printing. Throws InputError with the nearest name.
  std::string text(const std::string& kind, const std::string& name) const;

 private:
  struct Source {
    toml::table table;
    std::string file;
  };
  Source load(const std::string& kind, const std::string& spec) const;
  template <class T>
  void read_into(T& value, const std::string& kind, const std::string& spec, const std::string& prefix,
                 ConstantSources* sources, int depth) const;
  std::string folder_;
};

/// The common case: `Presets().cluster(spec, devices)`.
SourcedCluster read_cluster(const std::string& spec, std::int64_t devices);

/// Reads one constant of a preset table (number or table form), checking the unit.
Constant read_constant(TomlReader&, std::string_view key, std::string_view unit);

}  // namespace tessera
