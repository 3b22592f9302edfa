#include "ringmax/model/cpu/ffi.h"

#include <fmt/format.h>

#include <vector>

#include "ringmax/attention/cpu/ffi_call.h"
#include "ringmax/model/cpu/exchange.h"
#include "ringmax/model/cpu/product.h"

namespace ringmax::model::cpu {
namespace {

namespace ffi = xla::ffi;
using attention::cpu::attribute;
using attention::cpu::Buffers;
using attention::cpu::call_binding;
using attention::cpu::handle;
using attention::cpu::shape_text;
using attention::cpu::workers_of;

static_assert(kColumnsUnit % kGroup == 0);

enum Kind : std::int64_t { kTurned = 1, kPlain, kActivations };

struct Matrix {
  float* data;
  std::int64_t rows, columns;
};

Matrix matrix(const char* name, const ffi::AnyBuffer& buffer) {
  const auto dims = buffer.dimensions();
  if (buffer.element_type() != ffi::DataType::F32 || dims.size() != 2) {
    fail_invalid("{} is {}, not a matrix of f32", name,
                 shape_text(buffer.element_type(), {dims.begin(), dims.end()}));
  }
  return {static_cast<float*>(buffer.untyped_data()), dims[0], dims[1]};
}
Matrix next_argument(Buffers& buffers, const char* name) {
  return matrix(name, buffers.next_argument(name));
}
Matrix next_result(Buffers& buffers, const char* name) {
  return matrix(name, buffers.next_result(name));
}

void same(const char* what, std::int64_t have, std::int64_t want) {
  if (have != want) fail_invalid("{} {}, not {}", what, have, want);
}

std::int64_t devices_of(const ffi::Dictionary& attributes) {
  const auto devices = attribute<std::int64_t>(attributes, "devices");
  if (devices < 1) fail_invalid("attribute devices is {}", devices);
  return devices;
}

void check_unit(std::int64_t columns) {
  if (columns % kColumnsUnit != 0) {
    fail_invalid("{} columns a device are no multiple of {}", columns,
                 kColumnsUnit);
  }
}

std::int64_t turned_floats(std::int64_t features, std::int64_t columns) {
  return groups(features) * group_floats(columns);
}
std::int64_t plain_floats(std::int64_t features, std::int64_t columns) {
  return groups(columns) * group_floats(features);
}

void give_ticket(Buffers& buffers, Exchange::Array array,
                 std::int64_t readers) {
  auto* ticket = static_cast<std::int64_t*>(
      buffers.result("ticket", ffi::DataType::S64, {1}));
  buffers.done();
  *ticket = Exchange::instance().put(std::move(array), readers);
}

// Every device's array.
std::vector<Exchange::Array> take_all(const std::int64_t* tickets,
                                      std::int64_t devices, std::int64_t kind,
                                      std::int64_t floats) {
  std::vector<Exchange::Array> all;
  for (std::int64_t d = 0; d < devices; ++d) {
    all.push_back(Exchange::instance().take(tickets[d], kind, floats));
  }
  return all;
}

const std::int64_t* next_tickets(Buffers& buffers, std::int64_t devices) {
  return static_cast<const std::int64_t*>(
      buffers.argument("tickets", ffi::DataType::S64, {devices}));
}

// N matrices one after another in memory.
struct Stack {
  Matrix first;
  std::int64_t count;

  Matrix at(std::int64_t i) const {
    return {first.data + i * first.rows * first.columns, first.rows,
            first.columns};
  }
};
Stack next_stack(Buffers& buffers) {
  const ffi::AnyBuffer buffer = buffers.next_argument("weight");
  const auto dims = buffer.dimensions();
  if (dims.size() != 3 || buffer.element_type() != ffi::DataType::F32) {
    return {matrix("weight", buffer), 1};
  }
  return {{static_cast<float*>(buffer.untyped_data()), dims[1], dims[2]},
          dims[0]};
}

void share_weights(ffi::ThreadPool, ffi::RemainingArgs args,
                   ffi::RemainingRets rets, ffi::Dictionary attributes) {
  Buffers buffers(args, rets);
  const std::int64_t devices = devices_of(attributes);
  const bool turned = attribute<std::int64_t>(attributes, "turned") != 0;
  const bool kept = attribute<std::int64_t>(attributes, "kept") != 0;
  std::vector<Stack> stacks;
  std::int64_t floats = 0;
  for (std::size_t i = 0; i < buffers.arguments(); ++i) {
    const Stack s = next_stack(buffers);
    const Matrix& w = s.first;
    check_unit(w.columns);
    floats += turned ? turned_floats(w.rows, w.columns)
                     : plain_floats(w.rows, w.columns);
    if (i > 0) same("matrices of a weight are", s.count, stacks[0].count);
    stacks.push_back(s);
  }
  if (stacks.empty()) fail_invalid("there is no weight");
  const std::int64_t count = stacks[0].count;
  auto* tickets = static_cast<std::int64_t*>(
      buffers.result("ticket", ffi::DataType::S64, {count}));
  buffers.done();
  for (std::int64_t i = 0; i < count; ++i) {
    Exchange::Array array =
        Exchange::allocate(turned ? kTurned : kPlain, floats);
    float* to = array.data.get();
    for (const Stack& stack : stacks) {
      const Matrix w = stack.at(i);
      if (turned) {
        to_turned_groups(w.data, w.rows, w.columns, to);
        to += turned_floats(w.rows, w.columns);
      } else {
        to_groups(w.data, w.rows, w.columns, to);
        to += plain_floats(w.rows, w.columns);
      }
    }
    tickets[i] = kept ? Exchange::instance().keep(std::move(array), devices)
                      : Exchange::instance().put(std::move(array), devices);
  }
}

void release(ffi::ThreadPool, ffi::RemainingArgs args, ffi::RemainingRets rets,
             ffi::Dictionary) {
  Buffers buffers(args, rets);
  const ffi::AnyBuffer tickets = buffers.next_argument("tickets");
  if (tickets.element_type() != ffi::DataType::S64 ||
      tickets.dimensions().size() != 1) {
    fail_invalid("tickets is {}, not a list of s64",
                 shape_text(tickets.element_type(), tickets.dimensions()));
  }
  const auto* x =
      static_cast<const float*>(buffers.argument("x", ffi::DataType::F32, {}));
  auto* result =
      static_cast<float*>(buffers.result("result", ffi::DataType::F32, {}));
  buffers.done();
  for (std::size_t i = 0; i < tickets.element_count(); ++i) {
    Exchange::instance().release(
        static_cast<const std::int64_t*>(tickets.untyped_data())[i]);
  }
  *result = *x;
}

void to_features(ffi::ThreadPool pool, ffi::RemainingArgs args,
                 ffi::RemainingRets rets, ffi::Dictionary attributes) {
  Buffers buffers(args, rets);
  const std::int64_t devices = devices_of(attributes);
  const Matrix x = next_argument(buffers, "x");
  const std::int64_t* tickets = next_tickets(buffers, devices);
  check_unit(x.columns / devices);
  same("columns of x are", x.columns, x.columns / devices * devices);
  const std::int64_t own = x.columns / devices;
  std::vector<Matrix> results;
  std::int64_t floats = 0;
  for (std::size_t i = 0; i < buffers.results(); ++i) {
    const Matrix y = next_result(buffers, "y");
    same("rows of y are", y.rows, x.rows);
    floats += turned_floats(y.columns, own);
    results.push_back(y);
  }
  buffers.done();
  const auto arrays = take_all(tickets, devices, kTurned, floats);
  std::vector<Product::Part> a;
  for (std::int64_t d = 0; d < devices; ++d) {
    a.push_back({x.data + d * own, x.columns, own});
  }
  std::int64_t begin = 0;
  for (const Matrix& y : results) {
    std::vector<const float*> b;
    for (const auto& array : arrays) {
      for (std::int64_t g = 0; g < groups(y.columns); ++g) {
        b.push_back(array.data.get() + begin + g * group_floats(own));
      }
    }
    multiply(
        {.rows = y.rows, .columns = y.columns, .a = a, .b = b, .c = y.data},
        workers_of(pool, devices));
    begin += turned_floats(y.columns, own);
  }
}

void from_features(ffi::ThreadPool pool, ffi::RemainingArgs args,
                   ffi::RemainingRets rets, ffi::Dictionary attributes) {
  Buffers buffers(args, rets);
  const std::int64_t devices = devices_of(attributes);
  const Matrix x = next_result(buffers, "result");
  check_unit(x.columns / devices);
  same("columns of the result are", x.columns, x.columns / devices * devices);
  const std::int64_t own = x.columns / devices;
  std::vector<Product::Part> a;
  std::int64_t floats = 0;
  for (std::size_t i = 0; i + 1 < buffers.arguments(); ++i) {
    const Matrix y = next_argument(buffers, "y");
    same("rows of y are", y.rows, x.rows);
    floats += plain_floats(y.columns, own);
    a.push_back({y.data, y.columns, y.columns});
  }
  const std::int64_t* tickets = next_tickets(buffers, devices);
  buffers.done();
  const auto arrays = take_all(tickets, devices, kPlain, floats);
  std::vector<const float*> b;
  std::int64_t begin = 0;
  for (const Product::Part& part : a) {
    for (const auto& array : arrays) {
      for (std::int64_t g = 0; g < groups(own); ++g) {
        b.push_back(array.data.get() + begin + g * group_floats(part.depth));
      }
    }
    begin += plain_floats(part.depth, own);
  }
  multiply({.rows = x.rows, .columns = x.columns, .a = a, .b = b, .c = x.data},
           workers_of(pool, devices));
}

// In an array of activations: x's groups, then panels of each y.
std::int64_t x_floats(std::int64_t tokens, std::int64_t columns) {
  return groups(columns) * group_floats(tokens);
}
std::int64_t y_floats(std::int64_t tokens, std::int64_t features) {
  return panels(features) * panel_floats(tokens);
}

void share_activations(ffi::ThreadPool, ffi::RemainingArgs args,
                       ffi::RemainingRets rets, ffi::Dictionary attributes) {
  Buffers buffers(args, rets);
  const Matrix x = next_argument(buffers, "x");
  std::int64_t floats = x_floats(x.rows, x.columns);
  std::vector<Matrix> all;
  for (std::size_t i = 1; i < buffers.arguments(); ++i) {
    const Matrix y = next_argument(buffers, "y");
    same("rows of y are", y.rows, x.rows);
    floats += y_floats(y.rows, y.columns);
    all.push_back(y);
  }
  Exchange::Array array = Exchange::allocate(kActivations, floats);
  float* to = array.data.get();
  to_groups(x.data, x.rows, x.columns, to);
  to += x_floats(x.rows, x.columns);
  for (const Matrix& y : all) {
    to_panels(y.data, y.rows, y.columns, to);
    to += y_floats(y.rows, y.columns);
  }
  give_ticket(buffers, std::move(array), devices_of(attributes));
}

void weight_gradients(ffi::ThreadPool pool, ffi::RemainingArgs args,
                      ffi::RemainingRets rets, ffi::Dictionary attributes) {
  Buffers buffers(args, rets);
  const std::int64_t devices = devices_of(attributes);
  const auto tokens = attribute<std::int64_t>(attributes, "tokens");
  const std::int64_t* tickets = next_tickets(buffers, devices);
  const std::int64_t index = *static_cast<const std::int32_t*>(
      buffers.argument("index", ffi::DataType::S32, {}));
  if (tokens < 0) fail_invalid("attribute tokens is {}", tokens);
  if (index < 0 || index >= devices) fail_invalid("index is {}", index);
  std::vector<Matrix> results;
  for (std::size_t i = 0; i < buffers.results(); ++i) {
    const Matrix dw = next_result(buffers, "gradient");
    check_unit(dw.columns);
    if (i > 0) same("columns are", dw.columns, results[0].columns);
    results.push_back(dw);
  }
  buffers.done();
  if (results.empty()) fail_invalid("there is no result");
  const std::int64_t own = results[0].columns;
  std::int64_t floats = x_floats(tokens, own * devices);
  for (const Matrix& dw : results) floats += y_floats(tokens, dw.rows);
  const auto arrays = take_all(tickets, devices, kActivations, floats);
  std::vector<const float*> b;
  for (const auto& array : arrays) {
    for (std::int64_t g = 0; g < groups(own); ++g) {
      b.push_back(array.data.get() +
                  (index * groups(own) + g) * group_floats(tokens));
    }
  }
  std::int64_t begin = x_floats(tokens, own * devices);
  for (const Matrix& dw : results) {
    std::vector<Product::Part> a;
    for (const auto& array : arrays) {
      a.push_back({array.data.get() + begin, panel_floats(tokens), tokens});
    }
    multiply({.rows = dw.rows,
              .columns = own,
              .a = a,
              .a_in_panels = true,
              .b = b,
              .c = dw.data},
             workers_of(pool, devices));
    begin += y_floats(tokens, dw.rows);
  }
}

constexpr auto kShareWeightsCall = handle<share_weights, kShareWeights>;
constexpr auto kReleaseCall = handle<release, kRelease>;
constexpr auto kToFeaturesCall = handle<to_features, kToFeatures>;
constexpr auto kFromFeaturesCall = handle<from_features, kFromFeatures>;
constexpr auto kShareActivationsCall =
    handle<share_activations, kShareActivations>;
constexpr auto kWeightGradientsCall =
    handle<weight_gradients, kWeightGradients>;

XLA_FFI_DEFINE_HANDLER(kShareWeightsHandler, kShareWeightsCall, call_binding());
XLA_FFI_DEFINE_HANDLER(kReleaseHandler, kReleaseCall, call_binding());
XLA_FFI_DEFINE_HANDLER(kToFeaturesHandler, kToFeaturesCall, call_binding());
XLA_FFI_DEFINE_HANDLER(kFromFeaturesHandler, kFromFeaturesCall, call_binding());
XLA_FFI_DEFINE_HANDLER(kShareActivationsHandler, kShareActivationsCall,
                       call_binding());
XLA_FFI_DEFINE_HANDLER(kWeightGradientsHandler, kWeightGradientsCall,
                       call_binding());

}  // namespace

std::string share_attributes(std::int64_t devices, bool turned, bool kept) {
  return fmt::format(
      "{{devices = {} : i64, turned = {} : i64, kept = {} : i64}}", devices,
      turned ? 1 : 0, kept ? 1 : 0);
}
std::string attributes(std::int64_t devices) {
  return fmt::format("{{devices = {} : i64}}", devices);
}
std::string gradient_attributes(std::int64_t devices, std::int64_t tokens) {
  return fmt::format("{{devices = {} : i64, tokens = {} : i64}}", devices,
                     tokens);
}

std::span<const attention::cpu::FfiHandler> ffi_handlers() {
  static const attention::cpu::FfiHandler handlers[] = {
      {kShareWeights, reinterpret_cast<void*>(kShareWeightsHandler)},
      {kRelease, reinterpret_cast<void*>(kReleaseHandler)},
      {kToFeatures, reinterpret_cast<void*>(kToFeaturesHandler)},
      {kFromFeatures, reinterpret_cast<void*>(kFromFeaturesHandler)},
      {kShareActivations, reinterpret_cast<void*>(kShareActivationsHandler)},
      {kWeightGradients, reinterpret_cast<void*>(kWeightGradientsHandler)},
  };
  return handlers;
}

}  // namespace ringmax::model::cpu
