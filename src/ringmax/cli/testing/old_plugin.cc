// A PJRT plugin of another major version: a shared library of its own, built
// for the test that such a plugin is refused before anything of it is called.
#include <pjrt_c_api.h>

extern "C" const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api table = [] {
    PJRT_Api made{};
    made.struct_size = PJRT_Api_STRUCT_SIZE;
    made.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
    made.pjrt_api_version.major_version = PJRT_API_MAJOR + 7;
    made.pjrt_api_version.minor_version = 3;
    return made;
  }();
  return &table;
}
