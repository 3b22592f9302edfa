// The client that the conformance test runs against, one for the whole binary:
// that of set-up's CPU plugin with 8 devices, or of the plugin that
// RINGMAX_PJRT_PLUGIN names, with the client options of
// RINGMAX_PJRT_CLIENT_OPTIONS ("name=value name=value"; whole numbers become
// numbers, true and false booleans).
#ifndef RINGMAX_PJRT_TESTING_CONFORMANCE_CLIENT_H_
#define RINGMAX_PJRT_TESTING_CONFORMANCE_CLIENT_H_

#include "ringmax/pjrt/client.h"

namespace ringmax::pjrt::testing {

const Client& conformance_client();

}  // namespace ringmax::pjrt::testing

#endif  // RINGMAX_PJRT_TESTING_CONFORMANCE_CLIENT_H_
