// results.h5 as typed values, for every command that reads one (report, table, query, export, replay). The small
// tables are read and checked when the file is opened; /evaluations is read by ranges of rows.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/hdf5_file.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

/// A row of /clusters.
struct StoredCluster {
  std::string name, device, fabric, stack;
  std::int64_t devices = 0, nodes = 0, node_devices = 0;
  double memory_cap_bytes = 0;  ///< [B]
  double peak_bf16 = 0;         ///< [FLOP/s] of a device
};

/// A row of /best: the best plan of a cluster x batch x architecture, or the closest miss.
struct StoredBest {
  BestRow row;
  double mfu = 0;  ///< fraction, law convention; 0 where nothing fits
  Plan plan;
};

struct StoredPreset {
  std::string kind, name, hash, text;
};

/// Everything in the file but /evaluations.
struct Results {
  // Attributes of /study.
  std::string title, hash, version, record, search, law, optimizer, signature;
  std::int64_t sequence = 0;  ///< tokens
  std::uint64_t points = 0, legal = 0, evaluations = 0, feasible = 0;
  std::string source;  ///< Study::source; restore_study() makes the study again
  std::vector<StoredPreset> presets;

  std::vector<double> days;            ///< windows [days]
  std::vector<std::int64_t> batches;   ///< [sequences]
  std::vector<StoredCluster> clusters;
  std::vector<Architecture> architectures;
  std::vector<ParameterCount> counts;  ///< in step with architectures
  std::vector<StoredBest> best;        ///< ascending (cluster, batch, architecture)
  std::vector<TopRow> top;             ///< envelopes in the order clusters x days
  std::vector<EnvelopeCounts> envelopes;
  Counts totals;                       ///< /refused and the attributes of /study
};

class ResultsReader {
 public:
  /// Throws InputError: missing file, no HDF5 file, no results of tessera, another format version, damaged,
  /// indices or numbers out of range.
  explicit ResultsReader(const std::string& path);

  const Results& results() const { return results_; }
  const std::string& path() const { return file_.path(); }

  /// Rows of /evaluations (0 with --record best).
  std::uint64_t evaluation_rows() const { return rows_; }
  /// Rows first .. first + count - 1.
  Columns evaluations(std::uint64_t first, std::uint64_t count) const;
  /// One numeric column (step_seconds, memory_bytes, ...; also id and status) as doubles.
  void evaluation_column(const std::string& name, std::uint64_t first, std::span<double> out) const;
  /// The recorded evaluation of an id; nothing where it was not recorded.
  std::optional<Columns> evaluation(std::uint64_t id) const;

  const Hdf5Reader& file() const { return file_; }

 private:
  Hdf5Reader file_;
  Results results_;
  std::uint64_t rows_ = 0;
};

}  // namespace tessera
