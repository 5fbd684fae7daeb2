// The ledger: one line of text per finished unit, appended by the rank that finished it to its own file
// (DIR/ledger/rank-0000.txt), because appends of several nodes to one file are not safe on network file systems.
// A line carries its own checksum: a torn or damaged line is skipped and reported, never believed.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/file_system.hpp"

namespace tessera {

/// A part of a file.
struct Extent {
  std::uint64_t offset = 0, bytes = 0;  ///< [B]
  std::uint32_t crc = 0;                ///< CRC-32 of the part
  bool operator==(const Extent&) const = default;
};

struct LedgerEntry {
  std::uint64_t unit = 0;
  std::string segment;       ///< name of the segment's files without their endings
  std::uint64_t rows = 0;    ///< recorded evaluations
  Extent summary, columns;   ///< in NAME.units and NAME.rows; columns.bytes == 0: none
  std::uint64_t manifest = 0;  ///< hash of the manifest the unit belongs to
  bool operator==(const LedgerEntry&) const = default;
};

/// "unit 12 segment u000012 rows 5 summary 0 400 1a2b3c4d columns 0 161 5e6f7a8b manifest 0123... crc 9c8d7e6f"
std::string ledger_line(const LedgerEntry&);

/// Appends lines to the ledger of one rank; append() returns when they are on the disk.
class LedgerWriter {
 public:
  LedgerWriter(const std::string& folder, int rank);
  void append(const std::vector<LedgerEntry>&);

 private:
  File file_;
};

struct Ledger {
  std::vector<LedgerEntry> entries;   ///< ascending by unit; the last line of a unit counts
  std::vector<std::string> notices;   ///< torn or damaged lines, one sentence each
};
/// Every ledger of the folder. A missing folder gives an empty ledger.
Ledger read_ledger(const std::string& folder);

}  // namespace tessera
