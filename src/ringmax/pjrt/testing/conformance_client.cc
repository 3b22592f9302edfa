#include "ringmax/pjrt/testing/conformance_client.h"

#include <cstdlib>
#include <sstream>
#include <string>

#include "ringmax/base/error.h"

namespace ringmax::pjrt::testing {
namespace {

NamedValue parse(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  std::size_t used = 0;
  try {
    const std::int64_t number = std::stoll(text, &used);
    if (used == text.size()) return number;
  } catch (const std::exception&) {
    // Not a number.
  }
  return text;
}

ClientOptions options_under_test() {
  ClientOptions options;
  const char* words = std::getenv("RINGMAX_PJRT_CLIENT_OPTIONS");
  if (words == nullptr) {
    if (std::getenv("RINGMAX_PJRT_PLUGIN") == nullptr) {
      options.values["cpu_device_count"] = std::int64_t{8};
    }
    return options;
  }
  std::istringstream stream(words);
  for (std::string word; stream >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      fail_invalid("RINGMAX_PJRT_CLIENT_OPTIONS: '{}' is not name=value", word);
    }
    options.values[word.substr(0, equals)] = parse(word.substr(equals + 1));
  }
  return options;
}

}  // namespace

const Client& conformance_client() {
  // Never destroyed: a plugin's threads may outlive static destructors.
  static const auto* client = new Client(Client::create(
      Plugin::load(find_plugin(PluginQuery())), options_under_test()));
  return *client;
}

}  // namespace ringmax::pjrt::testing
