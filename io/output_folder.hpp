// The folder of a sweep, as the command uses it. On rank 0:
//
//   OutputFolder folder(dir, FolderMode::resume, study, space);   // lock, manifest, disk space
//   ... all ranks:  SegmentSink sink(dir, rank, ...); sweep(study, space, context, sink, options);
//   folder.finish(result, threads);                               // DIR/results.h5
//
// Files: lock, manifest.json, ledger/rank-0000.txt, segments/*.units and *.rows, results.h5.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "io/folder_lock.hpp"
#include "tessera/space.hpp"
#include "tessera/sweep.hpp"

namespace tessera {

enum class FolderMode : std::uint8_t {
  fresh,   ///< the folder must hold no results
  resume,  ///< go on with what is there; a missing or empty folder simply starts
  redo     ///< delete our own files and start over
};

class OutputFolder {
 public:
  /// Makes the folder ready, on rank 0 only and before any rank writes. Throws InputError, with nothing changed:
  /// the folder holds results (fresh), belongs to another study, version or preset (resume), is in use by
  /// another sweep, is no folder or not writable, or its disk is too small for the record mode.
  OutputFolder(const std::string& path, FolderMode, const Study&, const Space&);

  const std::string& path() const { return path_; }
  std::string results_path() const { return path_ + "/results.h5"; }

  /// Writes results.h5 from the segments (merge.hpp). Call on rank 0 after all ranks have flushed.
  /// Throws RunError (disk full, segment damaged); the segments stay and it can be called again.
  void finish(const Study&, const Space&, const SweepResult&, int threads);

 private:
  std::string path_;
  FolderLock lock_;
};

/// Bytes that a sweep needs in its folder at its peak (segments and results.h5 side by side), at most.
double needed_bytes(const Space&, Record);

}  // namespace tessera
