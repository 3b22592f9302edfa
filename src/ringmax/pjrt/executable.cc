#include "ringmax/pjrt/executable.h"

#include <utility>

#include "ringmax/pjrt/api.h"
#include "ringmax/pjrt/element_type.h"

namespace ringmax::pjrt {

Executable::Executable(std::shared_ptr<const Api> api,
                       PJRT_Executable* executable,
                       std::shared_ptr<const void> owner)
    : api_(std::move(api)) {
  executable_ = std::shared_ptr<PJRT_Executable>(
      executable, [table = api_, keep = std::move(owner)](PJRT_Executable* e) {
        RINGMAX_PJRT_ARGS(PJRT_Executable_Destroy_Args, args);
        args.executable = e;
        RINGMAX_PJRT_CALL_QUIETLY(*table, PJRT_Executable_Destroy, args);
      });
}

std::string Executable::name() const {
  RINGMAX_PJRT_ARGS(PJRT_Executable_Name_Args, args);
  args.executable = executable_.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_Name, args);
  return to_string(args.executable_name, args.executable_name_size);
}

std::int64_t Executable::num_replicas() const {
  RINGMAX_PJRT_ARGS(PJRT_Executable_NumReplicas_Args, args);
  args.executable = executable_.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_NumReplicas, args);
  return static_cast<std::int64_t>(args.num_replicas);
}

std::int64_t Executable::num_partitions() const {
  RINGMAX_PJRT_ARGS(PJRT_Executable_NumPartitions_Args, args);
  args.executable = executable_.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_NumPartitions, args);
  return static_cast<std::int64_t>(args.num_partitions);
}

std::int64_t Executable::num_outputs() const {
  RINGMAX_PJRT_ARGS(PJRT_Executable_NumOutputs_Args, args);
  args.executable = executable_.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_NumOutputs, args);
  return static_cast<std::int64_t>(args.num_outputs);
}

std::vector<Shape> Executable::output_shapes() const {
  RINGMAX_PJRT_ARGS(PJRT_Executable_OutputElementTypes_Args, types);
  types.executable = executable_.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_OutputElementTypes, types);
  RINGMAX_PJRT_ARGS(PJRT_Executable_OutputDimensions_Args, dims);
  dims.executable = executable_.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_OutputDimensions, dims);
  std::vector<Shape> shapes;
  const std::int64_t* next = dims.dims;
  for (std::size_t i = 0; i < dims.num_outputs; ++i) {
    const std::int64_t* end = next + dims.dim_sizes[i];
    shapes.emplace_back(from_element_type(types.output_types[i]),
                        Dims(next, end));
    next = end;
  }
  return shapes;
}

MemoryStats Executable::memory_stats() const {
  RINGMAX_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, args);
  args.executable = executable_.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_GetCompiledMemoryStats, args);
  MemoryStats stats;
  stats.arguments = args.argument_size_in_bytes;
  stats.outputs = args.output_size_in_bytes;
  stats.aliased = args.alias_size_in_bytes;
  stats.temporaries = args.temp_size_in_bytes;
  stats.code = args.generated_code_size_in_bytes;
  stats.peak = args.peak_memory_in_bytes;
  return stats;
}

NamedValues Executable::cost_analysis() const {
  RINGMAX_PJRT_ARGS(PJRT_Executable_GetCostAnalysis_Args, args);
  args.executable = executable_.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_GetCostAnalysis, args);
  return from_c_values(args.properties, args.num_properties);
}

CompiledProgram Executable::optimized_program() const {
  RINGMAX_PJRT_ARGS(PJRT_Program, program);
  RINGMAX_PJRT_ARGS(PJRT_Executable_OptimizedProgram_Args, args);
  args.executable = executable_.get();
  args.program = &program;
  // The first call gives the size, the second the bytes.
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_OptimizedProgram, args);
  CompiledProgram result;
  result.code.resize(program.code_size);
  program.code = result.code.data();
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_OptimizedProgram, args);
  result.format = to_string(program.format, program.format_size);
  return result;
}

std::string Executable::fingerprint() const {
  RINGMAX_PJRT_ARGS(PJRT_Executable_Fingerprint_Args, args);
  args.executable = executable_.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_Fingerprint, args);
  return to_string(args.executable_fingerprint,
                   args.executable_fingerprint_size);
}

std::string Executable::serialize() const {
  RINGMAX_PJRT_ARGS(PJRT_Executable_Serialize_Args, args);
  args.executable = executable_.get();
  RINGMAX_PJRT_CALL(*api_, PJRT_Executable_Serialize, args);
  std::string bytes =
      to_string(args.serialized_bytes, args.serialized_bytes_size);
  args.serialized_executable_deleter(args.serialized_executable);
  return bytes;
}

}  // namespace ringmax::pjrt
