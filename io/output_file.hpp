// The file that a command writes when its work is done.
#pragma once
#include <string>
#include <string_view>

namespace tessera {

class OutputFile {
 public:
  /// `option`: what the user named it with, e.g. "--out". Throws InputError before any work is done for it where the path cannot
  /// be written: it is empty or a folder, or its folder is missing or read-only.
  OutputFile(std::string option, std::string path);
  /// The whole text or the old file, never a part; pipes and devices are written as they are. Throws InputError (disk full, ...).
  void write(std::string_view text) const;
  const std::string& path() const { return path_; }

 private:
  std::string option_, path_;
};

}  // namespace tessera
