#include "ringmax/kernel/testing/mosaic_interpreter.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "ringmax/base/error.h"
#include "ringmax/kernel/mosaic.h"
#include "ringmax/kernel/testing/mosaic_parser.h"

namespace ringmax::kernel::testing {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::int64_t product(const Ints& dims) {
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= d;
  return n;
}

// Rounds to nearest even by the bits of a float32.
double to_bf16(double x) {
  const auto f = static_cast<float>(x);
  if (std::isnan(f)) return kNan;
  auto bits = std::bit_cast<std::uint32_t>(f);
  bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
  return std::bit_cast<float>(bits);
}
double rounded(double x, const std::string& element) {
  if (element == "f32") return static_cast<float>(x);
  if (element == "bf16") return to_bf16(x);
  return x;
}

// Calls f(index) for all indices within dims, row-major.
void each(const Ints& dims, const std::function<void(const Ints&)>& f) {
  Ints index(dims.size(), 0);
  const std::int64_t count = product(dims);
  for (std::int64_t n = 0; n < count; ++n) {
    f(index);
    for (std::size_t d = dims.size(); d-- > 0;) {
      if (++index[d] < dims[d]) break;
      index[d] = 0;
    }
  }
}
std::size_t flat(const Ints& dims, const Ints& index) {
  std::int64_t at = 0;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (index[d] < 0 || index[d] >= dims[d]) {
      fail_invalid("an access at {} outside of {}", index[d], dims[d]);
    }
    at = at * dims[d] + index[d];
  }
  return static_cast<std::size_t>(at);
}

Numbers filled(const Ints& dims, double value) {
  return Numbers{dims, std::vector<double>(
                           static_cast<std::size_t>(product(dims)), value)};
}

struct Slot {
  Numbers numbers;               // of a value
  std::shared_ptr<Numbers> ref;  // of a memref
  MlirType type;
};
using Environment = std::map<std::string, Slot>;

Ints integers(const std::string& list) {
  Ints values;
  for (const std::string& text : split_list(list)) {
    values.push_back(std::stoll(text));
  }
  return values;
}

double literal(const std::string& text, const std::string& element) {
  if (text == "true") return 1;
  if (text == "false") return 0;
  if (text.rfind("0x", 0) == 0 && (element == "f32" || element == "bf16")) {
    const auto bits = static_cast<std::uint32_t>(std::stoul(text, nullptr, 16));
    return std::bit_cast<float>(element == "bf16" ? bits << 16 : bits);
  }
  return std::stod(text);
}

class Machine {
 public:
  void run(const MlirBlock& block, Environment& env,
           std::vector<Numbers>* results) {
    for (const MlirOp& op : block.ops) {
      const std::string name = op.name.substr(op.name.find('.') + 1);
      if (name == "func.return" || name == "scf.yield") {
        for (const std::string& operand : op.operands) {
          results->push_back(env.at(operand).numbers);
        }
        return;
      }
      execute(name, op, env);
    }
  }

 private:
  static void define(Environment& env, const MlirOp& op, std::size_t r,
                     Numbers value) {
    const MlirType& type = op.result_types[r];
    if (value.dims != type.dims) {
      fail_invalid("{} makes another shape than it says", op.name);
    }
    for (double& x : value.data) x = rounded(x, type.element);
    env[op.results[r]] = Slot{std::move(value), nullptr, type};
  }

  void execute(const std::string& name, const MlirOp& op, Environment& env) {
    const auto x = [&](std::size_t i) -> const Numbers& {
      return env.at(op.operands.at(i)).numbers;
    };
    if (name == "scf.if") {
      std::vector<Numbers> none;
      return run(op.regions.at(x(0).data[0] != 0 ? 0 : 1), env, &none);
    }
    if (name == "scf.for") return loop(op, env);
    if (name == "tpu.vector_store") return store(op, env);
    define(env, op, 0, value(name, op, env, x));
  }

  template <typename Operand>
  Numbers value(const std::string& name, const MlirOp& op, Environment& env,
                const Operand& x) {
    const MlirType& type = op.result_types.at(0);
    if (name == "arith.constant") {
      std::string text = op.attribute("value");
      text = text.substr(0, text.rfind(" : "));
      if (text.rfind("dense<", 0) == 0) text = split_list(text).at(0);
      return filled(type.dims, literal(text, type.element));
    }
    if (name == "tpu.iota") {
      const auto dim =
          static_cast<std::size_t>(integers(op.attribute("dimensions")).at(0));
      Numbers out = filled(type.dims, 0);
      each(type.dims, [&](const Ints& i) {
        out.data[flat(type.dims, i)] = static_cast<double>(i[dim]);
      });
      return out;
    }
    if (name == "vector.load" || name == "memref.load") return load(op, env);
    if (name == "tpu.matmul") return matmul(op, x(0), x(1), x(2));
    if (name == "vector.multi_reduction") return reduce(op, x(0), x(1));
    if (name == "vector.shape_cast") {
      if (product(type.dims) != product(x(0).dims)) {
        fail_invalid("a shape_cast changes the number of elements");
      }
      return Numbers{type.dims, x(0).data};
    }
    if (name == "vector.broadcast") return broadcast(x(0), type.dims);
    if (name == "tpu.transpose") {
      const Ints order = integers(op.attribute("permutation"));
      Numbers out = filled(type.dims, 0);
      each(type.dims, [&](const Ints& i) {
        Ints from(i.size());
        for (std::size_t d = 0; d < i.size(); ++d) {
          from[static_cast<std::size_t>(order[d])] = i[d];
        }
        out.data[flat(type.dims, i)] = x(0).data[flat(x(0).dims, from)];
      });
      return out;
    }
    if (name == "tpu.concatenate") {
      const auto dim =
          static_cast<std::size_t>(std::stoll(op.attribute("dimension")));
      Numbers out = filled(type.dims, kNan);
      std::int64_t start = 0;
      for (std::size_t p = 0; p < op.operands.size(); ++p) {
        each(x(p).dims, [&](const Ints& i) {
          Ints to = i;
          to[dim] += start;
          out.data[flat(type.dims, to)] = x(p).data[flat(x(p).dims, i)];
        });
        start += x(p).dims[dim];
      }
      return out;
    }
    if (name == "vector.extract_strided_slice") {
      const Ints offsets = integers(op.attribute("offsets"));
      if (integers(op.attribute("sizes")) != type.dims ||
          integers(op.attribute("strides")) != Ints(type.dims.size(), 1)) {
        fail_invalid("a slice whose sizes are not those of its result");
      }
      Numbers out = filled(type.dims, 0);
      each(type.dims, [&](const Ints& i) {
        Ints from = i;
        for (std::size_t d = 0; d < i.size(); ++d) from[d] += offsets[d];
        out.data[flat(type.dims, i)] = x(0).data[flat(x(0).dims, from)];
      });
      return out;
    }
    if (name == "tpu.assume_multiple") {
      const auto n = static_cast<double>(std::stoll(op.attribute("multiple")));
      if (std::fmod(x(0).data[0], n) != 0) {
        fail_invalid("{} is not the multiple of {} that it should be",
                     x(0).data[0], n);
      }
      return x(0);
    }
    if (name == "arith.select") {
      Numbers out = x(1);
      for (std::size_t i = 0; i < out.data.size(); ++i) {
        const double p = x(0).data[x(0).data.size() == 1 ? 0 : i];
        if (p == 0) out.data[i] = x(2).data[i];
      }
      return out;
    }
    if (op.operands.size() == 1) return unary(name, x(0));
    if (name == "arith.cmpi" || name == "arith.cmpf") {
      const std::string predicate =
          name[9] + op.attribute("predicate")
                        .substr(0, op.attribute("predicate").find(' '));
      return zip(x(0), x(1), [&](double a, double b) {
        return compare(predicate, a, b) ? 1.0 : 0.0;
      });
    }
    return zip(x(0), x(1), binary(name));
  }

  static Numbers unary(const std::string& name, const Numbers& x) {
    static const std::map<std::string, double (*)(double)> kFunctions = {
        {"arith.negf", [](double a) { return -a; }},
        {"math.absf", [](double a) { return std::fabs(a); }},
        {"math.exp2", [](double a) { return std::exp2(a); }},
        {"math.log", [](double a) { return std::log(a); }},
        {"math.tanh", [](double a) { return std::tanh(a); }},
        {"arith.extf", [](double a) { return a; }},
        {"arith.truncf", [](double a) { return a; }},
        {"arith.sitofp", [](double a) { return a; }},
        {"arith.extui", [](double a) { return a; }},
        {"arith.index_cast", [](double a) { return a; }},
    };
    const auto found = kFunctions.find(name);
    if (found == kFunctions.end()) fail_invalid("Mosaic op {} unknown", name);
    Numbers out = x;
    for (double& a : out.data) a = found->second(a);
    return out;
  }

  using Binary = std::function<double(double, double)>;
  static Binary binary(const std::string& name) {
    const auto bits = [](auto f) {
      return [f](double a, double b) {
        return static_cast<double>(
            f(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b)));
      };
    };
    static const std::map<std::string, Binary> kFunctions = {
        {"arith.addf", std::plus<double>()},
        {"arith.addi", std::plus<double>()},
        {"arith.subf", std::minus<double>()},
        {"arith.subi", std::minus<double>()},
        {"arith.mulf", std::multiplies<double>()},
        {"arith.muli", std::multiplies<double>()},
        {"arith.divf", std::divides<double>()},
        {"arith.divsi", [](double a, double b) { return std::trunc(a / b); }},
        {"arith.remsi", [](double a, double b) { return std::fmod(a, b); }},
        {"arith.maximumf",
         [](double a, double b) {
           return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b);
         }},
        {"arith.minimumf",
         [](double a, double b) {
           return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b);
         }},
        {"arith.maxsi", [](double a, double b) { return std::max(a, b); }},
        {"arith.minsi", [](double a, double b) { return std::min(a, b); }},
        {"arith.andi", bits(std::bit_and<std::int64_t>())},
        {"arith.ori", bits(std::bit_or<std::int64_t>())},
        {"arith.xori", bits(std::bit_xor<std::int64_t>())},
        {"arith.shrui",
         [](double a, double b) {
           return static_cast<double>(
               static_cast<std::uint32_t>(static_cast<std::int32_t>(a)) >>
               static_cast<unsigned>(b));
         }},
    };
    const auto found = kFunctions.find(name);
    if (found == kFunctions.end()) fail_invalid("Mosaic op {} unknown", name);
    return found->second;
  }
  static Numbers zip(const Numbers& a, const Numbers& b, const Binary& f) {
    if (a.dims != b.dims) fail_invalid("operands of different shapes");
    Numbers out = a;
    for (std::size_t i = 0; i < out.data.size(); ++i) {
      out.data[i] = f(a.data[i], b.data[i]);
    }
    return out;
  }

  // MLIR's numbers of predicates: "i" for integers, "f" for floats.
  static bool compare(const std::string& predicate, double a, double b) {
    if (predicate == "i0" || predicate == "f1") return a == b;
    if (predicate == "i1") return a != b;
    if (predicate == "i2" || predicate == "f4") return a < b;
    if (predicate == "i3" || predicate == "f5") return a <= b;
    if (predicate == "i4" || predicate == "f2") return a > b;
    if (predicate == "i5" || predicate == "f3") return a >= b;
    fail_invalid("comparison {} unknown", predicate);
  }

  static Numbers broadcast(const Numbers& x, const Ints& dims) {
    Numbers out = filled(dims, 0);
    each(dims, [&](const Ints& i) {
      Ints from(x.dims.size());
      for (std::size_t d = 0; d < from.size(); ++d) {
        from[d] = x.dims[d] == 1 ? 0 : i[i.size() - from.size() + d];
      }
      out.data[flat(dims, i)] = x.data[flat(x.dims, from)];
    });
    return out;
  }

  static Numbers matmul(const MlirOp& op, const Numbers& a, const Numbers& b,
                        const Numbers& init) {
    const std::vector<std::string> numbers =
        split_list(op.attribute("dimension_numbers").substr(26));
    const auto lhs = static_cast<std::size_t>(integers(numbers.at(0)).at(0));
    const auto rhs = static_cast<std::size_t>(integers(numbers.at(1)).at(0));
    const Ints order = {0, 1 - static_cast<std::int64_t>(lhs), 1,
                        1 - static_cast<std::int64_t>(rhs)};
    if (integers(numbers.at(2)).at(0) != order[1] ||
        integers(numbers.at(3)).at(0) != order[3] ||
        integers(numbers.at(4)) != order || a.dims[lhs] != b.dims[rhs] ||
        op.attribute("transpose_lhs") != "false" ||
        op.attribute("transpose_rhs") != "false") {
      fail_invalid("dimension numbers that do not fit together");
    }
    const bool exact = op.attributes.count("precision") != 0;
    const auto operand = [&](double v) { return exact ? v : to_bf16(v); };
    Numbers out = init;
    const std::int64_t columns = b.dims[1 - rhs];
    const std::int64_t rows = a.dims[1 - lhs];
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        float sum = 0;
        for (std::int64_t n = 0; n < a.dims[lhs]; ++n) {
          const auto at = static_cast<std::size_t>(
              lhs == 1 ? i * a.dims[1] + n : n * a.dims[1] + i);
          const auto bt = static_cast<std::size_t>(
              rhs == 1 ? j * b.dims[1] + n : n * b.dims[1] + j);
          sum += static_cast<float>(operand(a.data[at]) * operand(b.data[bt]));
        }
        out.data[static_cast<std::size_t>(i * columns + j)] +=
            static_cast<double>(sum);
      }
    }
    return out;
  }

  static Numbers reduce(const MlirOp& op, const Numbers& x, Numbers out) {
    const auto dim = static_cast<std::size_t>(
        integers(op.attribute("reduction_dims")).at(0));
    const std::string kind = split_list(op.attribute("kind")).at(0);
    const Binary f = binary(kind == "add" ? "arith.addf" : "arith." + kind);
    each(x.dims, [&](const Ints& i) {
      Ints to = i;
      to.erase(to.begin() + static_cast<std::ptrdiff_t>(dim));
      double& sum = out.data[flat(out.dims, to)];
      sum = rounded(f(sum, x.data[flat(x.dims, i)]), "f32");
    });
    return out;
  }

  static Ints start_of(const MlirOp& op, const Environment& env,
                       std::size_t first) {
    Ints start;
    for (std::size_t i = first; i < op.operands.size(); ++i) {
      start.push_back(
          static_cast<std::int64_t>(env.at(op.operands[i]).numbers.data.at(0)));
    }
    return start;
  }
  static Numbers load(const MlirOp& op, const Environment& env) {
    const Numbers& ref = *env.at(op.operands.at(0)).ref;
    const Ints start = start_of(op, env, 1);
    const Ints& dims = op.result_types[0].dims;
    Numbers out = filled(dims, 0);
    each(dims, [&](const Ints& i) {
      Ints from = start;
      for (std::size_t d = 0; d < i.size(); ++d) from[d] += i[d];
      out.data[flat(dims, i)] = ref.data[flat(ref.dims, from)];
    });
    return out;
  }
  static void store(const MlirOp& op, const Environment& env) {
    if (op.attribute("add") != "false") fail_invalid("an adding store");
    const Numbers& value = env.at(op.operands.at(0)).numbers;
    Numbers& ref = *env.at(op.operands.at(1)).ref;
    const Ints start = start_of(op, env, 2);
    each(value.dims, [&](const Ints& i) {
      Ints to = start;
      for (std::size_t d = 0; d < i.size(); ++d) to[d] += i[d];
      ref.data[flat(ref.dims, to)] = value.data[flat(value.dims, i)];
    });
  }

  void loop(const MlirOp& op, Environment& env) {
    const auto scalar = [&](std::size_t i) {
      return env.at(op.operands.at(i)).numbers.data.at(0);
    };
    const double high = scalar(1);
    const double step = scalar(2);
    const MlirBlock& body = op.regions.at(0);
    std::vector<Numbers> carried;
    for (std::size_t i = 3; i < op.operands.size(); ++i) {
      carried.push_back(env.at(op.operands[i]).numbers);
    }
    for (double i = scalar(0); i < high; i += step) {
      env[body.arguments[0]] = Slot{Numbers{{}, {i}}, nullptr, {}};
      for (std::size_t c = 0; c < carried.size(); ++c) {
        env[body.arguments[c + 1]] = Slot{carried[c], nullptr, {}};
      }
      carried.clear();
      run(body, env, &carried);
    }
    for (std::size_t c = 0; c < carried.size(); ++c) {
      define(env, op, c, carried[c]);
    }
  }
};

struct Window {
  std::string transform;
  Ints bounds;
  bool output = false;
  std::shared_ptr<Numbers> array;  // in HBM
  std::shared_ptr<Numbers> buffer;
  Ints block;                 // where the buffer is; empty before the first
  std::map<Ints, bool> left;  // blocks that were left
  bool integer = false;
};

double garbage(bool integer) {
  return integer ? std::numeric_limits<std::int32_t>::min() : kNan;
}

void copy(const Window& w, bool in) {
  each(w.bounds, [&](const Ints& i) {
    Ints at = i;
    for (std::size_t d = 0; d < i.size(); ++d)
      at[d] += w.block[d] * w.bounds[d];
    double& hbm = w.array->data[flat(w.array->dims, at)];
    double& vmem = w.buffer->data[flat(w.bounds, i)];
    if (in) {
      vmem = hbm;
    } else {
      hbm = vmem;
    }
  });
}

void leave(Window& w) {
  if (w.block.empty()) return;
  if (w.output) copy(w, /*in=*/false);
  w.left[w.block] = true;
}

void enter(Window& w, const Ints& block) {
  if (w.block == block) return;
  leave(w);
  w.block = block;
  if (!w.output) return copy(w, /*in=*/true);
  if (w.left.count(block) != 0) {
    fail_invalid("an output block is visited again after it was left");
  }
  for (double& v : w.buffer->data) v = garbage(w.integer);
}

}  // namespace

std::vector<Numbers> run_mosaic(const MosaicCall& call) {
  const MlirOp module = parse_mlir(call.text);
  std::map<std::string, const MlirOp*> functions;
  const MlirOp* main = nullptr;
  for (const MlirOp& f : module.regions.at(0).ops) {
    std::string symbol = f.attribute("sym_name");
    symbol = symbol.substr(1, symbol.size() - 2);
    functions[symbol] = &f;
    if (f.attributes.count("iteration_bounds") != 0) main = &f;
  }
  const MlirBlock& body = main->regions.at(0);
  Ints bounds = integers(main->attribute("iteration_bounds"));
  for (std::int64_t& b : bounds) {
    if (b == std::numeric_limits<std::int64_t>::min()) b = call.walk_length;
  }

  const std::size_t first_window = bounds.size() + call.prefetch.size();
  std::vector<Window> windows;
  for (const std::string& text : split_list(main->attribute("window_params"))) {
    Window w;
    for (const std::string& part : split_list(text)) {
      if (part.rfind("transform_indices", 0) == 0) {
        w.transform = part.substr(part.find('@') + 1);
      }
      if (part.rfind("window_bounds", 0) == 0) {
        w.bounds = integers(part.substr(part.find("array")));
      }
    }
    const std::size_t n = windows.size();
    const MlirType& type = body.argument_types.at(first_window + n);
    if (type.dims != w.bounds) fail_invalid("window bounds unlike the memref");
    w.integer = type.element[0] == 'i';
    w.buffer = std::make_shared<Numbers>(filled(w.bounds, garbage(w.integer)));
    w.output = n >= call.inputs.size();
    if (!w.output) {
      w.array = std::make_shared<Numbers>(call.inputs[n]);
    } else {
      const std::size_t o = n - call.inputs.size();
      const int alias = call.aliases.at(o);
      w.array = alias >= 0 ? windows.at(static_cast<std::size_t>(alias)).array
                           : std::make_shared<Numbers>(filled(
                                 call.output_dims.at(o), garbage(w.integer)));
    }
    windows.push_back(std::move(w));
  }

  Machine machine;
  const auto bind = [&](const MlirBlock& block, const Ints& ids) {
    Environment env;
    for (std::size_t i = 0; i < block.arguments.size(); ++i) {
      Slot slot;
      slot.type = block.argument_types[i];
      if (i < ids.size()) {
        slot.numbers = Numbers{{}, {static_cast<double>(ids[i])}};
      } else if (i < first_window) {
        slot.ref = std::make_shared<Numbers>(call.prefetch[i - ids.size()]);
      } else if (i < first_window + windows.size()) {
        slot.ref = windows[i - first_window].buffer;
      } else {
        slot.ref = std::make_shared<Numbers>(
            filled(slot.type.dims, garbage(slot.type.element[0] == 'i')));
      }
      env[block.arguments[i]] = std::move(slot);
    }
    return env;
  };

  // Parallel programs may run in any order: the last one first.
  Ints parallel(bounds.begin(), bounds.end() - 1);
  each(parallel, [&](const Ints& forward) {
    Ints ids = forward;
    for (std::size_t d = 0; d < ids.size(); ++d) {
      ids[d] = parallel[d] - 1 - ids[d];
    }
    ids.push_back(0);
    Environment env = bind(body, ids);
    for (; ids.back() < bounds.back(); ++ids.back()) {
      for (Window& w : windows) {
        const MlirBlock& map = functions.at(w.transform)->regions.at(0);
        Environment inner = bind(map, ids);
        std::vector<Numbers> block;
        machine.run(map, inner, &block);
        Ints indices;
        for (const Numbers& b : block) {
          indices.push_back(static_cast<std::int64_t>(b.data.at(0)));
        }
        enter(w, indices);
      }
      for (std::size_t d = 0; d < ids.size(); ++d) {
        env[body.arguments[d]].numbers.data = {static_cast<double>(ids[d])};
      }
      std::vector<Numbers> none;
      machine.run(body, env, &none);
    }
  });
  std::vector<Numbers> results;
  for (Window& w : windows) {
    if (!w.output) continue;
    leave(w);
    results.push_back(*w.array);
  }
  return results;
}

namespace {

Numbers numbers_of(const HostArray& array) {
  const HostArray doubles = array.convert(DType::kF64);
  const auto data = std::as_const(doubles).data<double>();
  return Numbers{array.shape().dims, {data.begin(), data.end()}};
}

}  // namespace

MosaicProgram::MosaicProgram(const Kernel& kernel)
    : dynamic_(kernel.walk_dynamic()),
      prefetched_(kernel.refs_of(RefKind::kPrefetch).size()) {
  call_.text = mosaic_text(kernel);
  const std::vector<RefId> inputs = kernel.refs_of(RefKind::kInput);
  for (const RefId id : kernel.refs_of(RefKind::kOutput)) {
    call_.output_dims.push_back(kernel.ref(id).array.dims);
    output_dtypes_.push_back(kernel.ref(id).array.dtype);
    int alias = -1;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == kernel.ref(id).alias) alias = static_cast<int>(i);
    }
    call_.aliases.push_back(alias);
  }
}

std::vector<HostArray> MosaicProgram::run(
    const std::vector<HostArray>& operands) const {
  MosaicCall call = call_;
  std::size_t next = 0;
  if (dynamic_) call.walk_length = operands.at(next++).data<std::int32_t>()[0];
  for (std::size_t i = 0; i < prefetched_; ++i) {
    call.prefetch.push_back(numbers_of(operands.at(next++)));
  }
  while (next < operands.size()) {
    call.inputs.push_back(numbers_of(operands[next++]));
  }
  const std::vector<Numbers> numbers = run_mosaic(call);
  std::vector<HostArray> results;
  for (std::size_t o = 0; o < numbers.size(); ++o) {
    HostArray doubles(Shape(DType::kF64, numbers[o].dims));
    std::copy(numbers[o].data.begin(), numbers[o].data.end(),
              doubles.data<double>().begin());
    results.push_back(doubles.convert(output_dtypes_[o]));
  }
  return results;
}

}  // namespace ringmax::kernel::testing
