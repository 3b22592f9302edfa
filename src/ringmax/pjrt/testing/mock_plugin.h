// A PJRT plugin in the test's own memory: another API version, several
// processes' devices of which a part is ours, errors on request. It computes
// nothing: result i of a program is a copy of argument i.
#ifndef RINGMAX_PJRT_TESTING_MOCK_PLUGIN_H_
#define RINGMAX_PJRT_TESTING_MOCK_PLUGIN_H_

#include <pjrt_c_api.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ringmax/pjrt/plugin.h"

namespace ringmax::pjrt::testing {

struct MockSettings {
  // Ids count from 0. Process p has devices [p * per_process, ...).
  int devices = 8;
  int devices_per_process = 4;
  int process = 1;
  // A grid of two columns, given as coordinates.
  bool coordinates = false;
  // Results of every program.
  std::size_t outputs = 1;
  int minor_version = 40;
};

// What the plugin was asked to do since reset().
struct MockLog {
  std::vector<int> uploaded_to;  // device ids
  std::vector<int> read_from;
  std::size_t executions = 0;
  std::vector<std::int64_t> non_donatable;  // of the last execution
  std::string compile_options;              // of the last compilation
  // Things of ours that the plugin still holds.
  int live_errors = 0;
  int live_buffers = 0;
  int live_events = 0;
};

// There is one mock at a time: its functions are plain C.
void reset_mock(const MockSettings& settings = {});
MockLog& mock_log();
// The table, to be cut short or changed by a test; valid until reset_mock().
PJRT_Api& mock_table();
// Loads it.
Plugin mock_plugin();

// From now on the function of that name ("PJRT_Client_Compile") fails.
void fail_mock_call(const std::string& function, PJRT_Error_Code code,
                    const std::string& text);
// Work that is started ends with this error; "" is success again.
void fail_mock_work(const std::string& text);

}  // namespace ringmax::pjrt::testing

#endif  // RINGMAX_PJRT_TESTING_MOCK_PLUGIN_H_
