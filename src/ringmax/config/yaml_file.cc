#include "ringmax/config/yaml_file.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <utility>

namespace ringmax::config {
namespace {

// Builds the one value of a document from the parser's events. Mappings keep
// their keys as every other item.
class TreeBuilder : public YAML::EventHandler {
 public:
  struct Node {
    RawValue value;
    YAML::Mark mark;
    std::vector<Node> children;
  };

  // nullptr when the document is empty.
  const Node* root() const { return done_ ? &root_ : nullptr; }
  const std::string& complaint() const { return complaint_; }
  const YAML::Mark& complaint_mark() const { return complaint_mark_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    add({RawValue::scalar("null"), mark, {}});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    complain(mark, "anchors and aliases are not read; write the value again");
    add({RawValue::scalar("null"), mark, {}});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    // yaml-cpp tags a plain scalar "?" and a quoted one "!".
    if (tag != "?" && tag != "!" && !tag.empty()) {
      complain(mark, fmt::format("the tag {} is not read", tag));
    }
    add({RawValue::scalar(value, tag == "!"), mark, {}});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&,
                       YAML::anchor_t, YAML::EmitterStyle::value) override {
    open(mark, RawValue::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(mark, RawValue::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  void open(const YAML::Mark& mark, RawValue::Kind kind) {
    Node node;
    node.value.kind = kind;
    node.mark = mark;
    open_.push_back(std::move(node));
  }
  void close() {
    Node node = std::move(open_.back());
    open_.pop_back();
    for (const Node& child : node.children) {
      node.value.items.push_back(child.value);
    }
    add(std::move(node));
  }
  void add(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      done_ = true;
    } else {
      open_.back().children.push_back(std::move(node));
    }
  }
  void complain(const YAML::Mark& mark, std::string what) {
    if (!complaint_.empty()) return;
    complaint_ = std::move(what);
    complaint_mark_ = mark;
  }

  std::vector<Node> open_;
  Node root_;
  bool done_ = false;
  std::string complaint_;
  YAML::Mark complaint_mark_;
};

std::string place(std::string_view name, const YAML::Mark& mark) {
  if (mark.is_null()) return std::string(name);
  return fmt::format("{}:{}:{}", name, mark.line + 1, mark.column + 1);
}

// Runs the parser over the text; false after adding a problem.
bool build(const std::string& text, std::string_view name, TreeBuilder& tree,
           Problems& problems) {
  try {
    // yaml-cpp takes an open quote for closed when only a line's end follows.
    std::istringstream stream(
        text.substr(0, text.find_last_not_of(" \t\r\n") + 1));
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(tree)) return true;
    TreeBuilder second;
    if (parser.HandleNextDocument(second)) {
      problems.add("{}: holds several YAML documents; valid is one", name);
      return false;
    }
  } catch (const YAML::Exception& error) {
    problems.add("{}: this is not YAML: {}", place(name, error.mark),
                 error.msg);
    return false;
  }
  if (!tree.complaint().empty()) {
    problems.add("{}: {}", place(name, tree.complaint_mark()),
                 tree.complaint());
    return false;
  }
  return true;
}

}  // namespace

std::vector<YamlEntry> parse_yaml(const std::string& text,
                                  std::string_view name, Problems& problems) {
  std::vector<YamlEntry> entries;
  TreeBuilder tree;
  if (!build(text, name, tree, problems)) return entries;
  if (tree.root() == nullptr || tree.root()->value.is_null()) return entries;
  const TreeBuilder::Node& root = *tree.root();
  if (root.value.kind != RawValue::Kind::kMap) {
    problems.add("{}: valid is a list of `key: value` lines",
                 place(name, root.mark));
    return entries;
  }
  std::map<std::string, std::int64_t> seen;  // line of each key
  for (std::size_t i = 0; i + 1 < root.children.size(); i += 2) {
    const TreeBuilder::Node& key = root.children[i];
    if (key.value.kind != RawValue::Kind::kScalar) {
      problems.add("{}: a key must be plain text", place(name, key.mark));
      continue;
    }
    const auto [first, is_new] =
        seen.emplace(key.value.text, key.mark.line + 1);
    if (!is_new) {
      problems.add("{}: '{}' is set twice in this file, first on line {}",
                   place(name, key.mark), key.value.text, first->second);
      continue;
    }
    entries.push_back({key.value.text, root.children[i + 1].value,
                       key.mark.line + 1, key.mark.column + 1});
  }
  return entries;
}

std::vector<YamlEntry> read_yaml(const std::string& path, Problems& problems) {
  constexpr std::uintmax_t kLargest = 4 << 20;
  std::error_code error;
  const std::filesystem::file_status status =
      std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    problems.add("config file {}: no such file", path);
    return {};
  }
  if (!std::filesystem::is_regular_file(status)) {
    problems.add("config file {}: is no file", path);
    return {};
  }
  if (std::filesystem::file_size(path, error) > kLargest) {
    problems.add("config file {}: is larger than 4 MiB, which is no config",
                 path);
    return {};
  }
  std::ifstream stream(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  if (!stream.is_open() || stream.bad()) {
    problems.add("config file {}: cannot be read", path);
    return {};
  }
  return parse_yaml(text, path, problems);
}

bool parse_inline_value(const std::string& text, std::string_view where,
                        RawValue& value, Problems& problems) {
  if (text.empty() ||
      std::string_view("[{\"'").find(text.front()) == std::string_view::npos) {
    // `key=` alone is the empty text, as a shell user means it.
    value = RawValue::scalar(text, text.empty());
    return true;
  }
  TreeBuilder tree;
  Problems inner;
  if (!build(text, where, tree, inner) || tree.root() == nullptr) {
    problems.add(
        "{}: cannot read the value {}; valid is plain text, \"text\" "
        "or a list [a, b]",
        where, text);
    return false;
  }
  value = tree.root()->value;
  return true;
}

}  // namespace ringmax::config
