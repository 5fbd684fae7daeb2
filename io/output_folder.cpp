#include "io/output_folder.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include <fmt/format.h>

#include "io/file_system.hpp"
#include "io/ledger.hpp"
#include "io/manifest.hpp"
#include "io/merge.hpp"
#include "tessera/error.hpp"
#include "tessera/units.hpp"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// Bytes of a row while both copies exist: the segment (4-byte id offset, status, six floats) and, measured on the
// paper's study, at most this much in results.h5 after shuffle and deflate.
constexpr double kSegmentRowBytes = 29, kResultRowBytes = 21;
// A best row: in a segment and as columns of /best and /top.
constexpr double kBestBytes = 2 * sizeof(BestRow) + 128;
constexpr double kFixedBytes = 16 * kMiB;  ///< study, tables, file structure

const char* const kOurFiles[] = {"manifest.json", "manifest.json.tmp", "results.h5", "results.h5.tmp"};
const char* const kOurFolders[] = {"segments", "ledger"};

bool exists(const std::string& path) {
  std::error_code code;
  return fs::exists(path, code);
}

// A manifest that was never renamed is the beginning of a sweep that has nothing yet: it holds up no other.
bool holds_results(const std::string& folder) {
  return std::any_of(std::begin(kOurFiles), std::end(kOurFiles),
                     [&](const std::string& name) { return name != "manifest.json.tmp" && exists(folder + "/" + name); }) ||
         std::any_of(std::begin(kOurFolders), std::end(kOurFolders), [&](const char* name) { return exists(folder + "/" + name); });
}

bool is_ours(const fs::path& file, const std::string& folder) {
  const std::string name = file.filename().string();
  if (folder == "ledger") return name.rfind("rank-", 0) == 0;
  return name.size() > 1 && name[0] == 'u' && std::isdigit(static_cast<unsigned char>(name[1])) != 0;
}

/// Bytes of the files that are ours: what a redo frees and a resume need not write again.
double own_bytes(const std::string& folder) {
  double bytes = 0;
  std::error_code code;
  for (const char* name : kOurFiles)
    if (exists(folder + "/" + name)) bytes += static_cast<double>(fs::file_size(folder + "/" + name, code));
  for (const char* name : kOurFolders)
    for (const auto& file : fs::directory_iterator(folder + "/" + name, code)) {
      std::error_code gone;
      const auto size = file.file_size(gone);
      if (!gone) bytes += static_cast<double>(size);
    }
  return bytes;
}

void delete_own(const std::string& folder) {
  // Results first: an interrupted redo must not leave a results.h5 that looks finished.
  std::error_code code;
  for (const char* name : {"results.h5", "results.h5.tmp", "manifest.json", "manifest.json.tmp"}) fs::remove(folder + "/" + name, code);
  for (const char* name : kOurFolders) {
    const std::string path = folder + "/" + name;
    for (const auto& file : fs::directory_iterator(path, code))
      if (is_ours(file.path(), name)) fs::remove(file.path(), code);
    fs::remove(path, code);  // stays where a user keeps a file of his own in it
  }
  for (const char* name : kOurFiles)
    if (exists(folder + "/" + name))
      throw InputError("cannot delete " + folder + "/" + name, "the folder is not writable", "check its permissions.");
}

/// Files that no ledger line names: left by a kill between rename and ledger, or written aside.
void delete_orphans(const std::string& folder) {
  std::set<std::string> known;
  for (const auto& entry : read_ledger(folder).entries) known.insert(entry.segment);
  std::error_code code;
  for (const auto& file : fs::directory_iterator(folder + "/segments", code)) {
    const fs::path path = file.path();
    const bool named = path.extension() != ".tmp" && known.count(path.stem().string()) > 0;
    if (!named && is_ours(path, "segments")) fs::remove(path, code);
  }
  fs::remove(folder + "/results.h5.tmp", code);
}

std::string existing_parent(const std::string& folder) {
  fs::path path = fs::absolute(folder);
  while (!exists(path.string()) && path.has_parent_path() && path != path.parent_path()) path = path.parent_path();
  return path.string();
}

void check_space(const std::string& folder, FolderMode mode, const Study& study, const Space& space) {
  double available = static_cast<double>(free_bytes(existing_parent(folder)));
  if (mode != FolderMode::fresh) available += own_bytes(folder);
  const double needed = needed_bytes(space, study.record);
  if (needed <= available) return;
  auto gib = [](double bytes) { return fmt::format("{:.2f} GiB", bytes / kGiB); };
  throw InputError(
      fmt::format("the disk of {} is too small: --record {} needs up to {} ({:.0f} bytes) and {} are free", folder, to_string(study.record),
                  gib(needed), needed, gib(available)),
      fmt::format("{} legal plans at up to {:.0f} bytes each while segments and results.h5 exist side by side", space.legal(),
                  kSegmentRowBytes + kResultRowBytes),
      fmt::format("use --record best ({}), --record feasible (only what fits the memory; at most {}), or another --out folder.",
                  gib(needed_bytes(space, Record::best)), gib(needed_bytes(space, Record::feasible))));
}

void make_folder(const std::string& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) throw InputError("cannot create the folder " + path, code.message(), "check its parent's permissions or give another --out folder.");
  if (::access(path.c_str(), W_OK | X_OK) != 0)
    throw InputError("cannot write into " + path, "the folder is read-only for you", "check its permissions or give another --out folder.");
}

}  // namespace

double needed_bytes(const Space& space, Record record) {
  const Study& s = space.study();
  const double triples = static_cast<double>(s.clusters.size()) * static_cast<double>(s.batches.size()) * static_cast<double>(s.architectures.size());
  const double rows = record == Record::best ? 0 : static_cast<double>(space.legal());
  return kFixedBytes + triples * kBestBytes + rows * (kSegmentRowBytes + kResultRowBytes);
}

OutputFolder::OutputFolder(const std::string& path, FolderMode mode, const Study& study, const Space& space) : path_(path) {
  std::error_code code;
  if (exists(path) && !fs::is_directory(path, code))
    throw InputError("cannot write results into " + path, "it is a file", "give a folder for --out.");
  auto refuse_results = [&] {
    if (mode == FolderMode::fresh && holds_results(path))
      throw InputError(path + " holds results already", "a sweep never overwrites unasked", "go on with --resume, start over with --redo, or give another --out folder.");
  };
  refuse_results();
  check_space(path, mode, study, space);
  make_folder(path);
  lock_ = FolderLock(path);
  refuse_results();  // another sweep may have come and gone before we held the lock
  const Manifest manifest = make_manifest(study, space);
  if (mode == FolderMode::redo) delete_own(path);
  if (mode == FolderMode::resume && exists(path + "/manifest.json")) {
    check_same(read_manifest(path), manifest, path);
    delete_orphans(path);
  } else if (mode == FolderMode::resume && holds_results(path)) {
    throw InputError(path + " cannot be resumed", "it holds results but no manifest.json that says of which study", "start over with --redo, or give another --out folder.");
  } else {
    write_manifest(path, manifest);
  }
  for (const char* name : kOurFolders) make_folder(path + "/" + name);
  sync_folder(path);
}

void OutputFolder::finish(const Study& study, const Space& space, const SweepResult& result, int threads) {
  merge_results(path_, study, space, result, threads);
}

}  // namespace tessera
