// The study the benchmarks share: a few architectures of the paper's ladder with every plan axis on 256 devices.
#pragma once
#include <string>

#include "io/study_reader.hpp"

namespace tessera::bench {

inline Study make_study(Record record) {
  const std::string text = R"(
title = "benchmark"
[cluster]
preset = "p6-b200"
devices = [256]
[window]
days = [20]
[batch]
global = [1024]
sequence = 2048
[architecture]
family = "ladder"
q = [12]
experts = [96, 128]
top_k = [2]
split = [4]
vocabulary = 257536
min_sparsity = 0.7
[plan]
virtual_stages = [1, 2, 3, 4, 6, 8]
micro_batch = [1, 2, 4, 8]
[law]
name = "mosaic"
)";
  Study study = read_study_text(text, "benchmark.toml");
  study.record = record;
  return study;
}

}  // namespace tessera::bench
