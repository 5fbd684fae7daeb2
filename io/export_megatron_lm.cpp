// Megatron-LM: the settings as arguments of pretrain_gpt.py, one a line.
#include <fmt/format.h>

#include <algorithm>

#include "io/export_megatron.hpp"
#include "io/export_parts.hpp"
#include "tessera/study.hpp"

namespace tessera::exporting {
namespace {

// Quotes a shell word that is not made of plain characters only.
std::string shell_word(const std::string& text) {
  const bool plain =
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.,/=") ==
      std::string::npos;
  return plain ? text : "'" + text + "'";
}

}  // namespace

Export megatron_lm(const ExportRequest& request) {
  const Settings settings = megatron_settings(request, "Megatron-LM");
  Export out;
  out.format = "megatron-lm";
  std::string text;
  for (const Setting& s : settings.list) {
    if (s.flag.empty()) continue;
    // Several values (--recompute-modules a b) are several words; only lists of plain words have blanks.
    const bool list = s.argument.find(' ') != std::string::npos;
    text += s.flag + (s.argument.empty() ? "" : " " + (list ? s.argument : shell_word(s.argument))) + "\n";
  }
  out.files.push_back({"megatron_arguments.txt", text});
  out.notes = heading(request);
  const std::int64_t nodes = nodes_of(request.cluster),
                     per_node = std::min(request.cluster.fabric.node_devices, request.cluster.devices);
  out.notes.push_back(
      fmt::format("On each node: xargs -a megatron_arguments.txt torchrun --nnodes {} --nproc-per-node {} "
                  "pretrain_gpt.py "
                  "DATA, TOKENIZER, LEARNING RATE AND LENGTH OF THE RUN.",
                  nodes, per_node));
  out.notes.insert(out.notes.end(), settings.notes.begin(), settings.notes.end());
  return out;
}

}  // namespace tessera::exporting
