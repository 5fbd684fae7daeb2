// tessera presets: what is built in, and the text of one.
#include <iostream>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "io/toml_reader.hpp"
#include "model/embedded_presets.hpp"
#include "tessera/error.hpp"

namespace tessera {
namespace {

std::string title_of(const EmbeddedPreset& p) {
  const toml::table table = parse_toml_text(p.text, std::string(p.name));
  for (const char* key : {"title", "name", "description"})
    if (const auto text = table[key].value<std::string>()) return *text;
  return "";
}

int list_presets(const Session& session, const std::string& kind) {
  nlohmann::ordered_json json;
  std::string last;
  bool any = false;
  for (const EmbeddedPreset& p : embedded_presets()) {
    if (!kind.empty() && p.kind != kind) continue;
    any = true;
    if (session.json) {
      json[std::string(p.kind)].push_back({{"name", p.name}, {"title", title_of(p)}});
      continue;
    }
    if (p.kind != last) fmt::print("{}{}\n", last.empty() ? "" : "\n", p.kind);
    last = std::string(p.kind);
    fmt::print("  {:<32} {}\n", p.name, title_of(p).substr(0, 64));
  }
  if (!any) {
    std::map<std::string, int> kinds;
    for (const EmbeddedPreset& p : embedded_presets()) ++kinds[std::string(p.kind)];
    std::vector<std::string> names;
    for (const auto& [name, count] : kinds) names.push_back(name);
    throw InputError("no presets of kind '" + kind + "'", "presets are kept by kind", suggestion(kind, names));
  }
  if (session.json) std::cout << json.dump(2) << "\n";
  return kDone;
}

int show_preset(const Session& session, const std::string& name) {
  // "b200" or, where two kinds share a name, "devices/generic".
  const std::size_t slash = name.find('/');
  std::vector<const EmbeddedPreset*> found;
  std::vector<std::string> known;
  for (const EmbeddedPreset& p : embedded_presets()) {
    known.emplace_back(p.name);
    const bool kind = slash == std::string::npos || p.kind == name.substr(0, slash);
    if (kind && p.name == (slash == std::string::npos ? name : name.substr(slash + 1))) found.push_back(&p);
  }
  if (found.empty()) throw InputError("unknown preset '" + name + "'", "nothing built in has this name", suggestion(name, known));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const EmbeddedPreset* p : found) {
    if (session.json) json.push_back({{"kind", p->kind}, {"name", p->name}, {"text", p->text}});
    else fmt::print("# {}/{}.toml\n{}\n", p->kind, p->name, p->text);
  }
  if (session.json) std::cout << nlohmann::ordered_json{{"presets", json}}.dump(2) << "\n";
  return kDone;
}

}  // namespace

void add_presets(CLI::App& app, Session& session) {
  struct Options {
    std::string name, kind;
  };
  auto* c = app.add_subcommand("presets", "List what is built in, or print one preset with its constants, units and sources");
  auto o = std::make_shared<Options>();
  c->add_option("NAME", o->name, "Preset to print, e.g. b200 or devices/generic");
  c->add_option("--kind", o->kind, "List one kind: devices, links, fabrics, stacks, laws, architectures, goodput, budget, mapping");
  c->add_flag("--json", session.json, "One JSON object on standard output");
  c->footer("Example:\n  tessera presets --kind fabrics\n  tessera presets h100");
  c->callback([o, &session] { session.action = [o, &session] { return o->name.empty() ? list_presets(session, o->kind) : show_preset(session, o->name); }; });
}

}  // namespace tessera
