// Progress of a sweep on stderr: on a terminal one line that is drawn over, elsewhere a plain line every ten seconds.
#pragma once
#include <string>

#include "tessera/sweep.hpp"

namespace tessera {

class ProgressLine {
 public:
  explicit ProgressLine(const Study&);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const Progress&);

 private:
  std::string text(const Progress&) const;
  const Study* study_;
  bool terminal_;
  double next_line_ = 0;      ///< [s] since the start; plain lines
  std::size_t drawn_ = 0;     ///< columns of the line on the terminal
};

}  // namespace tessera
